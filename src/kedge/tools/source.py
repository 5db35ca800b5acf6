"""Where a tool's function was written, so that another process can find it again."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from kedge.base.errors import BadInput

FILE_MODULE_PREFIX = "kedge_tools_file_"
"""Modules loaded from a path get a name of ours: two `tools.py` must not replace each other."""


class ToolSource(msgspec.Struct, frozen=True):
    """A function's address: data that crosses to another process, unlike the function itself."""

    module: str
    qualname: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}" + (f" ({self.file})" if self.file else "")

    @property
    def findable(self) -> bool:
        """Can another process find it? Not what was made inside a function, nor a lambda."""
        return bool(self.module and self.qualname) and "<" not in self.qualname

    def find(self) -> Any:
        """The object at this address: a Tool where the function is decorated, else the function."""
        found: Any = self._module()
        for name in self.qualname.split("."):
            found = getattr(found, name, None)
            if found is None:
                raise BadInput(
                    f"{self.module} has no {self.qualname}",
                    code="tool_source",
                    where=str(self),
                    remedy="keep the function at the top level of its module, under its own name",
                )
        return found

    def _module(self) -> ModuleType:
        # In another process `__main__` is another file, and a file's module name is ours alone.
        by_file = self.module == "__main__" or self.module.startswith(FILE_MODULE_PREFIX)
        if not by_file:
            return importlib.import_module(self.module)
        name = file_module_name(self.file)
        return sys.modules.get(name) or import_file(Path(self.file))


def source_of(function: Callable[..., Any]) -> ToolSource:
    """The address of a plain function."""
    code = getattr(function, "__code__", None)
    file = os.path.realpath(code.co_filename) if code is not None else ""
    return ToolSource(
        getattr(function, "__module__", None) or "", getattr(function, "__qualname__", ""), file
    )


def file_module_name(file: str | Path) -> str:
    """The name under which the module of a path is kept."""
    return FILE_MODULE_PREFIX + hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()[:16]


def import_file(file: Path) -> ModuleType:
    """Run a Python file as a module of its own. Raises whatever the file raises."""
    file = Path(os.path.realpath(file))
    name = file_module_name(file)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInput(
            f"{file} is not a Python file", code="no_tools_file", remedy="give a path ending in .py"
        )
    # What lies beside the file is importable, as when Python runs it; last, so it hides nothing.
    if (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # annotations and dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module
