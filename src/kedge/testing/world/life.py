"""What the log of one run says, read by someone who knows nothing of the engine.

A second, small telling of what may follow what: it reads the stored bytes as plain JSON, knows the plan as
plain data, and shares no code with `flow`. Whatever this one finds odd, one of the two has wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from kedge.journal.entry import Entry
from kedge.testing.world.undoes import UNDO, Undoes

Blame = Callable[[str, str], None]
"""Which law is broken, and how."""

_INSTANCE = re.compile(r"\[\d+\]|#\d+")
_NAME = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
_decode = msgspec.json.decode
ABOUT_A_STEP = {"in_doubt", "approval", "failed", "decision", "input"}
"""Questions for which one step waits, and not the run."""
_VOID = {"limit", "salvaged"}
_PLAN = "the plan is approved"
_ENDS = {"StepSucceeded", "StepFailed", "StepSkipped", "StepCancelled"}
_GOES_ON = {"StepSucceeded", "StepSkipped", "StepCancelled"}
"""Ends of a step that are no failure of the run. One is cancelled alone where the plan was changed so."""
DEFAULT_PARALLEL = 16
DEFAULT_CALLS = 1_000_000


class Track:
    """One path of the run."""

    __slots__ = (
        "attempt", "called", "doubt", "end", "epoch", "gave", "generation", "iteration", "large", "may_start",
        "open", "result", "rounds", "skipped_then", "starts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.starts = 0
        self.open = False
        """Its last attempt has not come to an end."""
        self.end = ""
        """The event that settled it."""
        self.doubt = False
        self.may_start = True
        """Another call with effects is allowed: none was made yet, or somebody knows or has decided."""
        self.called = 0
        """Calls that were really made."""
        self.epoch = 0
        self.attempt = 0
        self.generation = 0
        self.iteration = 0
        self.rounds = 0
        """Rounds of a loop that have ended, but for the last."""
        self.gave = False
        """It failed, and its call gave something all the same."""
        self.result: Any = None
        self.large = ""
        """The hash of a result that is kept apart."""
        self.skipped_then = False
        """Before the run was taken up again: what it was skipped for may have changed."""


class Life:
    """One run, as its log tells it."""

    def __init__(self, run_id: str, plan: dict[str, Any], effects: dict[str, str], blame: Blame) -> None:
        self.run_id = run_id
        self.steps: dict[str, dict[str, Any]] = {}
        _index(plan["steps"], self.steps)
        self._roots = [step["id"] for step in plan["steps"]]
        self._fallbacks = {
            step["fallback_for"]: id_ for id_, step in self.steps.items() if "fallback_for" in step
        }
        self._effects = effects
        self._blame = blame
        self.changed = False
        """It follows another plan than it began with."""
        self.undoes = Undoes(self)
        self._asks = "never"
        self._plan_id = self._approved = ""
        """Of the plan that is followed, and of the one that a person wants."""
        self.tracks: dict[str, Track] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        """Of each path, by epoch."""
        self.commands: dict[str, tuple[int, str]] = {}
        """The event of each command, and its kind, by key."""
        self.seq = 0
        self.epoch = 0
        self.ended = ""
        self._at = 0
        self._chain = 0
        self._paused = self._cancelling = False
        self._blocked: set[str] = set()
        self._questions: dict[str, dict[str, Any]] = {}
        self._waived: set[str] = set()
        """Failed steps without which the run goes on."""
        self._decided = ""
        """The step about which somebody just said to try again."""
        limits = plan.get("limits", {})
        self._parallel = limits.get("parallel", DEFAULT_PARALLEL)
        self._calls_allowed = limits.get("calls", DEFAULT_CALLS)
        self._calls = 0

    # --- what the oracles ask

    def step_of(self, path: str) -> dict[str, Any]:
        """The plan's step behind a path, or the call that undoes one; nothing if there is none."""
        id_, _, undo = _INSTANCE.sub("", path).rpartition("/")[2].partition(".")
        step = self.steps.get(id_, {})
        return step.get("compensate", {}) if undo else step

    def effect_of(self, path: str) -> str:
        """What a second call would do; empty for what is no call."""
        return self._effects.get(self.step_of(path).get("tool", ""), "")

    def adopt(self, plan: dict[str, Any]) -> None:
        """From here on it follows this plan."""
        self.steps = {}
        _index(plan["steps"], self.steps)
        self._roots = [step["id"] for step in plan["steps"]]
        self._fallbacks = {
            step["fallback_for"]: id_ for id_, step in self.steps.items() if "fallback_for" in step
        }

    # --- reading on

    def take(self, entry: Entry) -> dict[str, Any]:
        """The next entry of the log."""
        event = _decode(entry.data)
        kind, path = event["kind"], event.get("path", "")
        if entry.seq != self.seq + 1:
            self.say("I14 gapless", f"event {entry.seq} follows {self.seq}")
        if entry.epoch < self.epoch:
            self.say("I5 one driver", f"event {entry.seq} has epoch {entry.epoch} after {self.epoch}")
        if entry.epoch > self.epoch and self.seq and kind != "RunResumed":
            self.say("I5 one driver", f"a new driver begins with {kind}, not by taking the run up")
        if entry.at < self._at:
            self.say("time", f"event {entry.seq} is earlier than the one before it")
        if self.ended and not self.undoes.may_follow(event):
            self.say("the end is the end", f"{kind} {path} after the run has ended ({self.ended})")
        self.seq, self.epoch, self._at = entry.seq, max(entry.epoch, self.epoch), entry.at
        tell = getattr(self, f"_on_{kind}", None)
        if tell is not None:
            tell(event)
        elif path:
            self._settle(event, self._track(path))
        if kind != "QuestionAnswered":
            self._decided = ""
        return event

    def say(self, law: str, text: str) -> None:
        """A law is broken."""
        self._blame(law, f"{self.run_id} event {self.seq}: {text}")

    def _track(self, path: str) -> Track:
        track = self.tracks.get(path)
        if track is None:
            track = self.tracks[path] = Track()
        return track

    # --- steps

    def _on_StepStarted(self, event: dict[str, Any]) -> None:  # noqa: N802 - named after the kind
        path = event["path"]
        track, step = self._track(path), self.step_of(path)
        call = "tool" in step and not (step.get("foreach") is not None and not path.endswith("]"))
        self._may_start_now(path, track)
        generation, iteration = event.get("generation", 0), event.get("iteration", 0)
        if (generation, iteration) != (track.generation, track.iteration):
            track.may_start = True  # another call, with another key
        if call:
            self._count_call(path)
            if path.endswith(UNDO):
                self.undoes.start(path)
            if self.effect_of(path) == "effect" and not track.may_start:
                self.say("I3 effects once", f"{path} starts again and nobody decided that it may")
        elif event.get("cause") == "again":
            self._go_on_inside(path)
        else:
            self._begin_inside(path, iteration)
        track.starts += 1
        self.starts[path, self.epoch] += 1
        track.open, track.may_start, track.doubt = call, False, False
        track.called, track.end = 0, ""
        track.epoch, track.attempt = self.epoch, event.get("attempt", 1)
        track.generation, track.iteration = generation, iteration
        if call and track.starts == 1:
            self._needs_are_settled(path, step)

    def _may_start_now(self, path: str, track: Track) -> None:
        if track.end == "StepSucceeded" or (track.end == "StepSkipped" and not track.skipped_then):
            self.say("I2 finished is finished", f"{path} starts again after {track.end}")
        if track.open:
            self.say("I2 finished is finished", f"{path} starts while it runs")
        undo = self.tracks.get(path + UNDO)
        if undo is not None and undo.end == "StepSucceeded":
            self.say("I2 finished is finished", f"{path} starts again after it was undone")
        undoing = path.endswith(UNDO)  # for that, nobody need want the plan
        blocked = self._blocked - {_PLAN} if undoing else self._blocked
        if self._paused or (self._cancelling and not undoing) or blocked:
            why = "paused" if self._paused else "cancelled" if self._cancelling else "waiting for an answer"
            self.say("commands hold", f"{path} starts while the run is {why}")
        forgotten = [p for p, t in self.tracks.items() if t.open and t.epoch < self.epoch]
        if forgotten:
            self.say(
                "I3 effects once", f"{path} starts before {forgotten[0]}, in flight at a crash, is told apart"
            )

    def _count_call(self, path: str) -> None:
        self._calls += not path.endswith(UNDO)  # what is undone must not stay for want of a number
        if self._calls > self._calls_allowed:
            self.say("I9 limits hold", f"call {self._calls} of {self._calls_allowed} allowed")
        running = sum(track.open for track in self.tracks.values())
        if running >= self._parallel:
            self.say("I9 limits hold", f"{running + 1} calls at once, {self._parallel} allowed")

    def _go_on_inside(self, path: str) -> None:
        """What failed in it is to be done again: somebody asked for that, and how it failed is known."""
        for inner, track in self.tracks.items():
            if inner.startswith((f"{path}/", f"{path}#", f"{path}[")) and track.end == "StepFailed":
                track.end, track.may_start = "", True

    def _begin_inside(self, path: str, iteration: int) -> None:
        """A composite starts anew, or a round of it: its children are other calls than before."""
        rounds = f"{path}#{iteration}/" if iteration else f"{path}#"
        for inner in [p for p in self.tracks if p.startswith((f"{path}/", rounds))]:
            if self.tracks[inner].open:
                self.say("I2 finished is finished", f"{path} starts anew while {inner} runs")
            del self.tracks[inner]

    def _needs_are_settled(self, path: str, step: dict[str, Any]) -> None:
        if path.endswith(UNDO) or step.get("join", "all") == "any" or step.get("foreach") is not None:
            return
        scope = path.rpartition("/")[0]
        for name in [*step.get("after", ()), *(name_in(v) for v in step.get("args", {}).values())]:
            needed = f"{scope}/{name}" if scope else name
            need = self.tracks.get(needed)
            if name in self.steps and need is not None and not need.end and not self._stood_in(needed):
                self.say("data readiness", f"{path} starts before {name} has settled")

    def _settle(self, event: dict[str, Any], track: Track) -> None:
        kind, path = event["kind"], event["path"]
        if kind not in _ENDS:
            return
        if track.end == "StepSucceeded":
            self.say("I2 finished is finished", f"{kind} for {path}, which is done")
        if kind == "StepFailed":
            track.gave |= "result" in event or "blob" in event
        if kind == "StepSucceeded":
            track.result = event.get("result")
            track.large = event.get("blob", {}).get("sha", "")
        track.end, track.open, track.doubt = kind, False, False

    def _on_StepInterrupted(self, event: dict[str, Any]) -> None:  # noqa: N802
        track = self._track(event["path"])
        if self.effect_of(event["path"]) == "effect" and track.called:
            self.say("I3 effects once", f"{event['path']} was called, and is taken for not called")
        track.open, track.may_start = False, True

    def _on_StepInDoubt(self, event: dict[str, Any]) -> None:  # noqa: N802
        track = self._track(event["path"])
        track.open, track.doubt = False, True

    def _on_RetryScheduled(self, event: dict[str, Any]) -> None:  # noqa: N802
        track = self._track(event["path"])
        known = event["error"].get("not_done", False) or self._decided == event["path"]
        if self.effect_of(event["path"]) == "effect" and not known:
            self.say("I3 effects once", f"{event['path']} is tried again, and nobody knows what it did")
        track.open, track.may_start, track.doubt = False, True, False

    def _on_RoundEnded(self, event: dict[str, Any]) -> None:  # noqa: N802
        track = self._track(event["path"])
        track.open, track.may_start = False, True
        track.rounds += 1

    def _on_Reopened(self, event: dict[str, Any]) -> None:  # noqa: N802
        """Somebody wants a failed step tried again: how it failed is known."""
        path = event["path"]
        for one, track in self.tracks.items():
            if track.end == "StepSkipped":
                track.skipped_then = True
            elif track.end == "StepFailed" and (
                one == path or one.startswith((f"{path}/", f"{path}#", f"{path}["))
            ):
                track.end, track.may_start = "", True

    def _on_FailureSettled(self, event: dict[str, Any]) -> None:  # noqa: N802
        if event.get("waived"):
            self._waived.add(event["path"])

    def _on_PlanAdopted(self, event: dict[str, Any]) -> None:  # noqa: N802
        self.changed = event["version"] > 1
        self._blocked.discard(_PLAN)
        if self._asks == "plan" and event["plan"] != self._approved:
            self._blocked.add(_PLAN)
        self._plan_id = event["plan"]
        patch: dict[str, Any] = event.get("patch") or {}
        self._waived.update(patch.get("waive", ()))
        for path in patch.get("retry", ()):
            self._on_Reopened({"path": path})

    def _on_RunStarted(self, event: dict[str, Any]) -> None:  # noqa: N802
        self._asks = event.get("settings", {}).get("ask", "never")

    def _on_PlanApproved(self, _: dict[str, Any]) -> None:  # noqa: N802
        self._approved = self._plan_id
        self._blocked.discard(_PLAN)

    def _on_CompensationStarted(self, event: dict[str, Any]) -> None:  # noqa: N802
        self.undoes.start_all(event)
        if "status" in event or self.ended:  # nobody wants to go on any more
            void = [id_ for id_ in self._blocked - {_PLAN} if self._questions[id_]["reason"] in _VOID]
            self._blocked.difference_update(void)

    def _on_CompensationEnded(self, event: dict[str, Any]) -> None:  # noqa: N802
        self.undoes.undone += event.get("undone", 0)

    def _on_CommandTaken(self, event: dict[str, Any]) -> None:  # noqa: N802
        self._on_command(event)

    def _on_CommandRefused(self, event: dict[str, Any]) -> None:  # noqa: N802
        self._on_command(event)

    def _on_command(self, event: dict[str, Any]) -> None:
        key = event["key"]
        if self.commands.setdefault(key, (self.seq, event["kind"]))[0] != self.seq:
            self.say("commands hold", f"the command {key} is decided on twice")

    def _on_Discovered(self, event: dict[str, Any]) -> None: ...  # noqa: N802
    def _on_FeedbackGiven(self, event: dict[str, Any]) -> None: ...  # noqa: N802

    # --- the run

    def _on_RunResumed(self, event: dict[str, Any]) -> None:  # noqa: N802
        if not (event.get("retry_failed") and self.ended):
            self.undoes.resumed()
            return
        self.ended, self._cancelling, self._paused = "", False, False
        self._blocked &= {_PLAN}
        for path, track in list(self.tracks.items()):
            if track.end == "StepSkipped":
                track.skipped_then = True
            elif track.end != "StepSucceeded" and not self._stood_in(path):
                track.end, track.open = "", False
                track.may_start = not track.doubt

    def _stood_in(self, path: str) -> bool:
        """A fallback did what it failed to do."""
        scope, _, id_ = path.rpartition("/")
        while (id_ := self._fallbacks.get(id_, "")) in self.steps:
            if self._track(f"{scope}/{id_}" if scope else id_).end == "StepSucceeded":
                return True
        return False

    def _on_RunPaused(self, _: dict[str, Any]) -> None:  # noqa: N802
        self._paused = True

    def _on_RunUnpaused(self, _: dict[str, Any]) -> None:  # noqa: N802
        self._paused = False

    def _on_RunCancelling(self, _: dict[str, Any]) -> None:  # noqa: N802
        self._cancelling, self._paused = True, False

    def _on_QuestionAsked(self, event: dict[str, Any]) -> None:  # noqa: N802
        id_ = event["question"]
        if id_ in self._questions:
            self.say("questions", f"question {id_} is asked twice")
        self._questions[id_] = event
        if event["reason"] not in (*ABOUT_A_STEP, "plan"):  # that is known by who approved it
            self._blocked.add(id_)

    def _on_QuestionAnswered(self, event: dict[str, Any]) -> None:  # noqa: N802
        id_, answer = event["question"], event["answer"]
        asked = self._questions.get(id_)
        if asked is None or asked.get("answered"):
            self.say(
                "questions", f"question {id_} is answered " + ("twice" if asked else "and was never asked")
            )
            return
        asked["answered"] = True
        self._blocked.discard(id_)
        if asked["reason"] == "in_doubt" and answer == "retry":
            self._decided = asked["path"]
        if asked.get("limit") == "calls" and answer == "raise":
            self._calls_allowed = event["limit"]

    def _on_RunEnded(self, event: dict[str, Any]) -> None:  # noqa: N802
        self.ended = event["status"]
        self._paused = False
        self._blocked &= {_PLAN}
        running = [path for path, track in self.tracks.items() if track.open]
        if running:
            self.say("the end is the end", f"the run ends while {running[0]} runs")
        if self.ended == "cancelled" and not (self._cancelling or self.undoes.undone):
            self.say("no silent success", "the run ends as cancelled, and nobody cancelled it")
        if self.ended == "done":
            self._is_done()

    def _is_done(self) -> None:
        bad = [id_ for id_ in self._roots if not self._came_well(id_)]
        if bad:
            self.say("no silent success", f"the run is done, and {bad[0]} is not")
        if not any(self._track(id_).end == "StepSucceeded" for id_ in self._roots):
            self.say("no silent success", "the run is done, and nothing was")

    def _gone_without(self, id_: str) -> bool:
        while id_:
            if id_ in self._waived:
                return True
            id_ = self._fallbacks.get(id_, "")
        return False

    def _came_well(self, id_: str) -> bool:
        track, step = self._track(id_), self.steps[id_]
        if track.end in _GOES_ON or step.get("on_error") == "continue":
            return True
        if self._gone_without(id_):
            return True
        return "fallback_for" in step or self._stood_in(id_)  # of a fallback, its target counts


def _index(steps: list[dict[str, Any]], into: dict[str, dict[str, Any]]) -> None:
    for step in steps:
        into[step["id"]] = step
        _index(step.get("steps", []), into)


def name_in(value: Any) -> str:
    """The step that an argument is the result of."""
    found = _NAME.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else ""
