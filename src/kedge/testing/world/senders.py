"""A process that asks something of runs which others drive, as a command line does, and one person's errands.

What it asks is random: changes of the plan, some of them stale, pauses, words, wrong answers. It waits for
what becomes of it, sends some of it twice, and goes.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kedge.base.errors import KedgeError
from kedge.flow import commands as cmd
from kedge.flow.state import RunState
from kedge.flow.words import StepStatus
from kedge.testing.editors import Editor
from kedge.testing.world.process import Process, SimulatedEngine
from kedge.testing.world.tools import REGISTRY

if TYPE_CHECKING:
    from kedge.testing.world.world import World

AWAIT_S = 40 * 24 * 3600.0
"""Who waits longer for a decision gives up."""


def any_command(luck: Random, state: RunState) -> cmd.Command:
    """Something that somebody may want of a run that stands so."""
    done = [step.path for step in state.steps.values() if step.status is StepStatus.DONE]
    match luck.randrange(12):
        case 0:
            return cmd.Pause()
        case 1:
            note = cmd.Note(values={"x": luck.randrange(9)})
            return luck.choice([cmd.Unpause(), note, cmd.Mark(name="here")])
        case 2:
            return cmd.Signal(name=luck.choice(["paid", "sent"]), data=luck.randrange(9))
        case 3:
            return cmd.Repair(need="more", step="")
        case 4 if state.questions:
            id_ = luck.choice(list(state.questions))
            return cmd.Answer(question=id_, answer=luck.choice(state.questions[id_].asked.options))
        case 5:
            return cmd.SetGoal(goal=f"more luck {luck.randrange(9)}")
        case 6 if done:
            return cmd.Compensate(step=luck.choice(done))
        case 7:
            return cmd.Rollback(version=luck.randint(1, max(1, state.version)), compensate=True)
        case _:
            editor = Editor(luck)
            editor.count = luck.randrange(1_000_000)
            return editor.edit(state)


async def sender(process: Process) -> None:
    """What such a process runs."""
    world = process.world
    luck = Random(f"sender {world.scenario.seed} {process.number}")
    async with SimulatedEngine(REGISTRY, process.journal, clock=world.wall) as engine:
        process.engine = engine
        async with asyncio.TaskGroup() as group:
            for number in range(luck.choice([1, 1, 2, 5])):
                await asyncio.sleep(luck.choice([0.0, 0.0, 0.5]))
                group.create_task(_ask(world, process, engine, luck, number))


async def _ask(world: World, process: Process, engine: SimulatedEngine, luck: Random, number: int) -> None:
    run_id = luck.choice(world.wanted).order.run_id
    key = f"sender-{process.number}-{number}"
    try:
        command = replace(any_command(luck, engine.look(run_id).state), key=key, by="otto")
        receipt = await engine.send(run_id, command)
        if process.dead:
            return
        world.commanded.sent(run_id, key)
        if luck.randrange(3) == 0:
            with contextlib.suppress(KedgeError):
                receipt = await engine.send(run_id, command)
        decision = await receipt.decided(timeout_s=AWAIT_S)
        if not process.dead:
            world.commanded.decided(run_id, key, decision)
    except (KedgeError, TimeoutError):
        return  # the store, no such run, or the run has ended
