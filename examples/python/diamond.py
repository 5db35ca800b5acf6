"""A plan built in Python: fetch twice at the same time, then join."""

import asyncio

import kedge


@kedge.tool(effect="read")
async def fetch(source: str) -> int:
    """Pretend to ask a source for a number."""
    await asyncio.sleep(0.2)
    return len(source)


@kedge.tool(effect="pure")
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


PLAN = kedge.Plan(
    goal="Add what two sources say",
    steps=(
        kedge.Step(id="left", tool="fetch", args={"source": "north"}),
        kedge.Step(id="right", tool="fetch", args={"source": "south-west"}),
        kedge.Step(id="total", tool="add", args={"left": "${left}", "right": "${right}"}),
    ),
    outputs={"total": "total"},
)


async def main() -> None:
    """Run it and draw it."""
    async with kedge.Engine(tools=[fetch, add]) as engine:
        run = await engine.start(PLAN, on_event=kedge.print_progress)
        result = await run.result()
        print(kedge.draw(PLAN, result))
        print(result.outputs)


if __name__ == "__main__":
    asyncio.run(main())
