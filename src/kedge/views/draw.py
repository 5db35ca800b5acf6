"""One function for all pictures."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from kedge.base.errors import BadInput
from kedge.flow.state import RunState
from kedge.plan.model import Plan
from kedge.views.ascii import Page, draw_ascii
from kedge.views.mermaid import draw_mermaid
from kedge.views.outline import Outline
from kedge.views.svg import draw_svg
from kedge.views.timeline import draw_timeline

Form = Literal["ascii", "mermaid", "timeline", "svg"]
FORMS: tuple[Form, ...] = get_args(Form)
WIDTH_MIN = 40


class HasState(Protocol):
    """A live run or a result."""

    @property
    def state(self) -> RunState: ...

    @property
    def now_ms(self) -> int:
        """Up to when it is known what became of the run."""
        ...


def draw(
    plan: Plan,
    run: RunState | HasState | None = None,
    form: Form = "ascii",
    *,
    now_ms: int | None = None,
    unicode: bool = True,
    width: int = 100,
) -> str:
    """A picture of a plan, or of a run of it: then of the plan that the run follows by now.

    `now_ms` is what running steps are measured against; without it, now for a run that this process
    drives, else the time of the run's last event.
    `unicode` and `width` (in columns) are for the text forms.
    """
    if form not in FORMS:
        raise BadInput(f"there is no picture {form!r}", code="form", allowed=FORMS)
    if width < WIDTH_MIN:
        raise BadInput(
            f"{width} columns are too few for a picture", code="width", remedy=f"give {WIDTH_MIN} or more"
        )
    if not isinstance(plan, Plan):
        raise BadInput(
            f"a Plan is drawn, not {type(plan).__name__}",
            remedy="give the plan first, then its run or result: draw(plan, result)",
        )
    state = run if isinstance(run, RunState) or run is None else getattr(run, "state", None)
    if run is not None and not isinstance(state, RunState):
        raise BadInput(
            f"a run or its result is drawn beside its plan, not {type(run).__name__}",
            remedy="name the kind of picture by its name: draw(plan, form='svg')",
        )
    if now_ms is None and run is not None and not isinstance(run, RunState):
        now_ms = run.now_ms
    if form == "timeline" and state is None:
        raise BadInput(
            "a timeline shows a run, and only a plan was given",
            code="form",
            remedy="give the run, or its result",
        )
    outline = Outline(plan, state)
    page = Page(width, unicode, _until(state, now_ms or 0) if state is not None else 0)
    if form == "mermaid":
        return draw_mermaid(outline)
    if form == "svg":
        return draw_svg(outline, page.now_ms)
    if state is not None and form == "timeline":
        return draw_timeline(state, page)
    return draw_ascii(outline, page)


def _until(state: RunState, now_ms: int) -> int:
    return state.ended_at or max(now_ms, state.at)
