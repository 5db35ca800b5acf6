"""Where a run stands: a fold over its events, kept up to date in place by `evolve` alone.

Everybody else reads. A fresh copy per event would cost more than all the rest of the engine
(measured: sixty times an update in place at ten thousand steps).

The tree: a `ScopeState` holds the steps of one scope; a composite's `StepState` has an `inner`
scope; a foreach's has `items`, one `StepState` for each. Paths name them all: `outer[3]/inner`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from kedge.base.codec import decode
from kedge.base.errors import InternalError, NotFound
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.flow.conversation import Appended, Merged, Message
from kedge.flow.decision import AgentDecision, Point
from kedge.flow.events import CompensationStarted, Raw, ResultKept, RunEnded, ToolMark
from kedge.flow.program import Node, Program, Scope
from kedge.flow.question import Question
from kedge.flow.records import Span, Version
from kedge.flow.settings import RunSettings
from kedge.flow.trouble import Repair, Trouble
from kedge.flow.usage import Told, Usage
from kedge.flow.words import ENDED, Blob, Failure, Outcome, RunStatus, StepStatus
from kedge.plan.model import Approval, Plan

Stored = bytes | Blob
"""A value: its canonical bytes, or the name of them."""


def _no_blobs(sha: str) -> bytes:
    raise NotFound(f"blob {sha} is not at hand", code="blob")


class StepState:
    """One step, or one item of a foreach."""

    __slots__ = (
        "approved", "attempt", "attempt_at", "awaits", "because", "ended_at",
        "ended_seq", "error", "generation", "given", "held", "index", "inner", "items",
        "items_split", "items_value", "iteration", "missed", "node", "open", "outcome",
        "owner", "path", "ready_at", "reason", "result", "rounds", "scope", "signal", "spans", "stand_in",
        "started_at", "starts", "status", "troubled", "unwanted", "waiting", "waived", "wake_at", "watchers",
    )  # fmt: skip

    def __init__(self, node: Node, path: str, scope: ScopeState, waiting: int) -> None:
        self.node = node
        self.path = path
        self.scope = scope
        self.status = StepStatus.PENDING
        self.outcome: Outcome | None = None
        """Set once it is settled: nothing about it will change any more."""
        self.waiting = waiting
        """Dependencies not settled yet."""
        self.troubled = False
        """A dependency settled otherwise than done, so `join` must look closely."""
        self.missed: frozenset[str] | None = None
        """With `join: any`: what had not settled when the step was let go. It stays absent for this step,
        whatever becomes of it, or a second attempt would be given other arguments than the first."""
        self.unwanted = False
        """It runs, and the plan has been changed since: it is to stop, and nothing fails for it."""
        self.starts = 0
        self.attempt = 0
        self.iteration = 0
        self.generation = 0
        self.result: Stored | None = None
        self.error: Failure | None = None
        self.reason = ""
        self.because: tuple[str, ...] = ()
        self.ready_at = 0
        self.started_at = 0
        self.attempt_at = 0
        self.ended_at = 0
        self.ended_seq = 0
        """Number of the event that ended it: which of two came last, also within one millisecond."""
        self.wake_at = 0
        self.awaits: Literal["", "signal", "approval", "input"] = ""
        """While it waits: for something from outside, which no time brings."""
        self.approved = ""
        """What a person has approved, as a hash."""
        self.given: Stored | None = None
        """The arguments that a person has approved in place of the plan's."""
        self.held = False
        """It failed, and what that means for others is still to be said."""
        self.waived = False
        """The run shall not fail for it."""
        self.signal = ""
        """Name of the signal that it waits for."""
        self.stand_in: StepState | None = None
        """The fallback whose success counts as this step's."""
        self.owner: StepState | None = None
        """The foreach step that this is an item of."""
        self.index = -1
        self.items: list[StepState] | None = None
        self.items_value: Stored | None = None
        self.items_split: list[Raw] | None = None
        """A cache of `items_value` cut into items."""
        self.open = 0
        """Items not settled yet."""
        self.inner: ScopeState | None = None
        self.rounds: list[Stored] | None = None
        """Results of a loop's finished rounds: all of them, or only the last."""
        self.spans: list[Span] | None = None
        """Finished attempts and rounds before the current one."""
        self.watchers: list[StepState] | None = None
        """Steps of inner scopes that wait for this one."""

    @property
    def is_call(self) -> bool:
        """A tool is called for it (unlike composites, foreach steps, sleeps)."""
        return self.node.calls and self.items is None

    @property
    def call(self) -> tuple[str, int, int]:
        """What makes its present call another one than those before: what its idempotency key is made of."""
        return self.path, self.generation, self.iteration

    @property
    def value(self) -> Stored | None:
        """The result, its stand-in's if that took over."""
        step: StepState = self
        while step.stand_in is not None:
            step = step.stand_in
        return step.result

    @property
    def id(self) -> str:
        return self.node.id

    @property
    def required(self) -> bool:
        """The run, or the composite it is in, fails with it."""
        return self.node.required and not self.waived

    def needed(self, name: str) -> StepState:
        """The step that `name` means here, looking outward."""
        level, index = self.node.places[name]
        scope = self.scope
        for _ in range(level):
            if scope.owner is None:
                raise InternalError(f"step {self.path} looks for {name} further out than the plan goes")
            scope = scope.owner.scope
        return scope.steps[index]


UNDO = ".undo"
"""How the path of a call ends that undoes a step."""


class Undo(StepState):
    """A call that undoes what a step did: all of it, or one round of its loop."""

    __slots__ = ("round", "target")

    def __init__(self, target: StepState, node: Node, round_: int) -> None:
        super().__init__(node, undo_path(target, round_), target.scope, 0)
        self.owner = self.target = target
        self.round = round_
        """Number of the round; -1 where there is no loop."""
        self.generation = target.generation


def undo_path(target: StepState, round_: int) -> str:
    """What the call is known by that undoes a step."""
    return f"{target.path}#{round_}{UNDO}" if round_ >= 0 else target.path + UNDO


class Undoing:
    """A compensation: what is to be undone, and how far that is."""

    def __init__(self, started: CompensationStarted) -> None:
        self.started = started
        self.alone = False
        """Nothing else is to be done in the run: it ends with it."""
        self.over = False
        """Nothing is left to undo."""
        self.told = False
        """And that is in the log."""
        self.ends = RunEnded(status=RunStatus.FAILED)
        """How the run ends, if it ends with it."""
        self.wanted: set[StepState] | None = None
        """What is to be undone; None: everything."""
        self.waits: dict[StepState, int] = {}
        """For each step, how many must be undone before it has its turn."""
        self.frees: dict[StepState, list[StepState]] = {}
        """For each step, those that wait for it."""
        self.open = 0
        """Steps of which something may be left to undo."""
        self.left: dict[StepState, int] = {}
        """For composites and foreach steps that have their turn, the same."""
        self.turns: dict[StepState, list[list[StepState]]] = {}
        """For those, the rounds still to come."""
        self.rounds: dict[StepState, list[int]] = {}
        """For steps that are being undone, the rounds still to come."""
        self.doubts: set[StepState] = set()
        """Steps that may have something to undo: somebody has to say."""
        self.undone: set[StepState] = set()
        """Those of which everything is undone; groups count."""
        self.kept: set[StepState] = set()
        """Those of which something is not."""


class ScopeState:
    """One running instance of a scope."""

    __slots__ = ("earlier", "open", "owner", "prefix", "replaced", "scope", "steps", "waited_ms")

    def __init__(self, scope: Scope, owner: StepState | None, prefix: str) -> None:
        self.scope = scope
        self.owner = owner
        self.prefix = prefix
        self.steps: list[StepState] = []
        self.open = 0
        """Steps not settled yet."""
        self.earlier: ScopeState | None = None
        """The same scope in the loop's round before, or in the attempt before."""
        self.replaced = False
        """Another attempt took its place: its steps are no part of the run any more, only of its story."""
        self.waited_ms = 0
        """How long the round or attempt was waited for: a delay or a backoff."""


class RunState:
    """One run."""

    def __init__(self, run_id: str, program: Program, inputs: bytes, limits: Limits = DEFAULT_LIMITS) -> None:
        self.run_id = run_id
        self.program = program
        self.inputs = inputs
        self.inputs_at_start = inputs
        """Those that were given then; others may have been asked for."""
        self.missing: dict[str, None] = {}
        """Names of inputs that somebody is asked for. Steps that read one wait."""
        self.end_waits = False
        """What the run comes to reads one too."""
        self.limits = limits
        self.settings = RunSettings()
        self.asks = False
        """Each call is looked at before it is made: the settings may ask about it, or it is done already."""
        self.forked_from: tuple[str, int] | None = None
        self.borrowed: dict[str, None] = {}
        """Steps of a fork whose calls the other run made: what they did is not this run's to undo."""
        """The run that it branched off, and the last event that both have."""
        self.kept: dict[str, ResultKept] = {}
        """Of a fork: by where they come from, results of calls that need not be made again."""
        self.kept_for: dict[tuple[str, str, str], list[str]] = {}
        """Those, by tool, definition and hash of the arguments."""
        self.at = 0
        """Time of the last event, in ms."""
        self.seq = 0
        self.version = 0
        self.started_at = 0
        self.ended_at = 0
        self.idle_ms = 0
        """Time between an end of the run and its being taken up again."""
        self.end: RunStatus | None = None
        self.error: Failure | None = None
        self.outputs: Stored | None = None
        self.answer: str | None = None
        self.paused = False
        self.cancelling = False
        self.stopped_by = ""
        """Name of the limit that a person chose to stop at."""
        self.extended: dict[str, float] = {}
        """Limits that a person raised."""
        self.versions: list[Version] = []
        """Every plan it has followed, the first one first."""
        self.approved: tuple[int, str] | None = None
        """Number and hash of the plan that a person has approved last, where that is asked for."""
        self.unapproved = ""
        """Hash of the plan, while nothing starts because nobody has approved it yet."""
        self.tried_unapproved: dict[str, None] = {}
        """Failed steps that plans which nobody has approved yet try again, or go on without."""
        self.commands: dict[str, str] = {}
        """By key, what became of each command: empty if it was taken, else why not."""
        self.tools: dict[str, ToolMark] = {}
        """What each tool was when the run began, or when the plan came to need it."""
        self.doubted: set[tuple[str, int, int]] | None = None
        """Once its log was cut: the calls with effects that were in doubt since. Each is at first."""
        self.accepted_tools: dict[str, str] = {}
        """Hashes of tools that are not what they were when the run began, and that a person took."""
        self.parallel = int(self.limit("parallel"))
        self.max_calls = self.limit("calls")
        self.max_journal_bytes = self.limit("journal_bytes")
        self.max_args_bytes = self.limit("args_bytes")
        self.steps: dict[str, StepState] = {}
        """Every step and item by path; children of a loop's earlier rounds stay."""
        self.root = ScopeState(program.root, None, "")
        self._begin()
        self.fetch: Callable[[str], bytes] = _no_blobs
        """Gives the bytes of a blob. They never change, so they are no part of the state."""
        self.at_hand: dict[str, bytes] = {}
        """Blobs of the turn under way: whoever stores them has not seen them yet."""

    def _begin(self) -> None:
        """What is open, how many there are of each, and what is to be looked at."""
        self.questions: dict[str, Question] = {}
        self.asked_about: dict[str, str] = {}
        """For steps about which a question is open, its id."""
        self.open_questions = 0
        self.blocked_by = 0
        """Open questions that stop the whole run, not just one step."""
        self.running = 0
        """Calls in flight."""
        self.calls = 0
        """Calls started, every attempt counted."""
        self.retries = 0
        """Attempts that were followed by another one."""
        self.total = 0
        """Steps in being: `len(steps)`."""
        self.settled = 0
        """Those of them that have an outcome."""
        self.done = 0
        """Those of them that are done."""
        self.retired: dict[str, int] = {}
        """Starts of steps that another attempt of their composite replaced: their successors count on
        from there, so that a late word of the old ones is not taken for the new ones'."""
        self.signals: dict[str, deque[Stored]] = {}
        """What has come from outside and no step has taken yet, by name."""
        self.listening = 0
        """Steps that wait for a signal."""
        self.listeners: dict[str, deque[StepState]] = {}
        """Those, by signal; also some that have moved on since: look at the status first."""
        self.heard: list[str] = []
        """Signals for which there is both, something that came and somebody who waits."""
        self.discoveries: list[tuple[str, str, str]] = []
        self._begin_advice()
        self.undo_after = False
        """Once what runs is stopped, what was done is to be undone."""
        self.undoing: Undoing | None = None
        self.taken_up = False
        """A driver has taken it up since its end, if it has ended: to undo what it did."""
        """The compensation under way, or the last one there was."""
        self.undos: dict[str, Undo] = {}
        """Calls that undo steps, by path. They are none of the plan's steps, and count as none."""
        self.unfit: dict[str, Stored] = {}
        """What calls gave that was no good, of steps that something undoes."""
        self.told: dict[str, Told] = {}
        """By path, what the log says of a step's work: how good its result is, what its calls used."""
        self.usage = Usage()
        """Of all calls, also of steps that are no part of the run any more."""

        # Frontier. All of these hold steps that may have moved on since: look at the status first.
        self.fresh: deque[StepState] = deque()
        """Dependencies settled; conditions, items and scopes still to be looked at."""
        self.ready: list[tuple[int, int, StepState]] = []
        """Heap: calls that need nothing but a place to run in, best first."""
        self.parked: dict[str, list[tuple[int, int, StepState]]] = {}
        """Heaps of calls that a tool's or resource's own limit holds back, by its name."""
        self.timers: list[tuple[int, int, StepState]] = []
        """Heap: steps that wait for a time."""
        self.closing: list[StepState | None] = []
        """Composites and foreach steps (None: the run) of which everything is settled."""
        self.order = 0
        """Tie-breaker of the heaps: first come, first served."""

    def _begin_advice(self) -> None:
        """What planners mend and agents decide, and what was said."""
        self.troubles: list[Trouble] = []
        """All there has been, whether it led to a repair or not."""
        self.unmended: list[Trouble] = []
        """What the next repair is for."""
        self.repairs: list[Repair] = []
        """Every repair so far."""
        self.repair: Repair | None = None
        """The one that is open."""
        self.fingerprints: dict[str, None] = {}
        """What was repaired before: the remaining plan and its trouble, as hashes."""
        self.guarded: dict[str, Approval] = {}
        """Approvals of steps that were taken out of the plan."""
        self.needs: dict[str, None] = {}
        """What it was said to take, each of which is mended once."""
        self.decides = 0
        """How often the agent is asked: the place of the setting `decide_at` among its words."""
        self.points: list[Point] = []
        """What the next decision is about."""
        self.deciding: dict[str, None] = {}
        """Steps about which is to be decided: what reads them waits."""
        self.decisions: list[AgentDecision] = []
        """Every decision so far."""
        self.decision: AgentDecision | None = None
        """The one that is open."""
        self.undecided_fresh: list[StepState] = []
        """What waits for a decision, out of `fresh`."""
        self.undecided_ready: list[tuple[int, int, StepState]] = []
        """The same, out of `ready`."""
        self.messages: Appended[Message] = Appended()
        self.notes: Merged[Any] = Merged()
        self.positions: Merged[int] = Merged()
        """Numbers of events, by the names that were given to them."""

    def is_undecided(self, step: StepState) -> bool:
        """It reads a step about which the agent is still to say how to go on."""
        return any(step.needed(name).path in self.deciding for name in step.node.places)

    @property
    def plan(self) -> Plan:
        return self.program.plan

    def forget_quality(self, path: str) -> None:
        """The step begins anew. What its calls used is used all the same."""
        told = self.told.get(path)
        if told is not None:
            told.quality = None

    def extend(self, name: str, value: float) -> None:
        """A person raised a limit. For `evolve` only."""
        self.extended[name] = value
        self.max_calls = self.limit("calls")
        self.max_journal_bytes = self.limit("journal_bytes")

    def look_at_calls(self) -> None:
        """Whether a call may not simply be made. For `evolve` only."""
        self.asks = self.settings.asks_about_calls or bool(self.kept or self.missing)

    def limit(self, name: str) -> float:
        """A limit in force: what a person raised it to, or the tighter of engine's and plan's."""
        raised = self.extended.get(name)
        if raised is not None:
            return raised
        own: float = getattr(self.limits, name)
        asked = self.plan.limits.get(name)
        return own if asked is None else min(own, asked)

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        if self.end is not None:
            return self.end
        if self.cancelling:
            return RunStatus.CANCELLING
        moving = RunStatus.COMPENSATING if self.compensating else RunStatus.RUNNING
        if self.running:
            return RunStatus.PAUSED if self.paused else moving
        if self.paused:
            return RunStatus.PAUSED
        if self.blocked_by or ((self.open_questions or self.listening) and not self._can_move()):
            return RunStatus.WAITING
        return moving

    @property
    def compensating(self) -> bool:
        """All that is left to do is to undo what was done."""
        return self.end is None and self.undoing is not None and self.undoing.alone

    @property
    def is_undoing(self) -> bool:
        """Something is being undone. The plan stays as it is meanwhile."""
        return self.undoing is not None and not self.undoing.told

    @property
    def ending(self) -> bool:
        """Nothing of its plan begins any more."""
        return self.cancelling or bool(self.stopped_by) or self.compensating

    def call_at(self, path: str) -> StepState:
        """The step of a path, or the call that undoes one."""
        return self.steps[path] if path in self.steps else self.undos[path]

    def _can_move(self) -> bool:
        """Looks at the steps themselves: a state folded from its log holds some that have moved on."""
        steps = [*self.fresh, *(entry[2] for entry in (*self.ready, *self.timers))]
        mends = self.mends and (not self.is_undoing or bool(self.decision or self.points))
        asked = self.repair is not None and self.repair.asked
        return (
            mends
            or asked
            or bool(self.parked)
            or any(step.status is StepStatus.READY and not self.is_undecided(step) for step in steps)
            or any(step.status is StepStatus.WAITING and not step.awaits for step in steps)
            or any(self.is_over(owner) for owner in self.closing if owner or not self.deciding)
        )

    def is_over(self, owner: StepState | None) -> bool:
        """All in `owner` (None: in the run) is settled; what it comes to is to be said."""
        if owner is None:  # it does not end before what is being undone is
            return self.root.open == 0 and not self.end_waits and not self.is_undoing
        if owner.status is not StepStatus.RUNNING:
            return False
        if owner.items is not None:
            return owner.open == 0
        return owner.inner is not None and owner.inner.open == 0

    @property
    def mends(self) -> bool:
        """The planner or the agent is asked, or to be asked: the plan may become another one."""
        return bool(self.repair or self.unmended or self.decision or self.points)

    @property
    def ended(self) -> bool:
        return self.end in ENDED

    def inputs_value(self) -> dict[str, Any]:
        """The inputs, decoded."""
        return decode(self.inputs)
