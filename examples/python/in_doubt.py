"""A call with effects that ends without an answer is never made again unasked: the run asks a person."""

import asyncio

import kedge


@kedge.tool  # the effect class is "effect" unless the tool says otherwise
async def send_invoice(customer: str) -> str:
    """Send an invoice over a line that never answers."""
    await asyncio.sleep(60)
    return f"invoice for {customer}"


@kedge.tool(effect="pure")
def note(invoice: str) -> str:
    """Write down which invoice was sent."""
    return f"sent: {invoice}"


PLAN = kedge.Plan.parse(
    """
    goal: Send an invoice and write down its number
    steps:
      - {id: send, tool: send_invoice, args: {customer: ACME}, timeout_s: 0.2}
      - {id: note, tool: note, args: {invoice: "${send}"}}
    """
)


async def main() -> None:
    """Run it until it asks, answer, and run it to its end."""
    async with kedge.Engine(tools=[send_invoice, note]) as engine:
        run = await engine.start(PLAN)
        result = await run.result()  # returns: only a person can move the run now
        for id_, question in result.questions.items():
            print(f"{result.status}: {id_}: {question.text}")
            print(f"  answers: {', '.join(question.options)}")
        # Somebody looks at the other side, finds the invoice there, and says so.
        await run.answer("q1", "done", value="invoice 17", by="ann")
        result = await run.result()
        print(f"{result.status}: {result.outputs}")


if __name__ == "__main__":
    asyncio.run(main())
