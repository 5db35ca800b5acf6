"""What a run came to: a read-only account for people and programs, computed from the state on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from kedge.base.codec import decode
from kedge.flow.compensation import not_undone, undone
from kedge.flow.critical import critical_path
from kedge.flow.estimates import Estimates, estimates
from kedge.flow.feedback import Feedbacks
from kedge.flow.names import bytes_of, result_bytes
from kedge.flow.state import RunState, StepState
from kedge.flow.stretches import spent_ms, stretches
from kedge.flow.suggestions import Suggestion, useful_first
from kedge.flow.usage import Usage
from kedge.flow.words import Failure, Outcome, RunStatus, StepStatus

_HAVE_RESULTS = (StepStatus.DONE, StepStatus.COMPENSATED)


def _when(ms: int) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many. Items of a foreach and children of composites count as steps."""

    total: int
    """All steps there are."""
    done: int
    """Succeeded."""
    failed: int
    """Failed for good, fallbacks that stood in for them or not."""
    skipped: int
    """Did not run: skipped is not success."""
    cancelled: int
    """Stopped, or never begun, because the run was cancelled."""
    in_doubt: int
    """May have had their effect: somebody has to say."""
    compensated: int = 0
    """Done, and undone again."""
    attempts: int
    """Attempts of all kinds, first ones included."""
    tool_calls: int
    """Calls that were made."""


class StepResult(msgspec.Struct, eq=False):
    """What one step came to."""

    _state: RunState
    _step: StepState

    @property
    def path(self) -> str:
        """Where it is in the plan: `outer[3]/inner`."""
        return self._step.path

    @property
    def status(self) -> StepStatus:
        """How it stands, or how it ended."""
        return self._step.status

    @property
    def milestone(self) -> bool:
        """Its end is a point worth telling."""
        return self._step.index < 0 and self._step.node.step.is_milestone

    @property
    def attempt(self) -> int:
        """Number of the last attempt; 0 if there was none."""
        return self._step.attempt

    @property
    def calls(self) -> int:
        """Attempts in all rounds."""
        return self._step.starts

    @property
    def result(self) -> Any:
        """The result; for a failed step whose fallback succeeded, the fallback's. None if there is none."""
        step = self._step
        if type(step.result) is bytes:
            return decode(step.result)
        if step.status not in _HAVE_RESULTS and step.stand_in is None:
            return None
        return decode(result_bytes(self._state, step))

    @property
    def error(self) -> Failure | None:
        """Why it failed, or is in doubt."""
        step = self._step
        return step.error if step.status in (StepStatus.FAILED, StepStatus.IN_DOUBT) else None

    @property
    def replaced_by(self) -> str:
        """Path of the fallback whose success stands in for this step."""
        return self._step.stand_in.path if self._step.stand_in else ""

    @property
    def skipped_because(self) -> str:
        """Why it was skipped, in words."""
        step = self._step
        names = ", ".join(step.because)
        return {
            "condition": f"its condition is false: {names}",
            "absent": f"nothing it depends on is there: {names}",
            "dependency": f"it depends on what failed: {names}",
            "not_needed": f"{names} did not fail",
            "empty": "none of its steps was done",
            "command": f"somebody said so: {names}" if names else "somebody said so",
        }.get(step.reason, "")

    @property
    def started_at(self) -> datetime | None:
        """When its first attempt began."""
        return _when(self._step.started_at)

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None if it has not."""
        return _when(self._step.ended_at)

    @property
    def seconds(self) -> float | None:
        """From its first start to its end, waits between attempts included.

        Time in which the run had ended, before it was taken up again, does not count.
        """
        step = self._step
        if not step.started_at or not step.ended_at:
            return None
        return spent_ms(step, step.ended_at) / 1000

    def __repr__(self) -> str:
        return f"<step {self.path}: {self.status}>"


class StepResults(Mapping[str, StepResult]):
    """Step results by path."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._steps = state.steps

    def __getitem__(self, path: str) -> StepResult:
        return StepResult(self._state, self._steps[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class RunResult:
    """What a run came to so far."""

    def __init__(self, state: RunState, plan_id: str) -> None:
        self.state = state
        """The state that all of this is read from: for pictures."""
        self.run_id = state.run_id
        """Its name in the store."""
        self.plan_id = plan_id
        """The hash of its plan."""
        self.version = state.version
        """Which version of the plan it followed at the end; 1 is the first."""
        self.versions = tuple(state.versions)
        """Every plan it has followed: number, plan, when, what led to it, who wanted it and why."""
        self.forked_from = state.forked_from
        """The run that it branched off and the last event that both have; None if it is no fork."""
        self.troubles = tuple(state.troubles)
        """All that came up and the plan did not foresee, whether it led to a repair or not."""
        self.repairs = tuple(msgspec.structs.replace(one) for one in state.repairs)
        """Every repair of the plan: what it was for, what became of it and why."""
        self.decisions = tuple(msgspec.structs.replace(one) for one in state.decisions)
        """Every decision that an agent was asked for, and what it wanted."""
        self.messages = tuple(state.messages.kept)
        """What was said last, by agents and people."""
        self.positions = dict(state.positions.kept)
        """Numbers of events that were given a name."""
        self.steps = StepResults(state)
        """What became of each step, by path: `result.steps["outer[3]/inner"]`."""
        self.feedback = Feedbacks(state)
        """How well each finished step did, by path: quality, and time and use against estimate."""

    @property
    def status(self) -> RunStatus:
        """How the run stands, or how it ended."""
        return self.state.status

    @property
    def ok(self) -> bool:
        """Every required step succeeded and something was done."""
        return self.status is RunStatus.DONE

    @property
    def outputs(self) -> dict[str, Any]:
        """The plan's `outputs`; without any, the results of the steps that nothing depends on."""
        state = self.state
        if state.outputs is not None:
            return decode(bytes_of(state, state.outputs))
        if state.end is not RunStatus.DONE:
            return {}
        return {
            step.id: decode(result_bytes(state, step))
            for step in state.root.steps
            if step.outcome is Outcome.DONE and not step.node.consumers and step.node.fallback_for < 0
        }

    @property
    def answer(self) -> str | None:
        """The plan's `answer`, filled in; None without one."""
        return self.state.answer

    @property
    def error(self) -> Failure | None:
        """Why it did not end as it should."""
        return self.state.error

    @property
    def questions(self) -> dict[str, Any]:
        """Open questions by id: what is asked, and which answers there are."""
        if self.state.ended:
            return {}  # nobody can answer them any more
        return {id_: q.asked for id_, q in self.state.questions.items() if q.open}

    def brief(self, question: str) -> str:
        """A question with what a person needs to answer it: arguments, effect, what was done before."""
        from kedge.flow.brief import question_brief  # for people

        return question_brief(self.state, self.state.questions[question].asked)

    @property
    def undone(self) -> tuple[str, ...]:
        """Paths of the steps of which all that they did is undone, the first one first."""
        return tuple(undone(self.state))

    @property
    def not_undone(self) -> dict[str, str]:
        """Paths of the steps that were to be undone and are not, and why."""
        return not_undone(self.state)

    @property
    def suggestions(self) -> list[Suggestion]:
        """What could be better the next time, the most useful first; also if all went well."""
        return useful_first(one for record in self.feedback.values() for one in record.suggestions)

    @property
    def usage(self) -> Usage:
        """What all calls together used, as far as anybody told."""
        return self.state.usage

    @property
    def estimates(self) -> Estimates:
        """What was expected and what it took, per step and per version of the plan."""
        return estimates(self.state)

    @property
    def started_at(self) -> datetime | None:
        """When it began."""
        return _when(self.state.started_at)

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None if it has not."""
        return _when(self.state.ended_at)

    @property
    def now_ms(self) -> int:
        """Up to when it tells what became of the run, in ms."""
        return self.state.at

    @property
    def seconds(self) -> float:
        """Wall time, from the start to the end or the last event."""
        state = self.state
        return ((state.ended_at or state.at) - state.started_at) / 1000 if state.started_at else 0.0

    @property
    def critical_path_s(self) -> float:
        """Seconds of the chain of steps that the end had to wait for, with its delays and backoffs."""
        return critical_path(self.state).seconds

    @property
    def parallel_efficiency(self) -> float:
        """`max(0, 1 - wall / sum of step times)`: 0 is one after another, near 1 is much at once.

        Without the time in which the run had ended, before it was taken up again.
        """
        state = self.state
        busy_ms = sum(spent_ms(step, state.at) for step in _leaves(state))
        wall_ms = (state.ended_at or state.at) - state.started_at - state.idle_ms
        return max(0.0, 1.0 - wall_ms / busy_ms) if busy_ms else 0.0

    @property
    def groups(self) -> list[list[str]]:
        """Steps that ran together: a group ends when nothing runs.

        A step that ran again after the run was taken up is in a group for each time.
        """
        spans = sorted(span for step in _leaves(self.state) for span in _busy(step, self.state.at))
        groups: list[list[str]] = []
        busy_until = -1
        for start, end, path in spans:
            if start >= busy_until:
                groups.append([])
            groups[-1].append(path)
            busy_until = max(busy_until, end)
        return groups

    @property
    def counts(self) -> Counts:
        """How many steps came to what."""
        tally: dict[StepStatus, int] = dict.fromkeys(StepStatus, 0)
        attempts = 0
        for step in self.state.steps.values():
            tally[step.status] += 1
            attempts += step.starts
        return Counts(
            total=len(self.state.steps),
            done=tally[StepStatus.DONE],
            failed=tally[StepStatus.FAILED],
            skipped=tally[StepStatus.SKIPPED],
            cancelled=tally[StepStatus.CANCELLED],
            in_doubt=tally[StepStatus.IN_DOUBT],
            compensated=tally[StepStatus.COMPENSATED],
            attempts=attempts,
            tool_calls=self.state.calls,
        )

    def summary(self) -> str:
        """One paragraph for people."""
        counts = self.counts
        parts = [f"{counts.done} of {counts.total} steps done"]
        for name in ("failed", "skipped", "cancelled", "in_doubt", "compensated"):
            number = getattr(counts, name)
            if number:
                parts.append(f"{number} {name.replace('_', ' ')}")
        if kept := len(self.not_undone):
            parts.append(f"{kept} not undone")
        text = f"{self.status}: {', '.join(parts)} in {self.seconds:.1f} s"
        if self.parallel_efficiency >= 0.005:  # less would be shown as 0 %
            text += f", parallel efficiency {self.parallel_efficiency:.0%}"
        if self.error is not None:
            text += f"\n{self.error.message}"
        return text

    def __repr__(self) -> str:
        return f"<result of run {self.run_id}: {self.status}>"


def _leaves(state: RunState) -> Iterator[StepState]:
    """Steps that did something themselves, also in attempts of a composite that others replaced."""
    todo = [state.root.steps]
    while todo:
        for step in todo.pop():
            scope = step.inner
            if step.items is not None:
                todo.append(step.items)
            elif scope is None and step.started_at and step.node.scope is None:
                yield step
            while scope is not None:
                todo.append(scope.steps)
                scope = scope.earlier


def _busy(step: StepState, now_ms: int) -> list[tuple[int, int, str]]:
    """From when to when it was under way, waits between attempts included."""
    if step.spans is None:
        return [(step.started_at, step.ended_at or now_ms, step.path)]
    found: list[tuple[int, int, str]] = []
    for one in stretches(step, now_ms):
        if one.what == "queue":
            continue
        if found and found[-1][1] == one.start:
            found[-1] = (found[-1][0], one.end, step.path)
        else:
            found.append((one.start, one.end, step.path))
    return found
