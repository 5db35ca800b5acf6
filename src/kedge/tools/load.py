"""Finding tools in a module or a file that a person names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from kedge.base.errors import BadInput
from kedge.tools.function import tool
from kedge.tools.source import import_file
from kedge.tools.tool import Tool

LIST_NAME = "TOOLS"
_FORMS = "give a module ('pkg.tools'), an object in one ('pkg.tools:name') or a file ('path/tools.py')"


def load_tools(where: str) -> list[Tool]:
    """The tools of a module, of an object in a module ("module:name"), or of a Python file.

    From a module or file: every Tool at its top level, and what its list `TOOLS` holds, if it has
    one. The code there runs. BadInput says what could not be found or went wrong.
    """
    if _is_file(where):
        return _collected(_file(where), where)
    if ":" in where:
        return _as_tools(_object(where), where)
    return _collected(_module(where, where), where)


def load_with_method(where: str, method: str) -> Any:
    """What a person names as "module:name" or "path/file.py:name", made if it is a class. Its code runs."""
    if ":" not in where:
        raise BadInput(
            f"{where[:80]!r} does not say where something with `{method}` is",
            code="tools_reference", where=where[:80], remedy="give it as FILE.py:NAME or pkg.module:NAME",
        )  # fmt: skip
    found = _object(where)
    made = found() if isinstance(found, type) else found
    if not callable(getattr(made, method, None)):
        raise BadInput(
            f"it has no method `{method}`",
            code="setting_value", where=where, remedy="name something that has, or a class of such",
        )  # fmt: skip
    return made


def _object(where: str) -> Any:
    place, _, name = where.rpartition(":")
    module = _file(place) if _is_file(place) else _module(place, where)
    if not hasattr(module, name):
        raise BadInput(
            f"{place} has no {name!r}",
            code="no_tools",
            where=where,
            allowed=[known for known, value in vars(module).items() if isinstance(value, Tool)],
        )
    return getattr(module, name)


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or os.sep in where


def _file(where: str) -> ModuleType:
    file = Path(where).expanduser()
    if not file.is_file():
        raise BadInput(f"there is no file {file}", code="no_tools_file", where=where, remedy=_FORMS)
    try:
        return import_file(file)
    except (Exception, SystemExit) as error:
        if isinstance(error, BadInput):
            raise
        raise _import_failed(error, where) from error


def _module(name: str, where: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadInput(f"{where[:200]!r} names no tools", code="tools_reference", remedy=_FORMS)
    # As `python -m` does, and an installed command does not: modules of the current folder count.
    if (here := str(Path.cwd())) not in sys.path and "" not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_failed(error, where) from error  # it is there; what it imports is not
        raise BadInput(
            f"there is no module {error.name!r}", code="no_tools_module", where=where, remedy=_FORMS
        ) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(error, where) from error


def _import_failed(error: BaseException, where: str) -> BadInput:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else where
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    last_line = traceback.format_exception_only(error)[-1].strip()
    return BadInput(
        f"importing it failed at {place}: {last_line}",
        code="tools_import",
        where=where,
        remedy="mend that line; importing a tools file should only define things",
    )


def _collected(module: ModuleType, where: str) -> list[Tool]:
    found: list[Any] = [value for value in vars(module).values() if isinstance(value, Tool)]
    if (listed := getattr(module, LIST_NAME, None)) is not None:
        found.extend(_as_tools(listed, f"{where}: {LIST_NAME}"))
    if not found:
        raise BadInput(
            "there are no tools in it",
            code="no_tools",
            where=where,
            remedy=f"decorate a function with @kedge.tool, or list functions in {LIST_NAME}",
        )
    return list({id(item): item for item in found}.values())


def _as_tools(value: Any, where: str) -> list[Tool]:
    """One tool or function, or a list of them, as tools."""
    if isinstance(value, Tool):
        return [value]
    items = cast("Iterable[Any]", value) if isinstance(value, list | tuple) else [value]
    tools: list[Tool] = []
    for item in items:
        if not isinstance(item, Tool) and (not callable(item) or isinstance(item, type)):
            raise BadInput(
                f"a {type(item).__name__} is not a tool",
                code="not_a_tool",
                where=where,
                remedy="give functions, decorated with @kedge.tool or plain",
            )
        tools.append(item if isinstance(item, Tool) else tool(cast("Callable[..., Any]", item)))
    return tools
