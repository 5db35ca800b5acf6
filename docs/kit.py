"""The reference of `kedge.testing`, from its signatures and docstrings."""

from __future__ import annotations

import inspect
from typing import Any

from members import call, paragraphs
from pages import code, first_line, table

import kedge.testing


def functions_for_tests() -> str:
    """The functions, each with its signature and what it does, then the classes."""
    parts: list[str] = []
    rows: list[tuple[str, str]] = []
    for name in kedge.testing.__all__:
        thing: Any = getattr(kedge.testing, name)
        if inspect.isclass(thing):
            shown = call(name, thing) if issubclass(thing, tuple) else name
            rows.append((code(shown), first_line(thing.__doc__)))
        else:
            parts.append(f"**`{call(f'kedge.testing.{name}', thing)}`**\n\n{paragraphs(thing)}")
    return "\n\n".join([*parts, table(("class", "meaning"), rows)])
