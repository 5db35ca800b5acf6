"""What tests need, shipped to users: scripted tools, virtual time, recorded calls, replay, conformance kits.

The names below are for tests of plans and are loaded when they are first used; docs/testing.md shows them
at work. `journal_kit` checks a store of your own; `ring` and `laws` try the core without an engine;
`world` lives whole lives of the engine, each from a seed, through all that can go wrong.

Contracts: a test needs no network, no disk and no time; what a test did not foresee fails it by name; nothing
of the engine is faked but the tools, the clock and the loop's idea of time. Nothing but tests imports this.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedge.testing.advisers import ScriptedAgent as ScriptedAgent
    from kedge.testing.advisers import ScriptedPlanner as ScriptedPlanner
    from kedge.testing.rehearsing import rehearsal as rehearsal
    from kedge.testing.rehearsing import try_plan as try_plan
    from kedge.testing.replays import assert_replays as assert_replays
    from kedge.testing.scripts import Always as Always
    from kedge.testing.scripts import Discover as Discover
    from kedge.testing.scripts import Fail as Fail
    from kedge.testing.scripts import Hang as Hang
    from kedge.testing.scripts import Late as Late
    from kedge.testing.scripts import Scripted as Scripted
    from kedge.testing.scripts import Use as Use
    from kedge.testing.scripts import scripted as scripted
    from kedge.testing.tapes import cassette as cassette
    from kedge.testing.virtual_time import VirtualClock as VirtualClock
    from kedge.testing.virtual_time import VirtualLoop as VirtualLoop
    from kedge.testing.virtual_time import run_virtually as run_virtually
    from kedge.testing.virtual_time import virtual as virtual

_HOMES = {
    "advisers": "ScriptedAgent ScriptedPlanner",
    "rehearsing": "rehearsal try_plan",
    "replays": "assert_replays",
    "scripts": "Always Discover Fail Hang Late Scripted Use scripted",
    "tapes": "cassette",
    "virtual_time": "VirtualClock VirtualLoop run_virtually virtual",
}
_HOME = {name: f"kedge.testing.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME], key=lambda name: (name.lower(), name))  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kedge.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
