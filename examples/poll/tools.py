"""Two tools that stand for a service with long jobs: one starts a job, the other asks how it is."""

from __future__ import annotations

import kedge


@kedge.tool(effect="idempotent")
async def begin(name: str, ctx: kedge.Context) -> dict[str, str]:
    """Start a job. The key lets the service see that a second request is the same request."""
    return {"ticket": f"{name}-{ctx.idempotency_key[:4]}"}


@kedge.tool(effect="read")
async def look(ticket: str, round: int) -> dict[str, int | bool]:  # noqa: A002 - the plan's word
    """Ask whether a job is ready. A large one takes four looks, any other two."""
    looks = round + 1
    return {"ready": looks >= (4 if ticket.startswith("large") else 2), "rounds": looks}
