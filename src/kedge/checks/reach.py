"""What is known of a value before it exists: the type at the end of a path.

A step's result is what its tool promises (or its own `output`), one for each item of a `foreach`,
one for each round of a `loop` that collects all, a map of its children's for a composite. Where a
fallback may stand in for a step, both results count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from kedge.checks.schemas import NULL, Schema, Whole, own_types, properties, types_of, variants, words_of
from kedge.plan.expr import Path
from kedge.plan.model import Plan
from kedge.plan.scopes import Node
from kedge.plan.tools import Catalog
from kedge.plan.uses import template_use

Keys = Sequence[str | int]


class Trouble(NamedTuple):
    """Why a path leads nowhere."""

    code: str
    key: str | int
    message: str
    known: tuple[str, ...] = ()


class Reached(NamedTuple):
    """The end of a path. Without schemas and trouble nobody knows what stands there."""

    schemas: tuple[Whole, ...] = ()
    trouble: Trouble | None = None


UNKNOWN = Reached()


def _typed(kind: str) -> Whole:
    return Whole({"type": kind}, {})


TEXT, INTEGER = _typed("string"), _typed("integer")
_LOOP = Whole(
    {"properties": {"index": {"type": "integer"}, "previous": {}}, "additionalProperties": False}, {}
)


class Types:
    """Types of everything that the steps of one plan can name."""

    def __init__(self, plan: Plan, catalog: Catalog | None) -> None:
        self._plan = plan
        self._catalog = catalog
        self._plain: dict[Node, frozenset[str]] = {}
        """What `named` found for whole results: a plan's steps are named again and again."""

    def at_step(self, path: Path, node: Node) -> Reached:
        """What the path means in the fields of `node`. Names that mean nothing there are UNKNOWN."""
        root, keys = path.root, path.keys
        step = node.names.get(root)
        if step is node:  # in `expect` and `compensate`
            return self._once(node, keys)
        if step is not None:
            return self.settled(step, keys)
        match root:
            case "result":
                return self._once(node, keys)
            case "results":
                return self.settled(node.needs[0], keys) if len(node.needs) == 1 else UNKNOWN
            case "item":
                return self._item(node, keys)
            case "index":
                return follow(INTEGER, keys, "index")
            case "loop":
                return follow(_LOOP, keys, "loop")
            case _:
                return self.anywhere(path)

    def named(self, path: Path, node: Node) -> frozenset[str]:
        """Names of the types at the end of a path, where schemas name one each; else none."""
        step = node.names.get(path.root)
        if step is not None and not path.keys and step in self._plain:
            return self._plain[step]
        found: set[str] = set()
        for schema, _ in self.at_step(path, node).schemas:
            kind = cast(Schema, schema).get("type") if isinstance(schema, Mapping) else None
            if not isinstance(kind, str):
                return frozenset()
            found.add(kind)
        names = frozenset(found)
        if step is not None and not path.keys:
            self._plain[step] = names
        return names

    def anywhere(self, path: Path) -> Reached:
        """What the path means for names that mean the same everywhere."""
        match path.root:
            case "inputs":
                return self._input(path.keys)
            case "context":
                return _in_data(self._plan.context, path.keys)
            case "goal":
                return follow(TEXT, path.keys, "goal")
            case "secret":
                return Reached((TEXT,))
            case _:
                return UNKNOWN

    def settled(self, node: Node, keys: Keys) -> Reached:
        """The step's result, as others see it: its own, or that of what stands in for it."""
        if node.fallback is None:
            return self._own(node, keys)
        schemas: list[Whole] = []
        known = True
        standing: Node | None = node
        seen: set[Node] = set()
        while standing is not None and standing not in seen:
            seen.add(standing)
            found = self._own(standing, keys)
            if found.trouble is not None:
                if standing is node:
                    return found
                stands = f"{standing.step.id}, which may stand in for {node.step.id}: {found.trouble.message}"
                return Reached(trouble=found.trouble._replace(message=stands))
            known = known and bool(found.schemas)
            schemas += found.schemas
            standing = standing.fallback
        return Reached(tuple(schemas)) if known else UNKNOWN

    def _own(self, node: Node, keys: Keys) -> Reached:
        """The step's own result: a list for each way in which it runs many times."""
        step = node.step
        if step.foreach is None and step.loop is None:
            return self._once(node, keys)
        lists = (step.foreach is not None) + (step.loop is not None and step.loop.collect == "all")
        for used, key in enumerate(keys[:lists]):
            if isinstance(key, str):
                message = f"{step.id}{'[0]' * used} is a list, it has no key {key!r}"
                return Reached(trouble=Trouble("wrong_key", key, message))
        inner = self._once(node, keys[lists:])
        for _ in range(lists - len(keys)):
            if not inner.schemas:
                return Reached((_typed("array"),))
            inner = Reached(tuple(Whole({"type": "array", "items": s.schema}, s.root) for s in inner.schemas))
        return inner

    def _once(self, node: Node, keys: Keys) -> Reached:
        """One round's result."""
        step = node.step
        if step.steps is not None:
            return self._children(node, keys)
        schema: Schema | None = step.output
        if schema is None and step.tool is not None and self._catalog is not None:
            spec = self._catalog.get(step.tool)
            schema = spec.returns if spec is not None else None
        if schema is None:
            return UNKNOWN
        whole = Whole(schema, schema)
        return follow(whole, keys, step.id) if keys else Reached((whole,))

    def _children(self, node: Node, keys: Keys) -> Reached:
        results = {child.step.id: child for child in node.children if child.fallback_for is None}
        if not keys:
            children: Schema = {name: {} for name in results}
            return Reached((Whole({"properties": children, "additionalProperties": False}, {}),))
        key = keys[0]
        if isinstance(key, str) and key in results:
            return self.settled(results[key], keys[1:])
        message = f"{node.step.id} is a map of its steps' results, it has no {key!r}"
        return Reached(trouble=Trouble("unknown_key", key, message, tuple(results)))

    def _item(self, node: Node, keys: Keys) -> Reached:
        around = next((one for one in node.around() if one.step.foreach is not None), None)
        if around is None:
            return UNKNOWN
        source = around.step.foreach
        if isinstance(source, list):
            if any("${" in str(item) for item in source[:1000]):
                return UNKNOWN
            return follow(Whole({"enum": source}, {}), keys, "item") if source else UNKNOWN
        path = template_use("foreach", "foreach", source or "").path
        if path is None or path.root in ("item", "index"):
            return UNKNOWN
        listed = self.at_step(path, around)
        inner = [
            one.inner(v.schema["items"])
            for one in listed.schemas
            for v in variants(one)
            if "items" in v.schema
        ]
        if len(inner) != len(listed.schemas) or len(inner) != 1:
            return UNKNOWN
        return follow(inner[0], keys, "item")

    def _input(self, keys: Keys) -> Reached:
        inputs = self._plan.inputs
        if not keys:
            return Reached((_typed("object"),))
        key = keys[0]
        if not isinstance(key, str) or key not in inputs:
            return Reached(
                trouble=Trouble("unknown_input", key, f"the plan has no input {key!r}", tuple(inputs))
            )
        declared = inputs[key]
        if declared.type == "any" or not declared.required:
            return UNKNOWN
        return follow(_typed(declared.type), keys[1:], f"inputs.{key}")


def _in_data(data: Any, keys: Keys) -> Reached:
    """The end of a path in values that are known already."""
    value: Any = data
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            known = cast(dict[str, Any], value)
            if key not in known:
                trouble = Trouble("doubtful_key", key, f"the plan's context has no {key!r}", tuple(known))
                return Reached(trouble=trouble)
            value = known[key]
        else:
            return UNKNOWN
    return Reached((Whole({"const": value}, {}),)) if not isinstance(value, dict | list) else UNKNOWN


def follow(whole: Whole, keys: Keys, name: str) -> Reached:
    """The end of a path inside a value that has a schema. `name` is what the value is called."""
    for key in keys:
        steps = [_inside(one, key, name) for one in variants(whole) if types_of(one) != NULL]
        good = [step for step in steps if not isinstance(step, Trouble)]
        if not good:
            return Reached(trouble=next((step for step in steps if isinstance(step, Trouble)), None))
        only = good[0]
        if len(good) > 1 or only is None:
            return UNKNOWN
        whole = only
        name = f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}"
    return Reached((whole,))


def _inside(whole: Whole, key: str | int, name: str) -> Whole | Trouble | None:
    """What stands at `key` of a value; None if nobody knows."""
    schema = cast(Schema, whole.schema)
    types = own_types(schema)
    if isinstance(key, int):
        if "array" in types:
            items = schema.get("items")
            return whole.inner(items) if "prefixItems" not in schema and isinstance(items, Mapping) else None
        return (
            None
            if "string" in types
            else Trouble("wrong_key", key, f"{name} is {words_of(types)}, not a list")
        )
    if "object" not in types:
        return Trouble("wrong_key", key, f"{name} is {words_of(types)}, it has no key {key!r}")
    known = properties(schema)
    if key in known:
        return whole.inner(known[key])
    more = schema.get("additionalProperties")
    if more is False or (
        more is None and known and "patternProperties" not in schema and "allOf" not in schema
    ):
        code = "unknown_key" if more is False else "doubtful_key"
        return Trouble(code, key, f"{name} has no key {key!r}", tuple(known))
    return whole.inner(cast(Any, more)) if isinstance(more, Mapping) else None
