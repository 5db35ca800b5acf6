"""A plan made ready to run: names resolved to places, templates cut, expressions parsed.

Made from a checked plan, and then only read, unless the run follows another version of its plan
(`revise`). Places (indices in a scope) never leave this process: the journal speaks of steps by path.

Two kinds of scope end up in one structure: the plan's own steps, and the children of a composite.
A child may name steps of outer scopes; it then waits for that step alone, not its whole composite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kedge.base.errors import InternalError
from kedge.flow.render import Args, compile_args
from kedge.plan.estimates import call_s, whole_s
from kedge.plan.expr import Expression, Template, parse, parse_template
from kedge.plan.model import SLEEP, Plan, Retry, Step
from kedge.plan.tools import EFFECTS, Catalog, Effect, ToolSpec

NOT_STEPS = frozenset({"goal", "context", "inputs", "results", "result", "item", "index", "loop", "secret"})
NO_RETRY = Retry()
UNDO_RETRY = Retry(attempts=5)
"""What undoes a step is tried more than once: if it fails for good, an effect stays."""
UNDO_RANK = -1
"""It goes before all steps that are ready."""
Place = tuple[int, int]
"""(scopes outward, index there)."""


class Node:
    """One step of the plan, compiled."""

    __slots__ = (
        "args",
        "ask",
        "bounded",
        "calls",
        "consumers",
        "deps",
        "effect",
        "expect",
        "expected_ms",
        "fallback",
        "fallback_for",
        "foreach",
        "holes",
        "id",
        "index",
        "is_sleep",
        "join",
        "outer",
        "places",
        "plain",
        "quality",
        "rank",
        "required",
        "resources",
        "retry",
        "scope",
        "signal",
        "spec",
        "step",
        "tested",
        "undo",
        "until",
        "weight_s",
        "when",
    )  # fmt: skip

    def __init__(self, step: Step, index: int, spec: ToolSpec | None) -> None:
        self.index = index
        self.scope: Scope | None = None
        self.consumers: list[int] = []
        self.fallback = -1
        self.fallback_for = -1
        self.rank = 0
        self.undo: Node | None = None
        """What undoes it, as a call."""
        self.fill(step, spec)

    def fill(self, step: Step, spec: ToolSpec | None) -> None:
        """Everything that follows from the step alone."""
        self.step = step
        self.id = step.id
        self.spec = spec
        self.effect: Effect = spec.effect if spec else "pure"
        self.args: Args = compile_args(step.args)
        self.when: Expression | None = parse(step.when) if step.when is not None else None
        self.foreach: Template | Args | None = None
        if isinstance(step.foreach, str):
            self.foreach = parse_template(step.foreach)
        elif step.foreach is not None:
            self.foreach = compile_args({"items": step.foreach})
        self.until: Expression | None = parse(step.loop.until) if step.loop and step.loop.until else None
        self.expect: Expression | None = parse(step.expect) if step.expect is not None else None
        self.quality: Expression | None = parse(step.quality) if step.quality is not None else None
        self.retry: Retry = step.retry or (spec.retry if spec and spec.retry else NO_RETRY)
        self.required = step.on_error != "continue"
        self.join = step.join
        self.is_sleep = step.tool == SLEEP
        self.calls = step.tool is not None and not self.is_sleep
        """A tool is called for it."""
        self.ask: Template | None = parse_template(step.approval.ask) if step.approval is not None else None
        self.signal: Template | None = parse_template(step.wait.signal) if step.wait is not None else None
        self.deps: tuple[int, ...] = ()
        self.outer: tuple[Place, ...] = ()
        self.holes: tuple[int, ...] | None = None
        """Where its arguments' values are, if all are results of its scope, sure to have settled."""
        self.places: dict[str, Place] = {}
        once_s = call_s(step) if step.estimate is not None or self.is_sleep else None
        self.weight_s = 1.0 if once_s is None else once_s
        if step.loop is not None:
            self.weight_s = whole_s(step, self.weight_s)
        estimate = step.estimate if self.calls else None
        self.expected_ms = int((estimate.seconds or 0) * 1000) if estimate is not None else 0
        """What one attempt is expected to take; 0 if nobody said."""
        judged = self.quality is not None or step.quality_min is not None or step.output is not None
        self.tested = self.expect is not None or step.loop is not None or judged
        """What comes back is looked at before the step is done."""
        named = spec.resources if spec is not None else ()
        self.resources = tuple(dict.fromkeys((*named, *step.resources))) if named or step.resources else ()
        self.bounded = bool(self.resources or (spec is not None and spec.parallel is not None))
        """Its calls have limits of their own, shared with others."""
        # Needs nothing but a place to run in, once its dependencies are there.
        self.plain = self.calls and not (self.when or self.foreach)

    def reads(self) -> dict[str, None]:
        """What it asks for the value of, in its own words."""
        found: dict[str, None] = dict.fromkeys(self.args.names)
        for part in (self.when, self.foreach, self.until, self.expect, self.quality, self.signal, self.ask):
            if part is not None:
                found.update(dict.fromkeys(part.names))
        return found

    def names(self) -> Iterable[str]:
        """Steps that this one refers to, in its own words."""
        found = dict.fromkeys(self.step.after) | self.reads()
        if self.undo is not None:
            found |= dict.fromkeys(self.undo.args.names)
        apart = (self.id, self.step.fallback_for)  # itself, and what it waits for in its own way
        return [name for name in found if name not in NOT_STEPS and name not in apart]


class Scope:
    """Steps that see each other."""

    __slots__ = ("by_id", "nodes", "outer", "owner")

    def __init__(self, owner: Node | None, outer: Scope | None) -> None:
        self.owner = owner
        self.outer = outer
        self.nodes: list[Node] = []
        self.by_id: dict[str, int] = {}

    def place(self, name: str) -> Place | None:
        """Where `name` is, looking outward."""
        level, scope = 0, self
        while scope is not None:
            index = scope.by_id.get(name)
            if index is not None:
                return level, index
            level, scope = level + 1, scope.outer
        return None

    def link_all(self) -> None:
        """Resolve what all steps here refer to."""
        for node in self.nodes:
            self.link(node)

    def link(self, node: Node) -> None:
        """Resolve what a step refers to, and tell those that it waits for."""
        own: list[int] = []
        outer: list[Place] = []
        for name in node.names():
            place = self.place(name)
            if place is None:
                raise InternalError(f"step {node.id} refers to {name!r}, which check should have refused")
            node.places[name] = place
            if place[0] == 0:
                own.append(place[1])
                self.nodes[place[1]].consumers.append(node.index)
            else:
                outer.append(place)
        node.deps, node.outer = tuple(own), tuple(outer)
        if node.join != "any" and all(hole in self.by_id for hole in node.args.holes):
            node.holes = tuple(self.by_id[hole] for hole in node.args.holes if isinstance(hole, str))
        if node.step.fallback_for is not None:
            node.fallback_for = self.by_id[node.step.fallback_for]
            self.nodes[node.fallback_for].fallback = node.index


class Program:
    """The compiled plan."""

    __slots__ = ("answer", "catalog", "outputs", "plan", "root")

    def __init__(self, plan: Plan, root: Scope, catalog: Catalog) -> None:
        self.root = root
        self.catalog = catalog
        self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        self.plan = plan
        self.outputs: dict[str, Expression] = {name: parse(text) for name, text in plan.outputs.items()}
        self.answer: Template | None = parse_template(plan.answer) if plan.answer is not None else None

    def scopes(self) -> list[Scope]:
        """All scopes, each after those around it."""
        found = [self.root]
        for scope in found:  # grows
            found.extend(node.scope for node in scope.nodes if node.scope is not None)
        return found

    @property
    def nodes(self) -> list[Node]:
        """All steps of the plan."""
        return [node for scope in self.scopes() for node in scope.nodes]

    @property
    def tools(self) -> set[str]:
        """Names of the tools that the plan calls."""
        nodes = self.nodes
        undos = {node.undo.step.tool for node in nodes if node.undo is not None and node.undo.step.tool}
        return undos | {node.step.tool for node in nodes if node.step.tool and not node.is_sleep}

    def node(self, step: Step, effects: Mapping[str, Effect]) -> Node:
        """A node for a step that comes later, with those inside it."""
        node = Node(step, 0, None)
        self.refill(node, step, effects)
        return node

    def refill(self, node: Node, step: Step, effects: Mapping[str, Effect]) -> None:
        """The node stands for this step from now on; those inside it stay."""
        node.fill(step, self._spec(step))
        _strengthen(node, effects)
        node.undo = undo_of(step, self.catalog, effects)

    def _spec(self, step: Step) -> ToolSpec | None:
        return self.catalog.get(step.tool) if step.tool else None

    def adopt(self, node: Node, scope: Scope, effects: Mapping[str, Effect]) -> None:
        """Make the scopes inside a node that has come to `scope`."""
        todo = [(node, scope)]
        while todo:
            owner, around = todo.pop()
            if owner.step.steps is None:
                continue
            owner.scope = Scope(owner, around)
            for index, step in enumerate(owner.step.steps):
                inner = self.node(step, effects)
                inner.index = index
                owner.scope.nodes.append(inner)
                owner.scope.by_id[step.id] = index
                todo.append((inner, owner.scope))

    def follow(self, plan: Plan) -> None:
        """From now on this is the plan; its steps have been linked."""
        self._follow(plan)
        self.weigh()

    def weigh(self) -> None:
        """Effect classes and weights of composites, and who goes first."""
        scopes = self.scopes()
        for scope in reversed(scopes):  # children come after their parents
            _weigh(scope)
        _rank(scopes)


def compile_plan(plan: Plan, catalog: Catalog, effects: Mapping[str, Effect] | None = None) -> Program:
    """Make a checked plan ready to run. `effects` are those a run began with: the stronger wins."""
    scopes: list[Scope] = []
    root = Scope(None, None)
    todo: list[tuple[Scope, Sequence[Step]]] = [(root, plan.steps)]
    while todo:
        scope, steps = todo.pop()
        scopes.append(scope)
        for index, step in enumerate(steps):
            node = Node(step, index, catalog.get(step.tool) if step.tool else None)
            if effects:
                _strengthen(node, effects)
            if step.compensate is not None:
                node.undo = undo_of(step, catalog, effects or {})
            scope.nodes.append(node)
            scope.by_id[step.id] = index
            if step.steps is not None:
                node.scope = Scope(node, scope)
                todo.append((node.scope, step.steps))
    for scope in scopes:
        scope.link_all()
    program = Program(plan, root, catalog)
    program.weigh()
    return program


def undo_of(step: Step, catalog: Catalog, effects: Mapping[str, Effect]) -> Node | None:
    """The call that undoes a step, as a step of its own; None if nothing does."""
    call = step.compensate
    if call is None:
        return None
    spec = catalog.get(call.tool)
    retry = UNDO_RETRY if spec is None or spec.retry is None else spec.retry
    node = Node(Step(id=step.id, tool=call.tool, args=call.args, retry=retry), -1, spec)
    node.rank = UNDO_RANK
    _strengthen(node, effects)
    return node


def _strengthen(node: Node, effects: Mapping[str, Effect]) -> None:
    tool = node.step.tool
    if tool is not None and tool in effects:
        node.effect = _stronger(node.effect if node.spec else "pure", effects[tool])


def _stronger(one: Effect, other: Effect) -> Effect:
    return one if EFFECTS.index(one) > EFFECTS.index(other) else other


def _weigh(scope: Scope) -> None:
    """Composites get the effect class of their strongest child and weigh what their children do."""
    owner = scope.owner
    if owner is None:
        return
    strongest = max((EFFECTS.index(node.effect) for node in scope.nodes), default=0)
    owner.effect = EFFECTS[strongest]
    owner.weight_s = whole_s(owner.step, max(_remaining(scope), default=0.0))


def _remaining(scope: Scope) -> list[float]:
    """For each step: seconds from its start to the end of all that hangs on it, at best."""
    nodes = scope.nodes
    left = [len(node.consumers) for node in nodes]
    rest = [node.weight_s for node in nodes]
    todo = [node.index for node in nodes if not node.consumers]
    while todo:
        index = todo.pop()
        longest = rest[index]
        for dep in nodes[index].deps:
            total = nodes[dep].weight_s + longest
            rest[dep] = max(rest[dep], total)
            left[dep] -= 1
            if not left[dep]:
                todo.append(dep)
    return rest


def _rank(scopes: list[Scope]) -> None:
    """Who goes first among ready steps: priority, then the longest remaining path, then the order written."""
    keys: list[tuple[int, float, int, Node]] = []
    after: dict[Scope, float] = {}
    for scope in scopes:  # parents come before their children
        base = after.get(scope, 0.0)
        for node, rest in zip(scope.nodes, _remaining(scope), strict=True):
            keys.append((-node.step.priority, -(base + rest), len(keys), node))
            if node.scope is not None:
                after[node.scope] = base + rest - node.weight_s
    keys.sort()
    for rank, key in enumerate(keys):
        key[3].rank = rank
