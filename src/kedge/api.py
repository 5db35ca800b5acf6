"""What `import kedge` offers: small functions over the rooms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kedge.base.errors import KedgeError
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks import check as _check
from kedge.checks import unsupported
from kedge.checks.compare import Comparison
from kedge.checks.compare import compare as _compare
from kedge.checks.severity import Strictness
from kedge.control.engine import Engine
from kedge.control.follow import Callback
from kedge.flow.result import RunResult
from kedge.plan.findings import Findings
from kedge.plan.model import Plan
from kedge.plan.read import load_plan as load
from kedge.plan.tools import Catalog
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool


def check(
    plan: Plan | str | dict[str, Any],
    tools: Iterable[Tool | Callable[..., Any]] | Catalog | None = None,
    *,
    strictness: Strictness = "moderate",
    limits: Limits = DEFAULT_LIMITS,
) -> Findings:
    """All faults of a plan at once. Without `tools`, what concerns tools is left out."""
    return _check(plan, _catalog(tools), strictness=strictness, limits=limits)


def compare(
    a: Plan | str | dict[str, Any],
    b: Plan | str | dict[str, Any],
    tools: Iterable[Tool | Callable[..., Any]] | Catalog | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Comparison:
    """What differs between two plans, and which is better. With `tools`, faults with tools count too."""
    one, other = (plan if isinstance(plan, Plan) else Plan.parse(plan, limits) for plan in (a, b))
    return _compare(one, other, _catalog(tools), limits)


def _catalog(tools: Iterable[Tool | Callable[..., Any]] | Catalog | None) -> Catalog | None:
    return tools if isinstance(tools, Catalog) or tools is None else Registry(tools).catalog


def run_sync(
    plan: Plan,
    inputs: Mapping[str, Any] | None = None,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    store: str | Path = ":memory:",
    run_id: str | None = None,
    limits: Limits | None = None,
    on_event: Callback | None = None,
) -> RunResult:
    """Run a plan from a script that has no event loop, and return its result."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise KedgeError(
            "run_sync cannot be used where an event loop runs already",
            code="loop_running",
            remedy="there, use `async with kedge.Engine(…) as engine:` and await engine.start(…)",
        )

    async def main() -> RunResult:
        async with Engine(tools=tools, store=store, limits=limits) as engine:
            run = await engine.start(plan, inputs, run_id, on_event)
            return await run.result()

    return asyncio.run(main())


__all__ = ["check", "compare", "load", "run_sync", "unsupported"]
