"""Arguments as canonical bytes with holes.

Between steps a value is its canonical JSON. So rendering `{"texts": "${read}"}` need not decode the
result of `read`, put it into a map and encode that: the bytes are put into the hole as they are.
Only a hole with a real expression in it is evaluated. Rendered once, never again: what comes from a
tool is bytes in a hole, and holes are cut when the plan is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from kedge.base.codec import encode, encode_plain
from kedge.plan.expr import Template, parse_template

# A whole string that is one plain name. The quote must be a real one (no backslash before it), and
# the string a value (no colon after it). Anything this misses goes the thorough way below.
_PLAIN_HOLE = re.compile(rb'(?<!\\)"\$\{([a-z][a-z0-9_]*)\}"(?!:)')

Hole = str | Template


class Args:
    """A compiled value: `pieces[0] hole[0] pieces[1] hole[1] … pieces[n]`."""

    __slots__ = ("constant", "holes", "names", "pieces")

    def __init__(self, pieces: list[bytes], holes: list[Hole]) -> None:
        self.pieces = pieces
        self.holes = holes
        self.constant: bytes | None = None if holes else pieces[0]
        templates = [hole for hole in holes if not isinstance(hole, str)]
        names = dict.fromkeys(hole for hole in holes if isinstance(hole, str))
        for template in templates:
            names.update(dict.fromkeys(template.names))
        self.names: tuple[str, ...] = tuple(names)

    def fill(self, fill: Callable[[Hole], bytes]) -> bytes:
        """The bytes, each hole filled by `fill`."""
        if self.constant is not None:
            return self.constant
        out = [self.pieces[0]]
        for hole, piece in zip(self.holes, self.pieces[1:], strict=True):
            out.append(fill(hole))
            out.append(piece)
        return b"".join(out)


def compile_args(value: dict[str, Any]) -> Args:
    """Cut the holes out of `value`."""
    raw = encode_plain(value)  # a plan is checked before it is compiled
    if b"${" not in raw:
        return Args([raw], [])
    cut = _PLAIN_HOLE.split(raw)
    if raw.count(b"${") == len(cut) // 2:
        return Args(cut[::2], [name.decode("ascii") for name in cut[1::2]])
    pieces: list[bytes] = [b""]
    holes: list[Hole] = []
    _emit(value, pieces, holes)
    return Args(pieces, holes)


def _emit(value: Any, pieces: list[bytes], holes: list[Hole]) -> None:
    """Write `value` as canonical JSON into the last piece, starting a new piece after each hole."""
    if isinstance(value, dict):
        pieces[-1] += b"{"
        entries = cast("dict[str, Any]", value)
        for count, key in enumerate(sorted(entries)):
            pieces[-1] += (b"," if count else b"") + encode(key) + b":"
            _emit(entries[key], pieces, holes)
        pieces[-1] += b"}"
    elif isinstance(value, list | tuple):
        pieces[-1] += b"["
        for count, item in enumerate(cast("list[Any]", value)):
            pieces[-1] += b"," if count else b""
            _emit(item, pieces, holes)
        pieces[-1] += b"]"
    elif isinstance(value, str) and "${" in value:
        template = parse_template(value)
        simple = template.whole.simple if template.whole is not None else None
        holes.append(simple.root if simple is not None and not simple.keys else template)
        pieces.append(b"")
    else:
        pieces[-1] += encode(value)
