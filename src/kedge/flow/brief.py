"""What a person reads before they decide on a plan or a call: what was done, what will be, what it changes.

In about a thousand tokens at most, most important first: whoever has to read more reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kedge.flow import events as ev
from kedge.flow.names import bytes_of, result_bytes
from kedge.flow.state import RunState, StepState, Version
from kedge.flow.words import Outcome
from kedge.plan.model import Plan
from kedge.plan.parts import Step
from kedge.plan.patch import between
from kedge.plan.scopes import Node, Scopes

TEXT_MAX = 3_600
"""Characters of a brief: about a thousand tokens."""
_LINE_MAX = 160
_ARGS_MAX = 2_000
_CHANGES = ("idempotent", "effect")


def plan_brief(state: RunState) -> str:
    """The plan that the run is to follow, for the person who decides."""
    scopes = Scopes(state.plan.steps)
    nodes = [node for node in scopes.nodes if node.step.steps is None]
    effects = [node for node in nodes if _effect(state, node.step) in _CHANGES]
    risky = [node for node in effects if node.step.compensate is None]
    lines = [f"Follow this plan? {_cut(state.plan.goal)}", *_news(state)]
    lines.append(f"{len(nodes)} steps, {len(effects)} that change something outside{_estimates(scopes)}.")
    lines += _listed("Changes something outside:", [_line(state, node) for node in effects])
    lines += _listed("Of these nothing undoes:", [", ".join(node.path for node in risky)] if risky else [])
    lines += _listed("The other steps:", [_line(state, node) for node in nodes if node not in effects])
    return _fitting(lines)


def question_brief(state: RunState, asked: ev.QuestionAsked) -> str:
    """A question with all that a person needs to answer it. What a plan is about is in its question."""
    step = state.steps.get(asked.path)
    if step is None:
        return asked.text
    node, lines = step.node, [asked.text]
    if node.step.do:
        lines.append(_cut(f"The step is to: {node.step.do}"))
    if node.step.tool:
        lines.append(f"It calls {node.step.tool} ({node.effect}). {_undoing(node.step)}")
    raw = bytes(asked.args) if asked.blob is None else bytes_of(state, asked.blob)
    if raw:
        lines += ["With these arguments:", _shortened(raw.decode())]
    lines += _listed("Done before it:", [_done(state, name, step) for name in node.places])
    after = [step.scope.steps[index].id for index in node.consumers]
    lines += [_cut(f"Waiting for it: {', '.join(after)}")] if after else []
    lines.append(f"So far {state.done} of {state.total} steps are done.")
    return _fitting(lines).rstrip()


def _undoing(step: Step) -> str:
    return f"{step.compensate.tool} undoes it." if step.compensate is not None else "Nothing undoes it."


def _done(state: RunState, name: str, step: StepState) -> str:
    before = step.needed(name)
    if before.outcome is not Outcome.DONE:
        return f"- {name}: {before.status}"
    return f"- {name}: {result_bytes(state, before)[:_LINE_MAX].decode(errors='ignore')}"


def _shortened(text: str) -> str:
    if len(text) <= _ARGS_MAX:
        return text
    return f"{text[:_ARGS_MAX]}… (the first {_ARGS_MAX:,} of {len(text):,} characters)"


def _news(state: RunState) -> Iterator[str]:
    """What is otherwise than in the plan that was approved."""
    before = next((one for one in state.versions if state.approved and one.number == state.approved[0]), None)
    if before is None:
        return
    now: Version = state.versions[-1]
    by = f" by {now.by}" if now.by else ""
    yield _cut(f"Version {now.number}, {now.cause}{by}" + (f": {now.why}" if now.why else ""))
    yield from map(_cut, _differences(before.plan, now.plan))


def _differences(old: Plan, new: Plan) -> Iterator[str]:
    patch = between(old, new)
    yield from (f"+ {one.into}/{one.step.id}".replace("+ /", "+ ") for one in patch.add)
    yield from (f"- {path}" for path in patch.remove)
    yield from (f"~ {path}: {', '.join(fields)}" for path, fields in patch.change.items())
    yield from (f"~ {name} of the plan" for name in patch.plan)


def _effect(state: RunState, step: Step) -> str:
    mark = state.tools.get(step.tool or "")
    return mark.effect if mark is not None else "pure"


def _line(state: RunState, node: Node) -> str:
    step = node.step
    what = [step.tool or "", _effect(state, step) if step.tool else ""]
    what += ["for each of a list"] if any(one.step.foreach is not None for one in node.around()) else []
    what += ["if " + step.when] if step.when is not None else []
    what += ["asks first"] if step.approval is not None else []
    said = f": {step.do}" if step.do else ""
    return f"- {node.path}{said} ({', '.join(filter(None, what))})"


def _estimates(scopes: Scopes) -> str:
    """Nothing where no step says anything of its time or cost."""
    if not any(node.step.estimate is not None for node in scopes.nodes):
        return ""
    from kedge.checks.score import score  # not needed to resume a run

    found = score(scopes, 0)
    cost = f", costs about {found.cost:g}" if found.cost else ""
    return f", takes about {found.critical_path_s:g} s{cost}"


def _listed(title: str, lines: list[str]) -> list[str]:
    return [title, *map(_cut, lines)] if lines else []


def _fitting(lines: Iterable[str]) -> str:
    text, left = "", 0
    for line in lines:
        if len(text) + len(line) < TEXT_MAX and not left:
            text += line + "\n"
        else:
            left += 1
    return text + (f"and {left} lines more" if left else "")


def _cut(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= _LINE_MAX else line[: _LINE_MAX - 1] + "…"
