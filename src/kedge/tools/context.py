"""What a tool may use of the run it works for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from kedge.base.errors import ToolError

_MOST = 1e12
"""Used in one call: more is a mistake."""


class Sink(Protocol):
    """Takes what a running tool reports. Called from whatever thread the tool is in; must not block."""

    def report(self, kind: str, data: Mapping[str, Any]) -> None: ...


class Context:
    """One attempt of one step, as its tool sees it: a parameter named `ctx`, or annotated `Context`.

    `cancelled` is for functions that run in a thread: nobody can stop those from outside, so a
    long one looks here now and then. Its caller sets it; tools only read it.
    """

    __slots__ = ("_key", "_sink", "attempt", "cancelled", "run_id", "step")

    def __init__(self, sink: Sink, run_id: str, step: str, attempt: int, key: Callable[[], str]) -> None:
        self._sink = sink
        self._key = key
        self.run_id = run_id
        """The run's id."""
        self.step = step
        """The step's path, as in `outer[3]/inner`."""
        self.attempt = attempt
        """1 for the first."""
        self.cancelled = False
        """The call is to stop. Functions in a thread look here, for nobody can stop them from outside."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call, another for any other call: hand it to the far side."""
        return self._key()

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        """How far it is, from 0 to 1 (held to that range), or None for "still at it"."""
        if fraction is not None:
            fraction = None if math.isnan(fraction) else min(1.0, max(0.0, float(fraction)))
        self._sink.report("progress", {"fraction": fraction, "message": message})

    def heartbeat(self) -> None:
        """Still alive: restarts the step's idle timeout."""
        self._sink.report("heartbeat", {})

    def discover(self, what: str, need: str = "") -> None:
        """Tell the run something its plan did not know, and what it would take to use it."""
        self._sink.report("discovery", {"what": what, "need": need})

    def usage(self, tokens: int = 0, cost: float = 0.0) -> None:
        """What this call used besides time; each further word is added. `cost`: in the plan's currency."""
        for name, amount in (("tokens", tokens), ("cost", cost)):
            if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount <= _MOST:
                raise ToolError(
                    f"a call cannot have used {name} {repr(amount)[:80]}",
                    "bug",
                    remedy=f"give {name} as a number from 0 to {_MOST:g}",
                )
        self._sink.report("usage", {"tokens": int(tokens), "cost": float(cost)})

    def secret(self, name: str) -> NoReturn:
        """The value of a secret. No store of secrets exists yet, so this always fails, and says so."""
        raise ToolError(
            f"secret {name!r} is not available: this engine keeps no secrets yet",
            "permission",
            remedy="let the tool read it from its own environment",
        )
