"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from kedge.base.errors import BadInput
from kedge.flow.decision import AGENT_DEFAULTS, DECIDE_AT, AgentDefault, DecideAt

Ask = Literal["never", "plan", "effects", "every_step"]
ASKS: tuple[Ask, ...] = get_args(Ask)
Undo = Literal["never", "failure"]
UNDOS: tuple[Undo, ...] = get_args(Undo)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one run."""

    ask: Ask = "never"
    """What a person is asked before, though the plan does not say so: nothing, the plan as a whole, each
    call that changes something outside, or each call."""
    repair: bool | None = None
    """Whether the planner mends the plan. None: if the engine that starts the run has a planner."""
    adaptation_sensitivity: float = 0.7
    """Trouble of lower severity starts no repair: the higher, the less the plan is adapted."""

    decide_at: DecideAt = "never"
    """When the engine's agent is asked how to go on: at trouble, at milestones too, or after every step."""
    agent_timeout_s: float = 60.0
    """How long its answer is waited for."""
    agent_default: AgentDefault = "go_on"
    """What follows if there is none: the run goes on as if there were no agent, or a person is asked."""
    undo: Undo = "never"
    """When what it did is undone by itself: never, or when it fails."""
    quality_threshold: float = 0.7
    """A result of less quality counts as not good, where its step does not say itself what is good enough."""

    def __post_init__(self) -> None:
        if self.ask not in ASKS:
            raise BadInput(f"{self.ask!r} cannot be asked for", code="ask", where="ask", allowed=ASKS)
        given: Any = self.adaptation_sensitivity
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
            raise BadInput(
                f"adaptation_sensitivity is a number from 0 to 1, not {given!r}",
                code="setting_value", where="adaptation_sensitivity",
            )  # fmt: skip
        for name, words in (("decide_at", DECIDE_AT), ("agent_default", AGENT_DEFAULTS)):
            if getattr(self, name) not in words:
                text = f"{getattr(self, name)!r} is none of its words"
                raise BadInput(text, code="setting_value", where=name, allowed=words)
        given = self.agent_timeout_s
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise BadInput(
                f"agent_timeout_s is a number above 0, not {given!r}",
                code="setting_value", where="agent_timeout_s",
            )  # fmt: skip
        if not isinstance(self.repair, bool | None):
            raise BadInput(
                f"repair is true, false or left out, not {self.repair!r}",
                code="setting_value", where="repair",
            )  # fmt: skip
        if self.undo not in UNDOS:
            raise BadInput(f"{self.undo!r} is no time to undo", code="undo", where="undo", allowed=UNDOS)
        given = self.quality_threshold
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
            raise BadInput(
                f"quality_threshold is a number from 0 to 1, not {given!r}",
                code="setting_value", where="quality_threshold",
            )  # fmt: skip

    def completed(self, ask: Ask | None, *, repair: bool) -> RunSettings:
        """The settings with all that was left open filled in."""
        return msgspec.structs.replace(
            self,
            ask=self.ask if ask is None else ask,
            repair=repair if self.repair is None else self.repair,
        )

    @property
    def asks_about_calls(self) -> bool:
        """Somebody is asked before calls for which the plan asks nobody."""
        return self.ask in ("effects", "every_step")
