"""Whether a run's id stands for the same run: of the same plan, with the same inputs."""

from __future__ import annotations

from kedge.base.errors import RunConflict, StoreDamaged
from kedge.engine.ports import Journal
from kedge.engine.recovery import decode
from kedge.flow.events import RunStarted

_SHOWN = 80


def first_event(journal: Journal, run_id: str) -> RunStarted | None:
    """How the run began; None if whoever claimed it never got to its first event."""
    head = journal.head(run_id)
    if head is None or not head.seq:
        return None
    first = decode(run_id, journal.read(run_id, 0, 1)[0])
    if not isinstance(first, RunStarted):
        raise StoreDamaged("the log does not begin with RunStarted", run_id=run_id, seq=1)
    return first


def refuse_another(run_id: str, its: tuple[str, bytes], given: tuple[str, bytes]) -> None:
    """RunConflict if plan or inputs are not the run's own."""
    if its == given:
        return
    if its[0] != given[0]:
        what = f"plan {its[0][:12]}, not {given[0][:12]}"
    else:
        what = f"inputs {_short(its[1])}, not {_short(given[1])}"
    raise RunConflict(
        f"the id belongs to a run of {what}",
        where=f"run {run_id}",
        remedy="give another id, or none for a new one",
    )


def _short(raw: bytes) -> str:
    text = raw.decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
