"""Tools whose answers a test writes down.

    tools = scripted({
        "files.list": {"files": [{"path": "a.md"}]},         # always this
        "market": [Fail("transient"), 42],                   # first this, then that, and no third call
        "judge": lambda args: len(args["text"]) > 10,        # whatever it says
        "mail.send": Late(3600, "sent"),                     # an hour later, in virtual time
    }, real_tools)

An answer is data, or one of `Fail`, `Hang`, `Late`, `Discover` and `Use`. A list is answers to calls in their
order; a tool that answers with a list each time needs `Always([…])`. With the real tools (or a catalog)
arguments are checked as those would check them, and effect classes are theirs; with the plan, or
without a word, a tool takes any arguments and counts as `read`.

What nobody wrote down is told and never made up: a call without an answer fails its step at once and the
test at its end, and so does an answer nobody asked for. A run may survive the first (a fallback, an optional
step), and would pass for one that works: that is why `verify` tells it once more.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from kedge.base.codec import decode
from kedge.base.errors import BadInput, Category, NotDone, ToolError
from kedge.checks.judge import Judge
from kedge.checks.schemas import Whole
from kedge.plan.model import Plan
from kedge.plan.nearest import nearest
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing.standing_in import standing_in
from kedge.tools.builtin import builtin_tools
from kedge.tools.context import Context
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

_ANY_ARGS: dict[str, Any] = {"type": "object", "additionalProperties": True}
_SHOWN_CHARACTERS = 300


class Fail(NamedTuple):
    """The call fails, as a failure of this category."""

    category: Category = "permanent"
    message: str = "scripted to fail"
    retry_after_s: float | None = None
    not_done: bool = False
    """Nothing happened outside: a tool with effects may be tried again."""


class Hang(NamedTuple):
    """The call never ends by itself."""


class Late(NamedTuple):
    """The answer comes so much later."""

    seconds: float
    answer: Any = None


class Discover(NamedTuple):
    """The call reports something that nobody planned for, then answers."""

    what: str
    need: str = ""
    answer: Any = None


class Use(NamedTuple):
    """The call tells what it used, then answers."""

    tokens: int = 0
    cost: float = 0.0
    answer: Any = None


class Always(NamedTuple):
    """The same answer to every call."""

    answer: Any


class Call(NamedTuple):
    """One call that a run made."""

    tool: str
    step: str
    args: dict[str, Any]
    attempt: int
    key: str
    """The idempotency key: the same for every attempt of a call."""


class Scripted:
    """Tools with a script, and what was asked of them. Any engine takes it as its tools."""

    def __init__(self, tools: Iterable[Tool], scripts: Mapping[str, _Script], log: list[Call]) -> None:
        self._tools = tuple(tools)
        self._scripts = scripts
        self.log = log
        """Every call, in the order in which they were made."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def calls(self, tool: str) -> list[dict[str, Any]]:
        """The arguments of each call of `tool`, in the order in which they were made."""
        if tool not in self._scripts:
            raise _unknown(tool, self._scripts, "is not scripted")
        return [call.args for call in self.log if call.tool == tool]

    def verify(self) -> None:
        """AssertionError that names each call without an answer, and each answer without a call."""
        wrong = [line for script in self._scripts.values() for line in script.complaints()]
        if wrong:
            raise AssertionError("\n  ".join(["the script and the run do not fit:", *wrong]))


Known = Iterable[Tool | Callable[..., Any]] | Catalog | Plan
"""Where tools are known from."""


def scripted(answers: Mapping[str, Any], tools: Known | None = None) -> Scripted:
    """Tools that answer as the test says. `tools`: the real ones, for their arguments and effect classes.

    A catalog will do as well, or a plan, whose tools then take any arguments. The built-in tools are
    known without a word: those that compute (`pure`) work as ever unless they are scripted.
    """
    real, specs = _known(tools)
    for name in answers:
        if name not in specs:
            if tools is not None:
                raise _unknown(name, specs, "is none of the tools")
            specs[name] = _any_spec(name)
    log: list[Call] = []
    scripts: dict[str, _Script] = {}
    made: list[Tool] = []
    for name, spec in specs.items():
        tool = real.get(name)
        if name not in answers and tool is not None and _computes(tool):
            made.append(_in_loop(tool))
        else:
            script = scripts[name] = _Script(name, answers.get(name, []), log)
            made.append(_scripted_tool(spec, tool, script))
    return Scripted(made, scripts, log)


class _Script:
    """What one tool is to answer, and how far it is."""

    def __init__(self, tool: str, answer: Any, log: list[Call]) -> None:
        self._tool = tool
        self._log = log
        self._in_order = isinstance(answer, list)
        self._left: deque[Any] = deque(cast("list[Any]", answer) if self._in_order else ())
        self._given = len(self._left)
        self._answer = answer.answer if isinstance(answer, Always) else answer
        self._calls = 0
        self._surprises: list[str] = []

    async def play(self, args: dict[str, Any], ctx: Context) -> Any:
        """Answer one call."""
        self._calls += 1
        self._log.append(Call(self._tool, ctx.step, args, ctx.attempt, ctx.idempotency_key))
        if self._in_order and not self._left:
            said = f"answers {self._given} and this is number {self._calls}" if self._given else "has none"
            told = f"step {ctx.step} calls {self._tool} with {_short(args)}, and its script {said}"
            self._surprises.append(told)
            raise ToolError(told, remedy="script an answer, or mend the plan")
        answer = self._left.popleft() if self._in_order else self._answer
        if callable(answer):
            answer = await self._said(answer, args, ctx)
        return await _given(answer, ctx)

    async def _said(self, answer: Callable[[dict[str, Any]], Any], args: dict[str, Any], ctx: Context) -> Any:
        try:
            said = answer(args)
            return await said if inspect.isawaitable(said) else said
        except AssertionError as error:  # the test's own: a failed step might go unnoticed
            self._surprises.append(f"step {ctx.step} calls {self._tool} with {_short(args)}: {error}")
            raise

    def complaints(self) -> Iterator[str]:
        """What does not fit."""
        yield from self._surprises
        if self._left:
            yield f"{self._tool}: answered {self._calls} times; never asked for: {_short(list(self._left))}"
        elif not self._calls and not self._in_order:
            yield f"{self._tool}: its answer was never asked for: {_short(self._answer)}"


async def _given(answer: Any, ctx: Context) -> Any:
    while True:
        match answer:
            case Late(seconds, answer):
                await asyncio.sleep(seconds)
            case Discover(what, need, answer):
                ctx.discover(what, need)
            case Use(tokens, cost, answer):
                ctx.usage(tokens, cost)
            case Hang():
                await asyncio.get_running_loop().create_future()
            case Fail(_, message, retry_after_s, True):
                raise NotDone(message, retry_after_s=retry_after_s)
            case Fail(category, message, retry_after_s):
                raise ToolError(message, category, retry_after_s=retry_after_s)
            case _:
                return answer


def _scripted_tool(spec: ToolSpec, real: Tool | None, script: _Script) -> Tool:
    check = real.decode if real is not None else _checker(spec)

    def checked(raw: bytes) -> dict[str, Any]:
        check(raw)
        return cast("dict[str, Any]", decode(raw))

    return standing_in(spec, checked, script.play)


def _in_loop(tool: Tool) -> Tool:
    """The tool itself, but called in the loop: a thread would have a pace of its own."""

    async def call(prepared: Any, ctx: Context) -> Any:
        found = tool.invoke(prepared, ctx)
        return await found if inspect.isawaitable(found) else found

    return standing_in(tool.spec, tool.decode, call)


def _checker(spec: ToolSpec) -> Callable[[bytes], None]:
    whole = Whole(spec.parameters, spec.parameters)

    def check(raw: bytes) -> None:
        faults = Judge(None).faults(decode(raw), whole, "args")
        if faults:
            told = "; ".join(f"{fault.place}: {fault.message}" for fault in faults)
            raise ToolError(f"the arguments do not fit {spec.name}: {told}", "invalid_input")

    return check


def _known(tools: Known | None) -> tuple[dict[str, Tool], dict[str, ToolSpec]]:
    """The real tools, and what is known of each."""
    real = dict(_builtin())
    specs = {name: tool.spec for name, tool in real.items()}
    if isinstance(tools, Catalog):
        specs |= {spec.name: spec for spec in tools}
    elif isinstance(tools, Plan):
        specs = {name: _any_spec(name) for name in _names(tools)} | specs
    elif tools is not None:
        given = {tool.spec.name: tool for tool in Registry(tools)}
        real |= given
        specs |= {name: tool.spec for name, tool in given.items()}
    return {name: tool for name, tool in real.items() if specs[name] is tool.spec}, specs


def _any_spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, parameters=_ANY_ARGS, effect="read")


def _names(plan: Plan) -> Iterator[str]:
    steps = list(plan.steps)
    for step in steps:  # grows
        steps.extend(step.steps or ())
        if step.tool is not None:
            yield step.tool


@cache
def _builtin() -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in builtin_tools([Path()])}


def _computes(tool: Tool) -> bool:
    """A built-in tool that needs no world."""
    return tool is _builtin().get(tool.spec.name) and tool.spec.effect == "pure"


def _unknown(name: str, known: Iterable[str], what: str) -> BadInput:
    names = tuple(known)
    near = nearest(name, names)
    return BadInput(
        f"{name!r} {what}",
        code="unknown_script",
        where="script",
        allowed=names,
        remedy=f"did you mean {near!r}?" if near else "",
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 2] + " …"
