"""XML as maps, with no document type: so nothing to expand, nothing to fetch.

Every element is a map of the same shape, {tag, attributes, text, children}; `text` is its own text
without the space around it, names keep their prefixes as written. The friendlier-looking
form, a map keyed by tag, changes shape when a second child of that name turns up.
"""

from __future__ import annotations

from typing import Any, NoReturn
from xml.parsers import expat

from kedge.base.errors import ToolError

DEPTH_MAX = 30
"""Elements inside each other: each takes two levels of the 64 that a result may have."""


class _Tree:
    """Collects what the parser reports. Iterative: depth is data."""

    def __init__(self) -> None:
        self.root: dict[str, Any] | None = None
        self._open: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEPTH_MAX:
            raise ToolError(
                f"the XML has more than {DEPTH_MAX} elements inside each other, at <{tag[:80]}>",
                "limit",
                remedy="read it with a tool of your own",
            )
        element: dict[str, Any] = {"tag": tag, "attributes": attributes, "text": "", "children": []}
        if self._open:
            self._open[-1]["children"].append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def end(self, _tag: str) -> None:
        self._open.pop()["text"] = "".join(self._texts.pop()).strip()

    def text(self, text: str) -> None:
        self._texts[-1].append(text)


def load_xml(text: str) -> dict[str, Any]:
    """The root element. ToolError with line and column for anything that is not plain XML."""
    parser = expat.ParserCreate("utf-8")  # whatever encoding the document was in, it is text now
    tree = _Tree()
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.text
    parser.buffer_text = True
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise ToolError(
            f"not XML at line {error.lineno}, column {error.offset + 1}: {expat.ErrorString(error.code)}",
            "invalid_input",
        ) from error
    if tree.root is None:
        raise ToolError("the XML has no element", "invalid_input")
    return tree.root


def _refuse_doctype(name: str, *_more: Any) -> NoReturn:
    raise ToolError(
        f"the XML declares a document type ({name[:80]}): that can define entities, which are not read",
        "invalid_input",
        remedy="remove the <!DOCTYPE ...> part",
    )
