"""CSV as a list of maps, one for each row, keyed by the first row's names."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any

from kedge.base.errors import ToolError

CELL_CHARACTERS_MAX = csv.field_size_limit()
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_WORDS = {"": None, "true": True, "false": False}


def load_csv(text: str, delimiter: str, *, typed: bool) -> list[dict[str, Any]]:
    """The rows. ToolError with the line for a row that does not fit the first."""
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise ToolError(f"the delimiter must be one character, not {delimiter[:20]!r}", "invalid_input")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[dict[str, Any]] = []
    names: list[str] | None = None
    try:
        for cells in reader:
            if not cells:
                continue  # an empty line is no row
            if names is None:
                names = _names(cells, reader.line_num)
            elif len(cells) != len(names):
                raise ToolError(
                    f"line {reader.line_num} has {_counted(cells)}, the first row has {_counted(names)}",
                    "invalid_input",
                    remedy="quote a cell that holds the delimiter, or give another delimiter",
                )
            else:
                rows.append(dict(zip(names, map(_value, cells) if typed else cells, strict=True)))
    except csv.Error as error:
        too_long = "field larger" in str(error)
        raise ToolError(
            f"not CSV at line {reader.line_num}: {error}",
            "limit" if too_long else "invalid_input",
            remedy="read it with a tool of your own"
            if too_long
            else "mend it there; a quote in quotes is doubled",
        ) from error
    return rows


def _names(cells: list[str], line: int) -> list[str]:
    names = [cell.strip() for cell in cells]
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            fault = f"the name {name!r} twice" if name else "a column without a name"
            raise ToolError(
                f"the first row (line {line}) has {fault}", "invalid_input", remedy="name each column once"
            )
        seen.add(name)
    return names


def _counted(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _value(cell: str) -> Any:
    """A cell as the JSON value it plainly is. `007` stays text: as a number it would lose something."""
    if cell in _WORDS:
        return _WORDS[cell]
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return cell
    if match[2] is None and match[3] is None:
        return int(cell)
    number = float(cell)
    return number if math.isfinite(number) else cell
