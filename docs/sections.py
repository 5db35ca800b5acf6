"""The generated sections: each function asks the code and writes Markdown."""

from __future__ import annotations

import importlib
import inspect
import runpy
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from codes import found_codes, meanings
from pages import code, first_line, listed, table
from shapes import default_of, docs_of, type_words

from kedge.assemble import Settings
from kedge.base import errors
from kedge.base.errors import CATEGORIES, KedgeError
from kedge.base.limits import Limits
from kedge.checks.severity import STRICTNESS, severity
from kedge.control.log_events import ACTIONS, WARNINGS
from kedge.flow import events as flow_events
from kedge.flow.transitions import SETTLED, TABLE
from kedge.flow.words import ENDED, RunStatus, StepStatus
from kedge.plan import parts
from kedge.plan.expr import faults
from kedge.plan.expr import functions as expr_functions
from kedge.plan.model import Plan
from kedge.plan.names import TAKEN_NAMES
from kedge.surface.cli import exits
from kedge.surface.cli.app import app
from kedge.tools.builtin import builtin_tools as all_builtin_tools
from kedge.tools.builtin import csv_text, data, files, http, shell, text, xml_text
from kedge.views.narrate import RunEvent
from kedge.views.words import LOOKS, RUN_SENTENCES

_ROOT = Path(__file__).resolve().parent.parent


# --- the plan language


def plan_fields() -> str:
    """The fields of a plan."""
    return _fields(Plan)


def step_fields() -> str:
    """The fields of a step."""
    return _fields(parts.Step)


def part_fields() -> str:
    """The fields of the things inside steps and plans."""
    kinds = (parts.Input, parts.Retry, parts.Loop, parts.Estimate, parts.Approval, parts.Call, parts.Wait)
    return "\n\n".join(
        f"**{kind.__name__}**. {first_line(kind.__doc__)}\n\n{_fields(kind)}" for kind in kinds
    )


def _fields(kind: type[msgspec.Struct]) -> str:
    docs = docs_of(kind)
    later = parts.LATER_FIELDS if kind is parts.Step else ()
    rows = [
        (
            code(field.name) + (" *" if field.name in later else ""),
            type_words(field.type),
            default_of(field),
            docs.get(field.name, ""),
        )
        for field in cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind)).fields
    ]
    return table(("field", "type", "default", "meaning"), rows)


def later_fields() -> str:
    """What no engine acts on yet."""
    return f"{listed(parts.LATER_FIELDS)} and `${{secret.NAME}}`"


def reserved_words() -> str:
    """What no step can be called."""
    values, words = sorted(parts.RESERVED_IDS), sorted(TAKEN_NAMES - parts.RESERVED_IDS)
    return f"Names of values: {listed(values)}.\n\nWords of the expression language: {listed(words)}."


_FUNCTION_WORDS = {
    "len": "Items of a list, entries of a map, characters of a text.",
    "min": "The smallest of numbers, or of texts. Of an empty list: an error.",
    "max": "The largest of numbers, or of texts. Of an empty list: an error.",
    "sum": "Of a list of numbers; 0 for an empty one.",
    "any": "Is one of a list of conditions true?",
    "all": "Are all of a list of conditions true?",
    "abs": "A number without its sign.",
    "round": "To a whole number, or to so many decimals. Halves go to the even neighbour.",
    "str": "A text as it is, anything else as JSON.",
    "int": "A whole number from a number (cut off) or a text such as `42`.",
    "float": "A number from a number or a text such as `4.2`.",
    "bool": "False for 0, empty text, list or map, null and false; else true.",
    "lower": "A text in small letters.",
    "upper": "A text in capitals.",
    "startswith": "Does the text begin with the other?",
    "endswith": "Does the text end with the other?",
}


def functions() -> str:
    """The functions of expressions."""
    known = expr_functions.FUNCTIONS
    rows = [(code(function.usage), _FUNCTION_WORDS.get(name, "")) for name, function in known.items()]
    rows.append(
        ("`present(path)`", "Is there a value that is not null? The one way to ask without an error.")
    )
    return table(("function", "gives"), rows)


def budgets() -> str:
    """What an expression may cost."""
    rows = [
        ("characters of one expression", faults.MAX_TEXT),
        ("brackets and operators inside each other", faults.MAX_DEPTH),
        ("parts of one expression", faults.MAX_NODES),
        ("items and characters looked at in one evaluation", faults.MAX_WORK),
        ("characters of one rendered text", faults.MAX_RENDERED),
    ]
    return table(("what", "at most"), [(what, f"{most:,}") for what, most in rows])


# --- statuses, events, limits


def step_statuses() -> str:
    """Statuses of a step."""
    return _statuses(StepStatus, {one: look.sentence for one, look in LOOKS.items()}, SETTLED)


def run_statuses() -> str:
    """Statuses of a run."""
    return _statuses(RunStatus, dict(RUN_SENTENCES), ENDED)


def _statuses(kind: type[StrEnum], words: Mapping[Any, str], final: Iterable[Any]) -> str:
    docs = docs_of(kind)
    is_step = kind is StepStatus
    rows = [
        (
            code(one.value),
            LOOKS[StepStatus(one)].icon if is_step else exits.OF_STATUS[RunStatus(one)],
            docs.get(one.name) or f"{words[one][0].upper()}{words[one][1:]}.",
            "yes" if one in final else "",
        )
        for one in kind
    ]
    return table(("status", "icon" if is_step else "exit code", "meaning", "final"), rows)


def transitions() -> str:
    """Which event moves a step from where to where."""
    rows = [
        (
            code(kind.__name__),
            "; ".join(f"{before.value} → {after.value}" for before, after in moves.items()),
        )
        for kind, moves in TABLE.items()
    ]
    return table(("event", "moves a step from → to"), rows)


def transition_picture() -> str:
    """The same as a picture."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for kind, moves in TABLE.items():
        for before, after in moves.items():
            arrows.setdefault((before.value, after.value), []).append(kind.__name__)
    lines = ["stateDiagram-v2", "  [*] --> pending", "  pending --> ready: what it needs is settled"]
    lines += [f"  {before} --> {after}: {', '.join(kinds)}" for (before, after), kinds in arrows.items()]
    lines += [
        f"  {one.value} --> [*]" for one in StepStatus if one in SETTLED and one != StepStatus.COMPENSATED
    ]
    return "```mermaid\n" + "\n".join(lines) + "\n```"


def events() -> str:
    """What stands in a log."""
    rows = []
    for kind in flow_events.Event.__subclasses__():
        names = [field.name for field in msgspec.structs.fields(kind)]
        rows.append((code(kind.__name__), first_line(kind.__doc__), listed(names)))
    return table(("event", "meaning", "fields"), rows)


def run_events() -> str:
    """What callbacks get."""
    docs = docs_of(RunEvent)
    docs |= {"run_id": "The run.", "path": "The step's path; empty where it is about the run."}
    named = [field.name for field in msgspec.structs.fields(RunEvent) if field.name != "source"]
    rows = [(code(name), docs[name]) for name in named]
    return table(("attribute", "meaning"), [*rows, ("`data`", first_line(RunEvent.data.__doc__))])


def limits() -> str:
    """The named limits."""
    docs = docs_of(Limits)
    rows = [
        (code(field.name), _amount(field.name, field.default), docs.get(field.name, ""))
        for field in msgspec.structs.fields(Limits)
    ]
    return table(("limit", "default", "bounds"), rows)


def _amount(name: str, value: float) -> str:
    """A number with its unit, which the name ends in."""
    if name.endswith("_bytes"):
        return f"{value / 2**20:,g} MiB"
    return f"{value:,.0f}{' s' if name.endswith('_s') else ''}"


# --- feedback, logging


_SUGGESTION_WORDS = {
    "no_retry": "It failed for what may pass, at its only attempt.",
    "poor": "It failed for want of quality.",
    "failed": "It failed otherwise, and nothing stood in for it.",
    "low_quality": "Its quality is under the threshold, and nothing failed for it.",
    "near_timeout": "It took over 80 % of its timeout.",
    "late_success": "It succeeded only at its last attempt, or at the third or a later one.",
    "dear": "It cost, or used tokens, more than 1.5 times what was expected.",
    "replaced": "Its fallback did its work.",
    "slow": "It took twice its estimate or more.",
    "unread": "Nothing reads what it gives, and it changes nothing.",
    "quick": "It took a quarter of its estimate or less.",
    "far_from_timeout": "It took 5 % of its `timeout_s` or less.",
}


def suggestions() -> str:
    """What can be suggested, the most useful first."""
    return table(("code", "when"), [(code(name), text) for name, text in _SUGGESTION_WORDS.items()])


def levels_of_events() -> str:
    """How loud each event of a run is."""
    loud = listed(sorted(WARNINGS))
    rows = [
        ("ERROR", "`run_ended`, if the run failed or did nothing"),
        ("WARNING", loud),
        ("INFO", "other events of the run itself, and ends of milestones"),
        ("DEBUG", "all others, `progress` among them"),
    ]
    return table(("level", "events"), rows)


def actions() -> str:
    """What is logged besides events."""
    return table(("action", "meaning"), [(code(name), text) for name, text in ACTIONS.items()])


# --- errors


def error_classes() -> str:
    """The error classes, in the order of the source."""
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, KedgeError) and kind.__module__ == errors.__name__
    ]
    kinds.sort(key=lambda kind: inspect.getsourcelines(kind)[1])
    rows = [
        (
            code(f"kedge.{kind.__name__}"),
            code(kind.__bases__[0].__name__),
            code(kind.code),
            first_line(kind.__doc__),
            exits.of_error(kind.__new__(kind)),
        )
        for kind in kinds
    ]
    return table(("class", "is a", "code", "meaning", "exit code"), rows)


_CATEGORY_WORDS = {
    "transient": "Something outside that passes: a lost connection, a busy disk.",
    "timeout": "No answer in time.",
    "rate_limited": "The other side wants less. The tool also gets fewer calls at once, for a while.",
    "invalid_input": "The arguments, or what an expression was given, are wrong.",
    "permission": "It is not allowed.",
    "missing_tool": "The engine that drives the run does not have the tool.",
    "not_serializable": "The result cannot be stored.",
    "limit": "Something is too large or too much.",
    "permanent": "It failed and will fail again.",
    "cancelled": "It was stopped.",
    "in_doubt": "Nobody knows whether it happened.",
    "bug": "The tool raised something that it did not classify.",
}


def categories() -> str:
    """Failure categories."""
    retried = set(parts.Retry().on)
    rows = [
        (code(name), _CATEGORY_WORDS.get(name, ""), "yes" if name in retried else "if `retry.on` names it")
        for name in CATEGORIES
    ]
    return table(("category", "meaning", "tried again"), rows)


_KIND_WORDS = {
    "reading": "Reading a document",
    "checking": "Checking a plan",
    "expressions": "Expressions and templates",
    "running": "While a run is driven",
    "tools": "Making and loading tools",
    "store": "The store",
    "asking": "Everything else",
    "testing": "Testing plans",
}


def codes_by_kind() -> str:
    """Every stable code, by occasion."""
    found = found_codes(_ROOT / "src" / "kedge")
    said = meanings(_ROOT / "docs" / "codes.txt")
    blocks: list[str] = []
    for kind, words in _KIND_WORDS.items():
        names = sorted(name for name, kinds in found.items() if kind in kinds)
        if kind == "checking":
            heads = ("code", "meaning", *STRICTNESS)
            rows = [(code(n), said.get(n, ""), *(severity(n, level) for level in STRICTNESS)) for n in names]
        else:
            heads, rows = ("code", "meaning"), [(code(n), said.get(n, "")) for n in names]
        blocks.append(f"### {words}\n\n{table(heads, rows)}")
    return "\n\n".join(blocks)


# --- tools, rooms, commands


def builtin_tools() -> str:
    """The built-in tools, from their own specifications."""
    blocks: list[str] = []
    for tool in all_builtin_tools([_ROOT]):
        spec = tool.spec
        off = "" if spec.available else f" *Off:* {spec.unavailable_because}."
        head = f"### {spec.name}\n\nEffect class `{spec.effect}`. {spec.description}{off}"
        properties = cast(dict[str, dict[str, Any]], spec.parameters.get("properties", {}))
        needed = cast(list[str], spec.parameters.get("required", []))
        rows = [
            (
                code(name),
                _schema_words(schema),
                "needed" if name in needed else code(msgspec.json.encode(schema.get("default")).decode()),
                schema.get("description", ""),
            )
            for name, schema in properties.items()
        ]
        blocks.append(
            f"{head}\n\n{table(('argument', 'type', 'default', 'meaning'), rows)}\n\n{_gives(spec.returns)}"
        )
    return "\n\n".join(blocks)


def _gives(returns: Mapping[str, Any] | None) -> str:
    if returns is None:
        return "Gives whatever is in the text."
    inner = cast(dict[str, Any], returns.get("$defs", {}))
    fields = _resolved(returns, inner).get("properties")
    if fields:
        return f"Gives a map: {', '.join(f'`{n}` ({_schema_words(s, inner)})' for n, s in fields.items())}."
    return f"Gives {_schema_words(returns, inner)}."


def _resolved(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return cast(Mapping[str, Any], inner.get(name, schema))


def _schema_words(schema: Mapping[str, Any], inner: Mapping[str, Any] = {}) -> str:
    shape = _resolved(schema, inner)
    if "enum" in shape:
        return "one of " + listed(shape["enum"])
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_schema_words(one, inner) for one in shape["anyOf"]))
    kind = shape.get("type", "any")
    if kind == "array":
        return f"list of {_schema_words(shape.get('items', {}), inner)}"
    if kind == "object" and shape.get("properties"):
        return f"map with {listed(shape['properties'])}"
    return _SCHEMA_WORDS.get(kind, kind)


_SCHEMA_WORDS = {"string": "text", "object": "map", "integer": "whole number", "boolean": "true or false"}


def caps_of_tools() -> str:
    """What the built-in tools read and give at most."""
    search = f"lines of one search, each cut to {files.LINE_CHARACTERS_MAX} characters"
    rows = [
        (
            "`files.read`, `files.search`",
            "bytes of one file; a search skips longer ones",
            files.FILE_BYTES_MAX,
        ),
        ("`files.list`, `files.search`", "files of one call", files.FILES_MAX),
        ("`files.search`", search, files.MATCHES_MAX),
        ("`data.json`, `data.csv`, `data.xml`, `data.yaml`", "characters of a text", data.TEXT_MAX),
        ("`data.csv`", "characters of one cell", csv_text.CELL_CHARACTERS_MAX),
        ("`data.xml`", "elements inside each other", xml_text.DEPTH_MAX),
        ("`text.stats`, `text.extract`, `text.replace`, `text.join`", "characters of a text", text.TEXT_MAX),
        ("`text.extract`", "parts that are found", text.FOUND_MAX),
        ("`http.get`", "bytes that `max_bytes` can ask for; more is left out", http.BYTES_MAX),
        ("`http.get`", "seconds that `timeout_s` can ask for", http.TIMEOUT_S_MAX),
        ("`http.get`", "redirects; more are a `permanent` failure", http.REDIRECTS_MAX),
        ("`shell.run`", "bytes of each output; more is left out", shell.OUTPUT_BYTES_MAX),
    ]
    return table(("tool", "what", "at most"), [(tool, what, f"{most:,}") for tool, what, most in rows])


def rooms() -> str:
    """Who may import whom, from the table that a test enforces."""
    may = cast(dict[str, str], runpy.run_path(str(_ROOT / "tests" / "tidy" / "test_rooms.py"))["MAY_IMPORT"])
    rows: list[tuple[str, str, str]] = []
    for room, allowed in may.items():
        if room.startswith("_"):
            continue
        if (_ROOT / "src" / "kedge" / room).is_dir() or (_ROOT / "src" / "kedge" / f"{room}.py").is_file():
            name = "kedge.surface.cli" if room == "surface" else f"kedge.{room}"
            others = [other for other in allowed.split() if not other.startswith("_")]
            rows.append((code(room), first_line(_doc(name)), listed(others) or "nothing"))
    return table(("room", "what it is", "may import"), rows)


def _doc(module: str) -> str | None:
    try:
        return importlib.import_module(module).__doc__
    except ModuleNotFoundError:
        return None


def settings() -> str:
    """What a user can set."""
    docs = docs_of(Settings)
    info = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(Settings))
    rows = [(code(f.name), type_words(f.type), default_of(f), docs.get(f.name, "")) for f in info.fields]
    return table(("setting", "type", "default", "meaning"), rows)


def commands() -> str:
    """Every command as `--help` shows it."""
    main = _context(app, "kedge", None)
    blocks = [_help(app, main)]
    for name in app.list_commands(main):
        command = app.get_command(main, name)
        if command is not None and not command.hidden:
            blocks.append(f"### kedge {name}\n\n{_help(command, _context(command, name, main))}")
    return "\n\n".join(blocks)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    # The width is given: it must not depend on the terminal that the generator runs in.
    return command.make_context(
        name, [], parent, resilient_parsing=True, terminal_width=100, max_content_width=100
    )


def _help(command: click.Command, context: click.Context) -> str:
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return "```text\n" + "\n".join(lines) + "\n```"
