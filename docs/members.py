"""The reference of the Python API: what `import kedge` offers, from its signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from pages import code, first_line, table
from shapes import attributes_of, docs_of

import kedge
from kedge.control.driving import Driven, Movable
from kedge.control.inbox import Waiting
from kedge.control.listing import RunInfo
from kedge.control.numbers import NumberRow, Numbers
from kedge.control.retention import Pruned
from kedge.control.salvage import Salvage
from kedge.control.shelf import Shelf
from kedge.control.watching import Watched
from kedge.flow.conversation import Message
from kedge.flow.decision import AgentDecision, Point
from kedge.flow.estimates import Estimates, StepEstimate, VersionEstimate
from kedge.flow.feedback import Feedback
from kedge.flow.result import Counts, StepResult
from kedge.flow.situation import FailedCall, PastDecision, QuestionView, StepView
from kedge.flow.suggestions import Suggestion
from kedge.flow.trouble import Repair
from kedge.flow.usage import Usage
from kedge.flow.words import Failure

FUNCTIONS: tuple[str, ...] = (
    "load", "check", "compare", "apply_fix", "tool", "builtin_tools", "run_sync", "draw", "report",
    "print_progress", "log_events",
)  # fmt: skip
CLASSES: tuple[type, ...] = (
    kedge.Engine, kedge.Run, kedge.RunSettings, kedge.Decision, kedge.Receipt, kedge.RunResult, StepResult,
    Counts, Failure, Feedback, Suggestion, Usage, Estimates, StepEstimate, VersionEstimate, RunInfo,
    Waiting, Movable, Driven, Watched, Numbers, NumberRow, kedge.Fork, kedge.Repeat, kedge.Retention,
    Pruned, Salvage, kedge.Trouble, Repair, kedge.Situation, StepView, FailedCall,
    QuestionView, PastDecision, AgentDecision, Point, Message,
    kedge.Plan, kedge.Patch, kedge.Addition, kedge.Findings, kedge.Finding, kedge.Tool, kedge.Context,
)  # fmt: skip


def functions_of_the_package() -> str:
    """The functions, each with its signature and what it does."""
    parts: list[str] = []
    for name in FUNCTIONS:
        function: Callable[..., Any] = getattr(kedge, name)
        parts.append(f"**`{call(f'kedge.{name}', function)}`**\n\n{paragraphs(function)}")
    return "\n\n".join(parts)


def classes_of_the_package() -> str:
    """The classes, each with a table of its members."""
    parts: list[str] = []
    for kind in CLASSES:
        rows = [(code(how), what) for _, how, what in members(kind)]
        parts.append(
            f"**{kind.__name__}**. {first_line(kind.__doc__)}\n\n{table(('member', 'meaning'), rows)}"
        )
    return "\n\n".join(parts)


def members(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, form and meaning of each public member; an empty meaning is a gap."""
    if kind is kedge.Plan:
        yield "Plan", "Plan(goal=…, steps=…, …)", "The fields: [plan language](plan-language.md#the-plan)."
    elif issubclass(kind, msgspec.Struct):
        said = docs_of(kind)
        yield from ((n, n, said.get(n, "")) for n in kind.__struct_fields__ if not n.startswith("_"))
    if kind is kedge.Engine:
        yield "Engine", call("Engine", kind), "Open it with `async with`."
        yield from members(Shelf)  # what an engine knows of its store
    yield from ((name, name, said) for name, said in attributes_of(kind).items())
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, name, first_line(inspect.getdoc(member.fget))
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            function = getattr(kind, name)
            how = f"{'await ' * inspect.iscoroutinefunction(function)}{call(name, function)}"
            yield name, how, first_line(inspect.getdoc(function))


def call(name: str, function: Callable[..., Any]) -> str:
    """How it is called: names and defaults, without types."""
    shown: list[str] = []
    star = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        shown.append(str(parameter.replace(annotation=parameter.empty, default=_default(parameter))))
    return f"{name}({', '.join(shown)})"


class _Shown:
    """A default as the page shows it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is parameter.empty or default is None or isinstance(default, str | int | float | bool | tuple):
        return default
    return _Shown("…")


def paragraphs(thing: Any) -> str:
    """A docstring as it stands."""
    return (inspect.getdoc(thing) or "").strip()


def unsaid() -> list[str]:
    """Public members that do not say what they are."""
    gaps = [f"{kind.__name__}.{name}" for kind in CLASSES for name, _, what in members(kind) if not what]
    return gaps + [name for name in FUNCTIONS if not getattr(kedge, name).__doc__]
