"""What a run did after some event, for a fork that branches off there: its calls, and what they came to."""

from __future__ import annotations

import msgspec

from kedge.base.codec import digest
from kedge.flow import events as ev
from kedge.flow.evolve import evolve
from kedge.flow.names import bytes_of
from kedge.flow.state import RunState, StepState
from kedge.flow.words import StepStatus

_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Afterwards:
    """Folds the whole log of a run, from the event after its first, and notes what came after the fork."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self._results: list[ev.ResultKept] = []
        self.called: dict[str, None] = {}
        """Steps whose calls were made after it, or in flight there."""
        self.ended: set[str] = set()
        """Those of them that came to something, in some round."""
        self._given: dict[str, str] = {}
        """Hash of the arguments of each call in flight."""
        self._late = False

    @property
    def results(self) -> list[ev.ResultKept]:
        """What calls came to after it, but for those that were undone since."""
        undone = self.undone
        return [kept for kept in self._results if kept.path not in undone]

    @property
    def undone(self) -> set[str]:
        """Steps of which something was undone since, or may have been."""
        settled = (StepStatus.DONE, StepStatus.IN_DOUBT, StepStatus.RUNNING)
        return {undo.target.path for undo in self.state.undos.values() if undo.status in settled}

    def branch_here(self) -> None:
        """All that is folded from now on came after the fork."""
        self._late = True
        steps = self.state.steps.values()
        self.called |= dict.fromkeys(
            step.path for step in steps if step.status is StepStatus.RUNNING and step.is_call
        )

    def fold(self, event: ev.Event, at: int, source: str) -> None:
        """One event; `source` says where it is, as `run@seq`."""
        match event:
            case ev.StepStarted() if event.args or event.args_hash:
                self._given[event.path] = event.args_hash or digest(bytes(event.args))
                if self._late and event.path in self.state.steps:
                    self.called[event.path] = None
            case ev.StepSucceeded() | ev.RoundEnded():
                args_hash = self._given.pop(event.path, "")
                step = self.state.steps.get(event.path)  # None: the call undoes one
                if self._late and args_hash and step is not None and step.is_call:
                    self.ended.add(event.path)
                    self._keep(event, source, args_hash)
            case ev.Forked():
                self._given.clear()
            case ev.ResultKept() if self._late:
                self._results.append(event)
            case _:
                pass
        evolve(self.state, event, at)

    def _keep(self, event: ev.StepSucceeded | ev.RoundEnded, source: str, args_hash: str) -> None:
        """The result as a fork has it, before its event is folded in."""
        state, step = self.state, self.state.steps[event.path]
        tool = step.node.step.tool or ""
        mark = state.tools.get(tool)
        if mark is None:  # a tool that the engine did not have
            return
        result, blob = _last_call(state, step, event)
        self._results.append(
            ev.ResultKept(
                source=source, path=event.path, tool=tool,
                definition=state.accepted_tools.get(tool, mark.hash), args_hash=args_hash,
                generation=step.generation, iteration=step.iteration, result=result, blob=blob,
            )
        )  # fmt: skip


def _last_call(
    state: RunState, step: StepState, event: ev.StepSucceeded | ev.RoundEnded
) -> tuple[ev.Raw, ev.Blob | None]:
    """What the call itself came to: the result of a loop may be that of all its rounds."""
    loop = step.node.step.loop
    if isinstance(event, ev.RoundEnded) or loop is None or loop.collect != "all":
        return event.result, event.blob
    raw = bytes_of(state, event.blob) if event.blob is not None else bytes(event.result)
    return _split_list(raw)[-1], None
