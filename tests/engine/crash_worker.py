"""A program that drives runs and may be killed on the way. Not a test: the crash tests start it.

Reads lines of JSON, [FOLDER, PLAN, KILL], and drives each in a process of its own, forked from this one,
which has imported everything and opened nothing. KILL says where that process ends itself, as a kill from
outside would. Answers each line with how the process ended; what it found out stands in FOLDER/out.json.
"""

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import kedge
from kedge.journal.sqlite import SqliteJournal

folder = Path()
kill_at = ""
LOADED = (kedge.Engine, SqliteJournal)


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)


def write_down(step, key):
    with (folder / "ledger.txt").open("a") as ledger:
        ledger.write(f"{step} {key}\n")
        ledger.flush()
        os.fsync(ledger.fileno())


def body(kind):
    def work(ctx: kedge.Context, wait_s: float = 0.0) -> str:
        name = ctx.step
        if f"before:{name}" == kill_at:
            kill_self()
        write_down(name, ctx.idempotency_key)
        if f"after:{name}" == kill_at:
            kill_self()
        time.sleep(wait_s)
        return f"{kind} {name}"

    return kedge.tool(effect=kind, name=kind)(work)


TOOLS = [body(kind) for kind in ("pure", "read", "idempotent", "effect")]


def chain(*kinds):
    steps = []
    for number, kind in enumerate(kinds):
        steps.append({"id": f"s{number}", "tool": kind, "after": [f"s{number - 1}"] if number else []})
    return kedge.Plan.parse({"goal": "g", "steps": steps})


PLANS = {
    "pure": chain("pure", "pure", "pure"),
    "read": chain("pure", "read", "pure"),
    "idempotent": chain("pure", "idempotent", "pure"),
    "effect": chain("idempotent", "effect", "pure"),
    "wide": kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [
                {"id": "each", "tool": "idempotent", "foreach": list(range(20))},
                {"id": "last", "tool": "pure", "after": ["each"]},
            ],
        }
    ),
    "slow": kedge.Plan.parse({"goal": "g", "steps": [{"id": "s0", "tool": "read", "args": {"wait_s": 30}}]}),
}


def kill_on_commit(engine, number):
    """Die just before the commit with that number, counted from the first."""
    journal = engine._journal
    commit, count = journal.commit, 0

    def counted(appends, patience_s):
        nonlocal count
        count += 1
        if count == number:
            kill_self()
        commit(appends, patience_s)

    journal.commit = counted


async def drive(plan):
    async with kedge.Engine(tools=TOOLS, store=folder / "k.db") as engine:
        if kill_at.startswith("commit:"):
            kill_on_commit(engine, int(kill_at.split(":")[1]))
        run = await engine.start(PLANS[plan], run_id="r")
        (folder / "started").touch()
        result = await run.result()
        questions = {id_: asked.text for id_, asked in result.questions.items()}
        steps = {path: str(step.status) for path, step in result.steps.items()}
        found = {"status": result.status, "steps": steps, "questions": questions}
        (folder / "out.json").write_text(json.dumps(found))


def main():
    global folder, kill_at  # noqa: PLW0603
    for line in sys.stdin:
        where, plan, kill_at = json.loads(line)
        folder = Path(where)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                asyncio.run(drive(plan))
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        print(pid, flush=True)  # noqa: T201
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
