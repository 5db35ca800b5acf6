"""Whether a changed plan can work, looking no further than the change reaches.

A plan of a thousand steps takes twenty milliseconds to check, a repair of it should take two. So the
steps that changed are checked in an excerpt: themselves whole, and those they name as stubs that only
say what they give. The one fault that an excerpt cannot show is a ring through steps that did not change;
it is looked for from the changed steps along what waits for what. A plan so long that its chain could
be too long is checked whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks.check import check
from kedge.plan.findings import Finding, Findings
from kedge.plan.model import Plan, Step
from kedge.plan.scopes import Node, Scopes
from kedge.plan.tools import Catalog


class Known(NamedTuple):
    """What is known of a step that did not change, without looking at its text."""

    needs: tuple[str, ...]
    """Paths of the steps that it reads or waits for."""
    fallback: str = ""
    """Path of the step that stands in for it."""


def check_change(
    plan: Plan,
    changed: Iterable[str],
    known: Callable[[str], Known],
    catalog: Catalog | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Findings:
    """Faults of a plan in which only the steps at the paths `changed` are not as they were.

    To these belong the steps that read what is gone, or what gives something else now.
    """
    tree = _Tree(plan)
    focus = {path: step for path in sorted(changed) if (step := tree.get(path)) is not None}
    if tree.count > min(limits.steps, limits.chain):
        return check(plan, catalog, limits=limits)
    excerpt = _Excerpt(tree, focus, known)
    found = check(excerpt.plan(), catalog, limits=limits)
    ours = [one for one in found if _is_ours(one, focus)]
    return Findings([*ours, *_rings(tree, focus, excerpt.needs(), known)])


def _is_ours(found: Finding, focus: Mapping[str, Step]) -> bool:
    if found.code == "cycle":
        return False  # looked for in the whole plan
    if found.code == "two_fallbacks":  # told of the later one of the two
        around = _prefix(found.step)
        return any(around + name in focus for name in found.names)
    if not found.step:
        return found.severity == "error"
    return found.step in focus or any(path.startswith(f"{found.step}/") for path in focus)


class _Tree:
    """The plan's steps by path, each scope looked at once and only when it is needed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._scopes: dict[str, Mapping[str, Step]] = {}
        self.count = 0
        todo = [plan.steps]
        while todo:
            steps = todo.pop()
            self.count += len(steps)
            todo.extend(step.steps for step in steps if step.steps)

    def scope(self, prefix: str) -> Mapping[str, Step]:
        """The steps of a scope: `""`, or `outer/` for those inside `outer`."""
        found = self._scopes.get(prefix)
        if found is None:
            step = self.get(prefix[:-1]) if prefix else None
            steps = self.plan.steps if not prefix else (step.steps or () if step is not None else ())
            found = self._scopes[prefix] = {one.id: one for one in steps}
        return found

    def get(self, path: str) -> Step | None:
        head, _, id_ = path.rpartition("/")
        return self.scope(f"{head}/" if head else "").get(id_)

    def find(self, name: str, prefix: str) -> str:
        """Path of the step that `name` means in a scope, looking outward; empty if there is none."""
        while True:
            if name in self.scope(prefix):
                return prefix + name
            if not prefix:
                return ""
            prefix = _around(prefix)


def _around(prefix: str) -> str:
    return prefix[: prefix.rstrip("/").rfind("/") + 1]


def _prefix(path: str) -> str:
    return path[: path.rfind("/") + 1]


class _Excerpt:
    """The changed steps, the composites around them, and stubs of what they name."""

    def __init__(self, tree: _Tree, focus: Mapping[str, Step], known: Callable[[str], Known]) -> None:
        self._tree = tree
        self._focus = focus
        self._known = known
        self._kept: dict[str, dict[str, Step]] = {"": {}}
        for path in focus:
            self._keep(path)
        for path, step in focus.items():
            self._keep_named(path, step)
        for name in _named_by_plan(tree.plan):
            if name in tree.scope(""):
                self._keep(name)
        if not self._kept[""] and tree.plan.steps:
            self._keep(tree.plan.steps[0].id)  # or it would be a plan without steps

    def _keep(self, path: str) -> None:
        step = self._tree.get(path)
        prefix = _prefix(path)
        if step is None or step.id in self._kept.get(prefix, ()):
            return
        if prefix:
            self._keep(prefix[:-1])
        shown = step if path in self._focus else _stub(step)
        self._kept.setdefault(prefix, {})[step.id] = shown
        if step.steps is not None:
            self._kept.setdefault(f"{path}/", {})
            if path not in self._focus or not any(one.startswith(f"{path}/") for one in self._focus):
                for inner in step.steps:
                    self._keep(f"{path}/{inner.id}")

    def _keep_named(self, path: str, step: Step) -> None:
        prefix = _prefix(path)
        for name in _names(step):
            if found := self._tree.find(name, prefix):
                self._keep(found)
        target = prefix + step.fallback_for if step.fallback_for is not None else ""
        seen: set[str] = set()  # fallbacks of each other are a ring, which is told elsewhere
        while target not in seen and self._tree.get(target) is not None:
            seen.add(target)
            self._keep(target)
            other = self._known(target).fallback if target not in self._focus else ""
            if other:
                self._keep(other)
            above = self._tree.get(target)
            target = prefix + above.fallback_for if above is not None and above.fallback_for else ""
        for name in _names(step):  # whoever reads a fallback is told the step that it stands in for
            found = self._tree.find(name, prefix)
            read = self._tree.get(found) if found else None
            if read is not None and read.fallback_for is not None:
                self._keep(_prefix(found) + read.fallback_for)

    def plan(self) -> Plan:
        """The excerpt as a plan of its own."""
        return msgspec.structs.replace(self._tree.plan, steps=self._steps(""))

    def _steps(self, prefix: str) -> tuple[Step, ...]:
        return tuple(
            msgspec.structs.replace(step, steps=self._steps(f"{prefix}{step.id}/"))
            if step.steps is not None
            else step
            for step in self._kept.get(prefix, {}).values()
        )

    def needs(self) -> dict[str, tuple[str, ...]]:
        """Of the changed steps: what they wait for."""
        nodes: list[Node] = Scopes(self._steps("")).nodes
        return {
            node.path: tuple(need.path for need in node.needs) for node in nodes if node.path in self._focus
        }


def _stub(step: Step) -> Step:
    """The step as others see it: what it gives, and nothing of what it takes."""
    return msgspec.structs.replace(
        step, args={}, after=(), when=None, expect=None, quality=None, approval=None, compensate=None,
        goal=step.goal and "x",
        foreach=[0] if step.foreach is not None else None,
        loop=msgspec.structs.replace(step.loop, until=None) if step.loop is not None else None,
    )  # fmt: skip


def _names(step: Step) -> Iterator[str]:
    from kedge.plan.uses import references

    yield from step.after
    yield from references(step)


def _named_by_plan(plan: Plan) -> set[str]:
    from kedge.plan.uses import expression_use, template_use

    uses = [expression_use("outputs", "outputs", text) for text in plan.outputs.values()]
    if plan.answer is not None:
        uses.append(template_use("answer", "answer", plan.answer))
    return {path.root for use in uses for path in use.paths}


# --- rings

_Moment = tuple[str, str]
"""A path, and one of `start`, `end`, `settled`."""


def _rings(
    tree: _Tree,
    focus: Mapping[str, Step],
    needs: Mapping[str, tuple[str, ...]],
    known: Callable[[str], Known],
) -> Iterator[Finding]:
    """Steps that would wait for each other. Every ring goes through a changed step."""
    stand_in = {_prefix(path) + step.fallback_for: path for path, step in focus.items() if step.fallback_for}

    def fallback(path: str) -> str:
        return stand_in.get(path) or (known(path).fallback if path not in focus else "")

    def waits(moment: _Moment) -> list[_Moment]:
        path, what = moment
        step = tree.get(path)
        if step is None:
            return []
        if what == "settled":
            other = fallback(path)
            return [(path, "end"), (other, "settled")] if other else [(path, "end")]
        if what == "end":
            inner = step.steps or ()
            return [(path, "start"), *((f"{path}/{one.id}", "settled") for one in inner)]
        found = [(need, "settled") for need in (needs[path] if path in needs else known(path).needs)]
        if "/" in path:
            found.append((path.rpartition("/")[0], "start"))
        if step.fallback_for is not None:
            found.append((_prefix(path) + step.fallback_for, "end"))
        return found

    done: set[_Moment] = set()
    for path in focus:
        ring = _ring((path, "settled"), waits, done)
        if ring:
            names = tuple(dict.fromkeys(one for one, _ in ring))
            first = names[0]
            shown = (
                " waits for ".join((*names[:12], first)) if len(names) > 1 else f"{first} waits for itself"
            )
            remedy = "remove one of these references"
            yield Finding(code="cycle", step=first, names=names, message=shown, remedy=remedy)


def _ring(start: _Moment, waits: Callable[[_Moment], list[_Moment]], done: set[_Moment]) -> list[_Moment]:
    """A way from a moment back to itself, found from `start`; empty if there is none."""
    way: dict[_Moment, Iterator[_Moment]] = {}
    todo = start
    if start in done:
        return []
    way[start] = iter(waits(start))
    while way:
        here = next(reversed(way))
        todo = next(way[here], ("", ""))
        if todo == ("", ""):
            done.add(here)
            del way[here]
        elif todo in way:
            moments = list(way)
            return moments[moments.index(todo) :]
        elif todo not in done:
            way[todo] = iter(waits(todo))
    return []
