"""data.json, data.csv, data.xml, data.yaml: text to data, and a part of it by path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kedge.base.errors import InvalidPlan, ToolError
from kedge.base.limits import Limits
from kedge.plan.json_text import load_json
from kedge.plan.yaml_text import load_yaml
from kedge.tools.builtin.csv_text import load_csv
from kedge.tools.builtin.query import query as part_of
from kedge.tools.builtin.xml_text import load_xml
from kedge.tools.function import tool
from kedge.tools.tool import Tool

TEXT_MAX = 16 * 1024 * 1024
_LIMITS = Limits(steps=TEXT_MAX)
"""What reads plans reads data here, and a list named `steps` is one like others."""
_REMEDIES = {
    "empty_document": "give text with data in it",
    "json_comment": "remove it",
    "too_deep": "flatten it, or read it with a tool of your own",
}
"""By code, where the reader's own remedy is about plans."""


@tool(name="data.json", effect="pure")
def read_json(text: str, query: str = "") -> Any:
    """Read JSON text as data.

    text: the JSON
    query: the part that is wanted, as in items[0].name; all of it if left out
    """
    return part_of(_loaded("JSON", load_json, text), query)


@tool(name="data.csv", effect="pure")
def read_csv(text: str, query: str = "", delimiter: str = ",", *, typed: bool = False) -> Any:
    """Read CSV text as a list of maps, one for each row, keyed by the first row's names.

    text: the CSV, with a first row of names
    query: the part that is wanted, as in [0].name; all rows if left out
    delimiter: what stands between two cells
    typed: read 12, 1.5, true and empty cells as values; else every cell is text
    """
    return part_of(load_csv(_usable("CSV", text), delimiter, typed=typed), query)


@tool(name="data.xml", effect="pure")
def read_xml(text: str, query: str = "") -> Any:
    """Read XML text as maps {tag, attributes, text, children}, the root element first.

    text: the XML, without a document type
    query: the part that is wanted, as in children[0].text; all of it if left out
    """
    return part_of(load_xml(_usable("XML", text)), query)


@tool(name="data.yaml", effect="pure")
def read_yaml(text: str, query: str = "") -> Any:
    """Read YAML text as data, with JSON's types only: no anchors, no tags.

    text: the YAML
    query: the part that is wanted, as in items[0].name; all of it if left out
    """
    return part_of(_loaded("YAML", lambda usable: load_yaml(usable, _LIMITS), text), query)


def data_tools() -> list[Tool]:
    """The data.* tools."""
    return [read_json, read_csv, read_xml, read_yaml]


def _loaded(form: str, load: Callable[[str], Any], text: str) -> Any:
    usable = _usable(form, text)
    try:
        return load(usable)
    except InvalidPlan as error:
        raise _unreadable(form, error) from error


def _unreadable(form: str, error: InvalidPlan) -> ToolError:
    """The first fault in words that fit data; the rest of them are often its echo."""
    first, *rest = error.findings.errors
    message = first.message.removeprefix(f"not {form}: ")
    more = "" if not rest else " (and 1 more fault)" if len(rest) == 1 else f" (and {len(rest)} more faults)"
    return ToolError(
        f"not {form}: {first.path}: {message}{more}",
        "invalid_input",
        remedy=_REMEDIES.get(first.code, str(first.remedy)),
    )


def _usable(form: str, text: str) -> str:
    """The text without the mark that some programs put before it, if it is not too long."""
    if len(text) > TEXT_MAX:
        raise ToolError(
            f"the {form} has {len(text):,} characters, and at most {TEXT_MAX:,} are read",
            "limit",
            remedy="split it, or read it with a tool of your own",
        )
    return text.removeprefix("\ufeff")
