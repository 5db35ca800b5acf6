"""Follow a run event by event, and steer it: pause, unpause, cancel."""

import asyncio

import kedge


@kedge.tool(effect="pure")
async def part(number: int) -> int:
    """One part of the work."""
    await asyncio.sleep(0.02)
    return number


PLAN = kedge.Plan.parse(
    {
        "goal": "Do twenty parts, two at a time",
        "steps": [{"id": "parts", "tool": "part", "foreach": list(range(20)), "args": {"number": "${item}"}}],
    }
)


async def main() -> None:
    """Follow the run, and step in twice."""
    async with kedge.Engine(tools=[part], limits=kedge.Limits(parallel=2)) as engine:
        run = await engine.start(PLAN)
        done = 0
        async for event in run.events(level="step"):
            print(event)
            done += event.kind == "step_succeeded"
            if done == 4 and event.kind == "step_succeeded":
                await run.pause(by="ann")  # what runs goes on, nothing new starts
                await asyncio.sleep(0.1)
                await run.unpause(by="ann")
            if done == 10 and event.kind == "step_succeeded":
                await run.cancel("ten are enough", by="ann")
        result = await run.result()
        print(result.summary())


if __name__ == "__main__":
    asyncio.run(main())
