"""Settings, and the engine that they describe: the only file that names concrete parts.

A setting comes from `kedge.toml` in the current folder, is overruled by the environment
(`KEDGE_STORE` and so on), and that by what is given on the command line. A key that nobody knows is
an error: a misspelled limit that silently does nothing is worse than none.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kedge.base.errors import BadInput
from kedge.base.limits import Limits
from kedge.control.engine import Engine
from kedge.engine.ports import Planner
from kedge.flow.settings import ASKS, Ask
from kedge.plan.nearest import nearest
from kedge.tools.builtin import builtin_tools
from kedge.tools.builtin.reserved import SETTINGS_FILE
from kedge.tools.load import load_tools, load_with_method
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

PREFIX = "KEDGE_"
ASK_WORDS = ASKS
"""What the setting `ask` can be."""
_MEMORY = ":memory:"
_S = TypeVar("_S", bound=msgspec.Struct)
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user can set, and what it is unless set."""

    store: str = ".kedge/kedge.db"
    """Path of the store, or `:memory:`."""
    tools: tuple[str, ...] = ()
    """Modules and files with tools."""
    parallel: int | None = None
    """Short for the limit of that name."""
    ask: Ask = "never"
    """What a person is asked before: `never`, `plan`, `effects` or `every_step`."""
    planner: str = ""
    """Who mends plans: `rules`, or one of your own as `FILE.py:NAME` or `pkg.module:NAME`. Unset: nobody."""
    roots: tuple[str, ...] = (".",)
    """Folders that file tools and `shell.run` are kept to."""
    allow_shell: bool = False
    """May plans run programs of this machine?"""
    allow_private_addresses: bool = False
    """May `http.get` reach addresses that are not public?"""
    limits: dict[str, Any] = {}
    """Limits by name, where they are not the default."""
    resources: dict[str, int] = {}
    """How many units there are of each named resource."""

    @property
    def bounds(self) -> Limits:
        """All limits, with the defaults filled in."""
        named = self.limits if self.parallel is None else {**self.limits, "parallel": self.parallel}
        return _converted(named, Limits, "limits")


_NAMES = Settings.__struct_fields__
_IN_ENVIRONMENT = tuple(name for name in _NAMES if name not in ("limits", "resources"))
"""Tables do not fit into a variable."""


def read_settings(
    given: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force. None among `given` means: not given."""
    merged = _from_file((folder or Path.cwd()) / SETTINGS_FILE)
    merged |= _from_environment(os.environ if environ is None else environ)
    merged |= {name: value for name, value in (given or {}).items() if value is not None}
    settings = _converted(merged, Settings, "settings")
    _refuse_unusable(settings)
    return settings


def build_tools(settings: Settings) -> list[Tool]:
    """The built-in tools, and those of the named modules and files."""
    found = builtin_tools(
        [Path(root).expanduser() for root in settings.roots],
        reserved=_store_files(settings),
        allow_shell=settings.allow_shell,
        allow_private_addresses=settings.allow_private_addresses,
    )
    for where in settings.tools:
        found += load_tools(where)
    return found


def build_engine(settings: Settings, tools: Iterable[Tool | Callable[..., Any]] = ()) -> Engine:
    """An engine as the settings say, with `tools` besides those that they name."""
    registry = Registry([*build_tools(settings), *tools])
    bounds, planner = settings.bounds, build_planner(settings.planner)
    return Engine(registry, _store(settings), limits=bounds, resources=settings.resources, planner=planner)


def build_planner(name: str) -> Planner | None:
    """The planner of that name."""
    if name != "rules":
        return load_with_method(name, "repair") if name else None
    from kedge.planner.rules import RulePlanner  # most commands need none of what it stands on

    return RulePlanner()


def _store(settings: Settings) -> str:
    return settings.store if settings.store == _MEMORY else str(Path(settings.store).expanduser())


def _store_files(settings: Settings) -> list[str]:
    """The store's file, and what lies beside it while it is open."""
    if settings.store == _MEMORY:
        return []
    file = os.path.realpath(_store(settings))  # of a link: SQLite puts the others beside what it leads to
    return [f"{file}{end}" for end in ("", "-wal", "-shm", "-journal", ".locks")]


def _from_file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"cannot be read: {error}", code="settings_file", where=str(file), remedy="check that file"
        ) from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(
            f"is not TOML: {error}", code="settings_file", where=str(file), remedy="mend that line"
        ) from None
    _refuse_unknown(found, _NAMES, str(file))
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    named = {key: value for key, value in environ.items() if key.startswith(PREFIX)}
    variables = {f"{PREFIX}{name.upper()}": name for name in _IN_ENVIRONMENT}
    _refuse_unknown(named, tuple(variables), "environment")
    return {variables[key]: _from_text(key, variables[key], text) for key, text in named.items()}


def _from_text(variable: str, name: str, text: str) -> Any:
    if name == "parallel":
        if not (text.isascii() and text.isdigit()):
            raise _unfit(f"{text[:40]!r} is not a whole number", variable)
        return int(text)
    if name in ("allow_shell", "allow_private_addresses"):
        if text.lower() not in _YES + _NO:
            raise _unfit(f"{text[:40]!r} is neither yes nor no", variable, _YES + _NO)
        return text.lower() in _YES
    if name == "tools":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text.split(os.pathsep) if name == "roots" else text


def _refuse_unknown(found: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for name in found:
        if name not in known:
            near = nearest(name, known)
            raise BadInput(
                f"there is no setting {name!r}",
                code="unknown_setting",
                where=where,
                allowed=known,
                remedy=f"did you mean {near}?" if near else "take it out",
            )


def _converted(found: Mapping[str, Any], kind: type[_S], where: str) -> _S:
    _refuse_unknown(found, kind.__struct_fields__, where)
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise _unfit(str(error), where) from None


def _refuse_unusable(settings: Settings) -> None:
    """A wrong limit is told now, not when the first run starts."""
    _ = settings.bounds
    for name, count in settings.resources.items():
        if count < 1:
            raise _unfit(f"resource {name} needs at least 1 unit, not {count}", f"resources.{name}")


def _unfit(what: str, where: str, allowed: tuple[str, ...] = ()) -> BadInput:
    return BadInput(what, code="setting_value", where=where, allowed=allowed)
