"""The ring without an engine: a plan driven by hand, one input at a time, no clock and no I/O.

    ring = Ring(plan, effects={"mail.send": "effect"}).start()
    assert ring.calls == ["read"]
    ring.finish("read", {"text": "…"})
    ring.crash().resume()
    ring.fail("send", "timeout")
    assert ring.status("send") == "in_doubt"

Tools are never called: what the plan starts is in `calls`, and the test says what becomes of each.
Every event is encoded as a journal would have it; after each input the state is compared with the
fold of those bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import msgspec

from kedge.base.codec import decode, digest, encode
from kedge.base.errors import Category, InvalidPlan, KedgeError
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks import check
from kedge.flow import inputs as inp
from kedge.flow.afterwards import Afterwards
from kedge.flow.branching import TAKEN
from kedge.flow.changes import tools_of
from kedge.flow.commands import KINDS, Command
from kedge.flow.decide import decide
from kedge.flow.due import due, next_wake
from kedge.flow.events import (
    AnyEvent,
    Raw,
    RunStarted,
    ToolMark,
    decode_event,
    encode_event,
    kind_of,
)
from kedge.flow.evolve import evolve
from kedge.flow.input_question import begin
from kedge.flow.names import result_bytes
from kedge.flow.program import Node, compile_plan
from kedge.flow.result import RunResult
from kedge.flow.settings import RunSettings
from kedge.flow.situation import Situation, situation
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure
from kedge.plan.model import Plan, Step
from kedge.plan.patch import Patch
from kedge.plan.tools import Catalog, Effect, ToolSpec
from kedge.testing.laws import check_event, check_laws, check_moves, picture

_encode_plan = msgspec.json.Encoder(order="deterministic").encode
_ANY_ARGS: dict[str, Any] = {"type": "object", "additionalProperties": True}


class Places:
    """A gate with so many places for each tool; without a number there is always one."""

    def __init__(self, places: Mapping[str, int] | None = None) -> None:
        self.left = dict(places or {})

    def take(self, node: Node) -> str:
        name = node.step.tool or ""
        if self.left.get(name) == 0:
            return name
        if name in self.left:
            self.left[name] -= 1
        return ""

    def give(self, node: Node) -> None:
        name = node.step.tool or ""
        if name in self.left:
            self.left[name] += 1

    def room(self, name: str) -> int:
        return self.left.get(name, 1_000_000)


class Seen:
    """What there is to see of a run."""

    state: RunState
    log: list[tuple[bytes, int]]
    """Each event as it is stored, and its time."""
    launched: list[tuple[str, Any]]
    """Every call that was started: path and arguments."""
    _flying: dict[str, tuple[StepState, int]]

    @property
    def calls(self) -> list[str]:
        """Paths of the calls in flight, in the order they were started."""
        return list(self._flying)

    @property
    def questions(self) -> list[str]:
        """Ids of the open questions."""
        return [id_ for id_, question in self.state.questions.items() if question.open]

    @property
    def events(self) -> list[AnyEvent]:
        return [decode_event(data) for data, _ in self.log]

    @property
    def kinds(self) -> list[str]:
        """Kinds of all events, as they happened."""
        return [kind_of(event) for event in self.events]

    @property
    def situation(self) -> Situation:
        """What a planner is shown."""
        return situation(self.state)

    @property
    def next_wake_ms(self) -> int | None:
        """When the next timer goes off."""
        return next_wake(self.state)

    @property
    def result(self) -> RunResult:
        return RunResult(self.state, "p")

    def of(self, kind: type[Any], path: str = "") -> list[Any]:
        """Events of a kind, of one step if a path is given."""
        return [
            e for e in self.events if isinstance(e, kind) and (not path or getattr(e, "path", "") == path)
        ]

    def step(self, path: str) -> StepState:
        return self.state.call_at(path)

    def status(self, path: str = "") -> str:
        """Where a step stands; without a path: where the run does."""
        return str(self.step(path).status if path else self.state.status)

    def statuses(self) -> dict[str, str]:
        """Where each step stands."""
        return {path: str(step.status) for path, step in self.state.steps.items()}

    def value(self, path: str) -> Any:
        """A step's result, its fallback's if that took over."""
        return decode(result_bytes(self.state, self.step(path)))

    def error(self, path: str = "") -> Failure:
        """Why a step, or the run, failed."""
        failure = self.step(path).error if path else self.state.error
        if failure is None:
            raise AssertionError(f"{path or 'the run'} has not failed")
        return failure

    def args(self, path: str) -> Any:
        """What the last call of `path` was given."""
        return next(args for launched, args in reversed(self.launched) if launched == path)


class Ring(Seen):
    """One run, moved by whoever holds it."""

    def __init__(
        self,
        plan: Plan | dict[str, Any],
        effects: Mapping[str, Effect] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        gate: Places | None = None,
        settings: RunSettings | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self.plan = plan if isinstance(plan, Plan) else Plan.parse(plan)
        self._effects: dict[str, Effect] = dict(effects or {})
        self._limits = limits
        self._inputs = encode(dict(inputs or {}))
        self._gate = gate or Places()
        self._settings = settings or RunSettings()
        self.now_ms = 1_000
        self._forks = 0
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[bytes, int]] = []
        self.launched: list[tuple[str, Any]] = []
        self._flying: dict[str, tuple[StepState, int]] = {}
        catalog = catalog or self._catalog()
        findings = check(self.plan, catalog, limits=limits)
        if not findings.ok:
            raise InvalidPlan("\n".join(map(str, findings.errors)), findings)
        self._tools = catalog
        self.state = self._new_state()
        self._shadow = self._new_state()
        self.laws = True
        """Recount after each event: thorough, and slow for large plans."""

    def _catalog(self) -> Catalog:
        names = dict.fromkeys(step.tool for step in _all(self.plan.steps) if step.tool is not None)
        names |= dict.fromkeys(self._effects)
        return Catalog(
            ToolSpec(name=name, parameters=_ANY_ARGS, effect=self._effects.get(name) or "pure")
            for name in names
        )

    def _new_state(self) -> RunState:
        state = RunState("r", compile_plan(self.plan, self._tools), self._inputs, self._limits)
        state.fetch = self.blobs.__getitem__
        return state

    # --- what can happen

    def start(self) -> Self:
        """The run begins."""
        used = tools_of(self.plan.steps)
        plan_id = digest(_encode_plan(self.plan))
        turn = Turn(self.state, self.now_ms)
        begin(
            turn,
            RunStarted(
                plan=plan_id,
                goal=self.plan.goal,
                inputs=Raw(self._inputs),
                settings=self._settings,
                tools={
                    spec.name: ToolMark(spec.definition_hash, spec.effect)
                    for spec in self._tools
                    if spec.name in used
                },
            ),
        )
        return self._end(turn)

    def finish(self, path: str, value: Any = None, starts: int | None = None) -> Self:
        """The call of `path` came back; `starts`: that of another of its attempts."""
        return self.put(inp.Returned(path, self._starts(path, starts), encode(value)))

    def fail(
        self,
        path: str,
        category: Category = "transient",
        *,
        classified: bool = False,
        not_done: bool = False,
        retry_after_s: float | None = None,
        starts: int | None = None,
    ) -> Self:
        """The call of `path` failed."""
        failure = Failure(
            category=category,
            code=category,
            message=f"{path} failed: {category}",
            classified=classified,
            not_done=not_done,
            retry_after_s=retry_after_s,
        )
        return self.put(inp.Raised(path, self._starts(path, starts), failure))

    def tick(self, ms: int = 0) -> Self:
        """Time goes on."""
        self.now_ms += ms
        return self.put(inp.Ticked())

    def send(self, kind: str, **more: Any) -> Self:
        """A command; what the run refuses is raised. A run that has ended is taken up to be undone."""
        if kind == "compensate" and self.state.end is not None and not self.state.taken_up:
            self.put(inp.Resumed(undo=True))
        return self.put(cast("Command", KINDS[kind](**more)))

    def answer(self, answer: str, value: Any = None, question: str = "") -> Self:
        """Answer a question, the only open one if none is named."""
        if not question:
            (question,) = self.questions
        return self.send("answer", question=question, answer=answer, value=value, by="anna")

    def mend(self, patch: Patch | None, by: str = "planner") -> Self:
        """The planner answers the repair that is open."""
        repair = self.state.repair
        if repair is None:
            raise AssertionError("no repair is open")
        return self.put(inp.Repaired(repair.number, repair.round, patch, by))

    def decide(self, *commands: Command, by: str = "agent") -> Self:
        """The agent answers the decision that is open."""
        decision = self.state.decision
        if decision is None:
            raise AssertionError("no decision is open")
        return self.put(inp.Decided(decision.number, commands, by))

    def crash(self) -> Self:
        """The process is gone: calls in flight are forgotten, the state is folded from the log."""
        state = self._fold()
        seen, folded = picture(self.state, self.now_ms), picture(state, self.now_ms)
        if folded != seen:
            raise AssertionError(_difference(seen, folded))
        self.state = state
        self._forget_calls()
        return self

    def salvage(self, intact: int) -> Self:
        """Only the first `intact` events are left of the log: the run is taken up from there."""
        del self.log[intact:]
        self._forget_calls()
        self.state, self._shadow = self._fold(), self._fold()
        return self.put(inp.Salvaged(f"What came after event {intact} is lost."), inp.Resumed())

    def fork(
        self, at: int, patch: Patch | None = None, *, anew: bool = False, settings: RunSettings | None = None
    ) -> Self:
        """Another run that branches off after event `at`, taken up: this ring holds it from now on."""
        at += isinstance(decode_event(self.log[at - 1][0]), TAKEN)
        known, name = Afterwards(self._new_state()), f"r{self._forks}"
        for seq, (data, moment) in enumerate(self.log, 1):
            known.fold(decode_event(data), moment, f"{name}@{seq}")
            if seq == at:
                known.branch_here()
        self._forks += 1
        del self.log[at:]
        self._forget_calls()
        self.state, self._shadow = self._fold(), self._fold()
        kept = () if anew else known.results
        branched = inp.Branched(run=name, seq=at, kept=kept, anew=anew, patch=patch, settings=settings)
        return self.put(branched, inp.Resumed())

    def resume(self, *, retry_failed: bool = False, changed_tools: Mapping[str, str] = {}) -> Self:
        """Another driver takes the run up."""
        return self.put(inp.Resumed(retry_failed, changed_tools))

    def put(self, *given: inp.Input) -> Self:
        """One turn with these inputs."""
        turn = Turn(self.state, self.now_ms)
        refusal: KedgeError | None = None
        for one in given:
            if isinstance(one, inp.Returned | inp.Raised):
                self._landed(one.path, one.starts)
            try:
                decide(turn, one)
            except KedgeError as error:  # a command: that it was refused may stand in the log
                refusal = error
        self._end(turn)
        if refusal is not None:
            raise refusal
        return self

    # --- inside

    def _starts(self, path: str, starts: int | None) -> int:
        return self.state.call_at(path).starts if starts is None else starts

    def _fold(self) -> RunState:
        state = self._new_state()
        for data, at in self.log:
            evolve(state, decode_event(data), at)
        return state

    def _forget_calls(self) -> None:
        for path, (_, starts) in list(self._flying.items()):
            self._landed(path, starts)

    def _landed(self, path: str, starts: int) -> None:
        flying = self._flying.get(path)
        if flying is not None and flying[1] == starts:
            del self._flying[path]
            self._gate.give(flying[0].node)

    def _end(self, turn: Turn) -> Self:
        due(turn, self._gate)
        for event in turn.events:
            data = encode_event(event)
            self.log.append((data, turn.now))
            if self.laws:
                check_event(self._shadow, event)  # type: ignore[arg-type]
            evolve(self._shadow, decode_event(data), turn.now)
            if self.laws:
                check_laws(self._shadow)
        self.blobs.update(turn.blobs)
        for step, raw, _ in turn.launches:
            if step.path in self._flying:
                raise AssertionError(f"{step.path} is called twice at once")
            self._flying[step.path] = step, step.starts
            self.launched.append((step.path, decode(raw)))
        if self.laws:
            seen, folded = picture(self.state, turn.now), picture(self._shadow, turn.now)
            if folded != seen:
                raise AssertionError(_difference(seen, folded))
            check_laws(self.state)
            check_moves(self.state)
        return self


def _all(steps: Sequence[Step]) -> list[Step]:
    found = list(steps)
    for step in found:  # grows
        found.extend(step.steps or ())
    return found


def _difference(seen: Any, folded: Any, at: str = "state") -> str:
    """Where the fold of the log is not what the run was driven to."""
    if isinstance(seen, dict) and isinstance(folded, dict):
        one, other = cast("dict[str, Any]", seen), cast("dict[str, Any]", folded)
        for key in [*one, *other]:
            if key not in one or key not in other or one[key] != other[key]:
                return _difference(one.get(key), other.get(key), f"{at}.{key}")
    return f"{at}: driven {seen!r}, folded {folded!r}"
