"""kedge turns a goal into a plan and gets it done, on one durable log.

The names below are loaded when they are first used, so `import kedge` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kedge._version import __version__ as __version__

if TYPE_CHECKING:
    from kedge.agents.function import FunctionAgent as FunctionAgent
    from kedge.api import check as check
    from kedge.api import compare as compare
    from kedge.api import load as load
    from kedge.api import run_sync as run_sync
    from kedge.base.errors import BadInput as BadInput
    from kedge.base.errors import ExpressionError as ExpressionError
    from kedge.base.errors import InternalError as InternalError
    from kedge.base.errors import InvalidPlan as InvalidPlan
    from kedge.base.errors import KedgeError as KedgeError
    from kedge.base.errors import NotDone as NotDone
    from kedge.base.errors import NotFound as NotFound
    from kedge.base.errors import NotOwner as NotOwner
    from kedge.base.errors import NotSerializable as NotSerializable
    from kedge.base.errors import Refused as Refused
    from kedge.base.errors import RunConflict as RunConflict
    from kedge.base.errors import StoreDamaged as StoreDamaged
    from kedge.base.errors import StoreError as StoreError
    from kedge.base.errors import StoreFull as StoreFull
    from kedge.base.errors import StoreVersion as StoreVersion
    from kedge.base.errors import ToolError as ToolError
    from kedge.base.limits import Limits as Limits
    from kedge.control.engine import Engine as Engine
    from kedge.control.forking import Fork as Fork
    from kedge.control.forking import Repeat as Repeat
    from kedge.control.log_events import log_events as log_events
    from kedge.control.print_progress import print_progress as print_progress
    from kedge.control.retention import Retention as Retention
    from kedge.control.run import Run as Run
    from kedge.control.sending import Receipt as Receipt
    from kedge.engine.ports import Agent as Agent
    from kedge.engine.ports import Planner as Planner
    from kedge.engine.receipts import Decision as Decision
    from kedge.flow import commands as commands
    from kedge.flow.result import RunResult as RunResult
    from kedge.flow.settings import RunSettings as RunSettings
    from kedge.flow.situation import Situation as Situation
    from kedge.flow.trouble import Trouble as Trouble
    from kedge.flow.words import RunStatus as RunStatus
    from kedge.flow.words import StepStatus as StepStatus
    from kedge.plan.findings import Finding as Finding
    from kedge.plan.findings import Findings as Findings
    from kedge.plan.findings import apply_fix as apply_fix
    from kedge.plan.model import Approval as Approval
    from kedge.plan.model import Call as Call
    from kedge.plan.model import Estimate as Estimate
    from kedge.plan.model import Input as Input
    from kedge.plan.model import Loop as Loop
    from kedge.plan.model import Plan as Plan
    from kedge.plan.model import Retry as Retry
    from kedge.plan.model import Step as Step
    from kedge.plan.model import Wait as Wait
    from kedge.plan.patch import Addition as Addition
    from kedge.plan.patch import Patch as Patch
    from kedge.planner.rules import RulePlanner as RulePlanner
    from kedge.tools.builtin import builtin_tools as builtin_tools
    from kedge.tools.context import Context as Context
    from kedge.tools.function import tool as tool
    from kedge.tools.tool import Tool as Tool
    from kedge.views.draw import draw as draw
    from kedge.views.narrate import RunEvent as RunEvent
    from kedge.views.report import report as report

_HOMES = {
    "agents.function": "FunctionAgent",
    "api": "check compare load run_sync",
    "base.errors": (
        "BadInput ExpressionError InternalError InvalidPlan KedgeError NotDone NotFound NotOwner "
        "NotSerializable Refused RunConflict StoreDamaged StoreError StoreFull StoreVersion ToolError"
    ),
    "base.limits": "Limits",
    "control.engine": "Engine",
    "control.forking": "Fork Repeat",
    "control.log_events": "log_events",
    "control.print_progress": "print_progress",
    "control.retention": "Retention",
    "control.run": "Run",
    "control.sending": "Receipt",
    "engine.ports": "Agent Planner",
    "engine.receipts": "Decision",
    "flow.result": "RunResult",
    "flow.settings": "RunSettings",
    "flow.situation": "Situation",
    "flow.trouble": "Trouble",
    "flow.words": "RunStatus StepStatus",
    "plan.findings": "Finding Findings apply_fix",
    "plan.model": "Approval Call Estimate Input Loop Plan Retry Step Wait",
    "plan.patch": "Addition Patch",
    "planner.rules": "RulePlanner",
    "tools.builtin": "builtin_tools",
    "tools.context": "Context",
    "tools.function": "tool",
    "tools.tool": "Tool",
    "views.draw": "draw",
    "views.narrate": "RunEvent",
    "views.report": "report",
}
_HOME = {name: f"kedge.{home}" for home, names in _HOMES.items() for name in names.split()}

_MODULES = {"commands": "kedge.flow.commands"}

__all__ = sorted([*_HOME, *_MODULES, "__version__"], key=lambda name: (name.lower(), name))  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kedge' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
