"""The workflows of the crash matrix: a plan, and what its client does beside waiting for the end.

A client is a program that is started again after each kill and knows only what it has written down: `ack`
writes down what it was told, `acked` asks. So each of its parts here can be done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import apsw
from crash_forked import FORKED, forked, forked_anew
from crash_steering import (
    ANSWERED,
    APPROVED,
    CHANGED,
    FAILING,
    GUIDED,
    REPAIRED,
    SIGNALLED,
    TRIED_AGAIN,
    Fixer,
    Guide,
    answered_elsewhere,
    changed,
    demanded,
    signalled,
    signalled_at_last,
    signalled_elsewhere,
    signalled_while_nobody_drives,
    tried_again,
)
from crash_undoing import CANCELLED, DONE, FAILED, FAR, ONE_STEP, cancelled, one_step, taken_back

import kedge


class Client(Protocol):
    """What a workflow may use of whoever runs it."""

    engine: kedge.Engine

    def ack(self, kind: str, **data: Any) -> None:
        """Write down what was told."""
        ...

    def acked(self, kind: str, **data: Any) -> bool:
        """Whether this was told, in this life or an earlier one."""
        ...

    async def reopen(self) -> None:
        """Leave the engine and open it again, in the same process."""
        ...

    async def second(self, run_id: str, steps: list[dict[str, Any]]) -> kedge.Run:
        """Another run beside the one that counts."""
        ...


Act = Callable[[Client, kedge.Run], Awaitable[None]]
Faults = Mapping[str, tuple[range, BaseException]]


@dataclass(frozen=True)
class Workflow:
    """One row of the matrix."""

    steps: list[dict[str, Any]]
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    """Other fields of the plan."""
    ask: Any = "never"
    """What is asked before."""
    doubt: str = "done"
    """What is answered where a call is in doubt."""
    before: Callable[[Client], Awaitable[None]] | None = None
    """Done before the run is started."""
    act: Act | None = None
    """Done while it runs."""
    after: Act | None = None
    """Done once it has ended."""
    faults: Callable[[], Faults] = dict
    """Raised in each life, by place and pass: the disk's share."""
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    """Settings of the code that would make it wait too long, by `module.NAME`."""
    slow_s: float = 0.0
    """How long the disk takes for a commit."""
    files: bool = False
    """It uses the built-in tools for files."""
    changing: bool = False
    """Each life has another version of the tool `change`."""
    planner: Callable[[], kedge.Planner | None] = lambda: None
    """Who mends its plan."""
    agent: Callable[[], kedge.Agent | None] = lambda: None
    settings: kedge.RunSettings | None = None
    undo: Literal["never", "failure"] = "never"
    """When it undoes what it did."""
    weight: int = 4
    """How often it is drawn: what starts processes or waits takes long."""


def step(id_: str, tool: str, *after: str, **more: Any) -> dict[str, Any]:
    """A step of a plan."""
    return {"id": id_, "tool": tool, "after": list(after), **more}


def chain(*tools: str) -> list[dict[str, Any]]:
    """Steps in a row."""
    return [step(f"s{n}", tool, *([f"s{n - 1}"] if n else [])) for n, tool in enumerate(tools)]


def _wide(tool: str, count: int) -> list[dict[str, Any]]:
    middle = [step(f"m{n}", tool, "first") for n in range(count)]
    return [step("first", "put"), *middle, step("last", "think", *(one["id"] for one in middle))]


def _foreach(tool: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [step("each", tool, foreach=list(range(count)), **more), step("last", "think", "each")]


async def _until(done: Callable[[], bool], run: kedge.Run) -> None:
    while not (done() or run.state.ended or run.state.open_questions):  # noqa: ASYNC110 - nobody tells of what is looked for
        await asyncio.sleep(0)


# --- what clients do


async def _pause(client: Client, run: kedge.Run) -> None:
    if client.acked("unpaused") or run.state.ended:
        return
    try:
        if not run.state.paused:
            await run.pause(by="anna")
            client.ack("paused")
        await run.unpause(by="anna")
        client.ack("unpaused")
    except kedge.Refused:
        pass  # it has ended in the meantime


async def _cancel(client: Client, run: kedge.Run) -> None:
    await _until(lambda: run.state.running > 0, run)
    if not run.state.ended:
        await run.cancel("enough", by="anna")
        client.ack("cancelled")


async def _leave_and_return(client: Client, run: kedge.Run) -> None:
    if client.acked("left"):
        return
    client.ack("left")
    await _until(lambda: run.state.done > 0, run)
    await client.engine.drain(0.001)
    await client.reopen()


async def _leave_with_calls_held(client: Client, run: kedge.Run) -> None:
    """Leave in the moment in which a call waits for the disk."""
    if client.acked("left"):
        return
    client.ack("left")
    driver = client.engine._drivers[run.id]  # noqa: SLF001
    await _until(lambda: bool(driver._held), run)  # noqa: SLF001
    await client.reopen()


async def _old_run(client: Client) -> None:
    """A run that has ended, and stays or not."""
    if not client.acked("ended", run="old"):
        run = await client.second("old", [step("big", "put", args={"size": 20_000})])
        client.ack("ended", run="old", status=str((await run.result()).status))


async def _delete_old(client: Client, _: kedge.Run) -> None:
    if not client.acked("deleted", run="old"):
        client.ack("deleting", run="old")
        with suppress(kedge.NotFound):  # the life before came so far, and no further
            client.engine.delete("old")
        client.ack("deleted", run="old")


async def _prune_old(client: Client, _: kedge.Run) -> None:
    client.ack("deleting", run="old")
    client.engine.prune(kedge.Retention(keep=1))
    client.ack("deleted", run="old")


async def _spoil_old(client: Client, _: kedge.Run) -> None:
    """A damaged neighbour, which is found to be one."""
    client.ack("spoiled", run="old")
    _change("update event set data = x'00' where id = ((select key from run where run_id = 'old') << 32 | 2)")
    try:
        client.engine.look("old")
    except kedge.StoreDamaged:
        client.ack("refused", run="old")


async def _rob(client: Client, run: kedge.Run) -> None:
    """The other run's row is removed under its driver: the one that counts must not suffer for it."""
    if client.acked("robbed", run="other") or run.state.ended:
        return
    other = await client.second("other", chain(*["think"] * 40))
    client.ack("robbed", run="other")
    _change("delete from run where run_id = 'other'")
    try:
        await other.result()
    except kedge.NotOwner:
        client.ack("refused", run="other")


async def _beside(client: Client, _: kedge.Run) -> None:
    other = await client.second("other", chain("put", "pay", "think"))
    result = await other.result()
    for question in result.questions:
        await other.answer(question, "done", by="anna")
        client.ack("answered", run="other", question=question)


def _change(sql: str) -> None:
    connection = apsw.Connection("k.db")
    connection.set_busy_timeout(1000)
    connection.execute(sql)
    connection.close()


async def _mend(client: Client, run: kedge.Run) -> None:
    """It failed, somebody mends what failed, and it is taken up again."""
    if client.acked("mended") and run.state.end == kedge.RunStatus.DONE:
        return
    client.ack("mended")
    with open("mended", "w"):  # noqa: ASYNC230, PTH123 - an empty file
        pass
    again = await client.engine.resume("r", retry_failed=True)
    client.ack("ended", run="r", status=str((await again.result()).status))


# --- what the disk does


def _full() -> Faults:
    return {"file.begin.after": (range(3, 99, 2), apsw.FullError("by the proof"))}


def _lost_commit() -> Faults:
    return {"file.commit.before": (range(3, 4), apsw.IOError("by the proof"))}


def _unknown_commit() -> Faults:
    return {"file.commit.after": (range(3, 4), apsw.IOError("by the proof"))}


_RETRY = {"attempts": 4, "backoff_s": 0.002}

WORKFLOWS: dict[str, Workflow] = {
    "chain": Workflow(chain("think", "think", "think", "think")),
    "reads": Workflow(chain("put", "look", "think", "look")),
    "puts": Workflow(chain("put", "put", "put")),
    "pays": Workflow(chain("put", "pay", "pay", "think")),
    "pays_again": Workflow(chain("pay", "pay", "put"), doubt="retry"),
    "pays_not": Workflow(
        [*chain("put", "pay"), step("other", "put", fallback_for="s1"), step("last", "think", "s1")],
        doubt="failed",
    ),
    "diamond": Workflow(
        [step("top", "put"), step("left", "pay", "top"), step("right", "put", "top"),
         step("join", "pay", "left", "right")]
    ),
    "fan": Workflow(_wide("put", 8)),
    "fan_of_effects": Workflow(_wide("pay", 5)),
    "foreach": Workflow(_foreach("put", 12)),
    "foreach_effects": Workflow(_foreach("pay", 5), {"limits": {"parallel": 2}}),
    "foreach_some_fail": Workflow(
        [step("bad", "broken", foreach=[1, 2], on_error="continue"), step("last", "think"),
         step("end", "put", "last", "bad", join="settled")]
    ),
    "foreach_large": Workflow(
        [step("list", "put", args={"value": ["y" * 9_000] * 3}),
         step("each", "put", foreach="${list}", args={"value": "${item}"}), step("last", "think", "each")]
    ),
    "loop": Workflow([step("turn", "put", loop={"times": 3, "collect": "all"}), step("last", "pay", "turn")]),
    "loop_of_effects": Workflow([step("turn", "pay", loop={"times": 3, "delay_s": 0.002})]),
    "fallback": Workflow(
        [step("try", "broken"), step("instead", "pay", fallback_for="try"), step("last", "think", "try")]
    ),
    "nested": Workflow(
        [{"id": "job", "steps": [
            step("a", "put"), {"id": "inner", "after": ["a"], "steps": chain("pay", "think")},
            step("z", "put", "inner")]},
         step("last", "think", "job")]
    ),
    "nested_foreach": Workflow(
        [{"id": "job", "foreach": [1, 2, 3], "steps": chain("put", "pay")}, step("last", "think", "job")]
    ),
    "nested_retry": Workflow(
        [{"id": "job", "retry": {"attempts": 2, "backoff_s": 0.002, "on": ["permanent"]},
          "steps": [step("a", "look"), step("b", "broken", "a")], "on_error": "continue"},
         step("last", "put", "job", join="settled")]
    ),
    "retry": Workflow([step("try", "flaky", args={"fails": 2}, retry=_RETRY), step("last", "pay", "try")]),
    "not_done": Workflow([step("send", "unsent"), step("last", "put", "send")]),
    "timeout": Workflow(
        [step("slow", "hang", timeout_s=0.02, retry=_RETRY), step("last", "put", "slow")],
        constants={"kedge.engine.attempts.WATCH_S": 0.002},
    ),
    "stubborn": Workflow(
        [step("slow", "stubborn", timeout_s=0.02, retry=_RETRY), step("last", "put", "slow")],
        constants={"kedge.engine.attempts.GRACE_S": 0.01, "kedge.engine.attempts.WATCH_S": 0.002},
        weight=1,
    ),
    "large": Workflow(
        [step("make", "put", args={"size": 60_000}), step("use", "pay", args={"value": "${make}"}),
         step("last", "put", args={"value": "${use}"})]
    ),
    "sleep": Workflow(
        [step("a", "put"), step("nap", "sleep", "a", args={"seconds": 0.01}), step("b", "pay", "nap")]
    ),
    "condition": Workflow(
        [step("a", "put", args={"value": 3}), step("no", "pay", when="a > 5"),
         step("yes", "pay", when="a < 5"), step("end", "put", "no", "yes", join="any")]
    ),
    "any": Workflow(
        [step("a", "put", args={"wait_s": 0.003}), step("b", "put"), step("c", "pay", "a", "b", join="any")]
    ),
    "discovery": Workflow([step("see", "scout"), step("last", "pay", "see")]),
    "threads": Workflow(chain("put_slowly", "pay_slowly", "think_hard")),
    "threads_wide": Workflow(_wide("put_slowly", 6)),
    "files": Workflow(
        [step("a", "files.write", args={"path": "out/a.txt", "text": "one"}),
         step("b", "files.write", "a", args={"path": "out/a.txt", "text": "two"}),
         step("c", "files.read", "b", args={"path": "out/a.txt"})],
        files=True,
    ),
    "in_doubt": Workflow(chain("put", "unsure", "put")),
    "in_doubt_retried": Workflow(chain("put", "unsure", "pay"), doubt="retry"),
    "limit": Workflow(chain("put", "pay", "put"), {"limits": {"calls": 1}}),
    "limit_of_bytes": Workflow(chain("put", "pay", "put"), {"limits": {"journal_bytes": 500}}),
    "pause": Workflow(chain("put", "pay", "put", "put"), act=_pause),
    "cancel": Workflow([*chain("put"), step("long", "put", "s0", args={"wait_s": 30})], act=_cancel),
    "cancel_effect": Workflow(chain("put", "pay_slowly", "put"), act=_cancel),
    "changed_tool": Workflow([*chain("put", "pay"), step("c", "change", "s1")], changing=True),
    "mended": Workflow([step("a", "put"), step("b", "mended", "a"), step("c", "pay", "b")], after=_mend),
    "left": Workflow(chain("put", "pay", "look", "put"), act=_leave_and_return),
    "left_with_calls_held": Workflow(
        chain("pay", "put", "pay"), act=_leave_with_calls_held, slow_s=0.003
    ),
    "slow_disk": Workflow(_wide("pay", 3), slow_s=0.003),
    "full_disk": Workflow(
        chain("put", "pay", "put"), faults=_full, constants={"kedge.engine.writer.FULL_RETRY_S": 0.003}
    ),
    "lost_commit": Workflow(chain("put", "pay", "put"), faults=_lost_commit),
    "unknown_commit": Workflow(chain("put", "pay", "put"), faults=_unknown_commit),
    "two_runs": Workflow(chain("put", "pay", "put"), act=_beside),
    "robbed_neighbour": Workflow(chain(*["think"] * 40), act=_rob, weight=2),
    "damaged_neighbour": Workflow(chain("put"), before=_old_run, after=_spoil_old, weight=2),
    "deleted": Workflow(chain("pay"), before=_old_run, after=_delete_old, weight=2),
    "pruned": Workflow(chain("pay"), before=_old_run, after=_prune_old, weight=2),
    "signal": Workflow(SIGNALLED, act=signalled),
    "signal_from_elsewhere": Workflow(SIGNALLED, act=signalled_elsewhere),
    "signal_between_lives": Workflow(
        SIGNALLED, before=signalled_while_nobody_drives, act=signalled_at_last
    ),
    "answers_from_elsewhere": Workflow(ANSWERED, act=answered_elsewhere),
    "changed": Workflow(CHANGED, act=changed),
    "approval": Workflow(APPROVED),
    "plan_asked": Workflow(chain("put", "pay", "put"), ask="plan"),
    "failure_asked": Workflow(FAILING),
    "tried_again": Workflow(TRIED_AGAIN, act=tried_again),
    "repaired": Workflow(REPAIRED, act=demanded, planner=Fixer),
    "guided": Workflow(GUIDED, agent=Guide, settings=kedge.RunSettings(decide_at="every_step")),
    "undo_cancelled": Workflow(CANCELLED, act=cancelled),
    "undo_failed": Workflow(FAILED, undo="failure"),
    "undo_failed_again": Workflow(FAILED, undo="failure", doubt="failed"),
    "undo_later": Workflow(DONE, after=taken_back),
    "undo_one_step": Workflow(ONE_STEP, act=one_step),
    "undo_process": Workflow(FAR, undo="failure", weight=1),
    "forked": Workflow(FORKED, {"goal": "o"}, before=forked),
    "forked_anew": Workflow(FORKED, {"goal": "o"}, before=forked_anew, doubt="retry"),
    "process": Workflow(chain("put", "far_think", "far_think"), weight=1),
    "process_effect": Workflow(chain("far_pay", "put"), weight=1),
    "process_timeout": Workflow(
        [step("slow", "far_hang", timeout_s=0.4, retry=_RETRY), step("b", "put", "slow")], weight=1
    ),
}  # fmt: skip

SMALL = ("chain", "puts", "pays", "in_doubt", "retry")
"""Those whose pairs of places are tried: a kill at one, and at the other while it recovers."""

SPECIAL = {name for name, flow in WORKFLOWS.items() if flow.faults is not dict or flow.act in (_rob, _beside)}
"""Where the events in the store are not simply those of one run, one after the other."""
