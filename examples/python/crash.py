"""Kill the process in the middle of a run, then resume it: what was done is not done again.

Run it twice:

    python crash.py          starts the run and is killed after the second part
    python crash.py          goes on where it was, and finishes
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import kedge

FOLDER = Path(os.environ.get("CRASH_FOLDER", ".kedge"))


@kedge.tool(effect="idempotent")
async def work(part: int, ctx: kedge.Context) -> str:
    """Write down that this part was done, under a key that makes a second try harmless."""
    with (FOLDER / "ledger.txt").open("a") as ledger:
        ledger.write(f"{part} {ctx.idempotency_key}\n")
    if part == 2 and not (FOLDER / "was-killed").exists():
        (FOLDER / "was-killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"part {part}"


PLAN = kedge.Plan.parse(
    {
        "goal": "Do four parts, one after another",
        "steps": [
            {"id": "one", "tool": "work", "args": {"part": 1}},
            {"id": "two", "tool": "work", "args": {"part": 2}, "after": ["one"]},
            {"id": "three", "tool": "work", "args": {"part": 3}, "after": ["two"]},
            {"id": "four", "tool": "work", "args": {"part": 4}, "after": ["three"]},
        ],
    }
)


async def main() -> int:
    """Start the run, or drive it on."""
    async with kedge.Engine(tools=[work], store=FOLDER / "crash.db") as engine:
        # The same id, plan and inputs mean the same run: started the first time, driven on after that.
        run = await engine.start(PLAN, run_id="crash-example")
        result = await run.result()
        print(result.summary())
        return 0 if result.ok else 1


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    sys.exit(asyncio.run(main()))
