"""Rules about what is read: expressions that cannot be understood, names that mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kedge.base.errors import ExpressionError
from kedge.checks.reach import Trouble
from kedge.checks.survey import Survey, finding, put
from kedge.plan.expr import Path
from kedge.plan.findings import Finding, Fix
from kedge.plan.parts import RESERVED_IDS
from kedge.plan.scopes import Node
from kedge.plan.uses import Use, expression_use, template_use

_RESULT_FIELDS = ("expect", "quality", "compensate")
_SECRET_FIELDS = ("args", "compensate")
_SHOWN_MAX = 10


def expressions(survey: Survey) -> Iterator[Finding]:
    """An expression or template that cannot be understood."""
    for node in survey.nodes:
        for use in node.uses:
            if use.error is not None:
                yield finding(node, fix=_suggested(use, node), **_of_error(use.error), field=use.place)
    for use in survey.plan_uses:
        if use.error is not None:
            fields = _of_error(use.error)
            yield Finding(path=use.place, fix=_suggested(use, None), **fields)


def _of_error(error: ExpressionError) -> dict[str, Any]:
    message = f"{error.message} (at character {error.position + 1})"
    return {"code": error.code, "message": message, "allowed": error.allowed, "remedy": error.remedy}


def _suggested(use: Use, node: Node | None) -> Fix | None:
    text = use.error.suggestion if use.error is not None else None
    if text is None or again(use, text).error is not None:
        return None
    return put(node, use.place, text) if node is not None else Fix(path=use.place, value=text)


def again(use: Use, text: str) -> Use:
    """The use with another text in its place."""
    return (template_use if use.is_template else expression_use)(use.field, use.place, text)


def renamed(use: Use, old: str, new: str) -> str | None:
    """The text with `old`, at the start of a path, called `new`; None if that cannot be done for sure."""
    text = _rewritten(use, rf"(?<![\w.]){re.escape(old)}(?!\w)", new)
    return text if text is not None and all(path.root != old for path in again(use, text).paths) else None


def _rekeyed(use: Use, old: Path, new: str) -> str | None:
    """The text with the last key of `old` called `new` wherever that path is read."""
    if not new.isidentifier():
        return None
    way = r"\.".join(re.escape(str(part)) for part in (old.root, *old.keys))
    text = _rewritten(use, rf"(?<![\w.]){way}(?!\w)", ".".join(map(str, (old.root, *old.keys[:-1], new))))
    if text is None:
        return None
    length = len(old.keys)
    is_left = any(path.root == old.root and path.keys[:length] == old.keys for path in again(use, text).paths)
    return None if is_left else text


def _rewritten(use: Use, pattern: str, new: str) -> str | None:
    """The text with the pattern replaced in its expressions; None if quoted text may have it too."""

    def rewrite(match: re.Match[str]) -> str:
        return re.sub(pattern, lambda _: new, match.group())

    text = re.sub(r"\$\{[^}]*\}" if use.is_template else r"(?s).+", rewrite, use.text)
    has_quotes = '"' in use.text or "'" in use.text
    return None if has_quotes or text == use.text or again(use, text).error is not None else text


def references(survey: Survey) -> Iterator[Finding]:
    """A name that means nothing here: no such step, or a word that has its meaning elsewhere."""
    for node in survey.nodes:
        for use in node.uses:
            for path in use.paths:
                if path.root in node.names:
                    continue
                if path.root not in RESERVED_IDS:
                    yield _unknown(survey, node, use, path)
                else:
                    yield from _word(survey, node, use, path)
    for use in survey.plan_uses:
        for path in use.paths:
            yield from _in_plan(survey, use, path)


def _unknown(survey: Survey, node: Node, use: Use, path: Path) -> Finding:
    name = path.root
    visible = survey.visible(node.parent)
    inputs = survey.plan.inputs
    others = (*inputs, "inputs", "context", "item", "loop", "result")
    near = survey.nearest(name, (one for one in (*visible, *others) if one != node.step.id))
    if near in inputs and near not in visible:
        near = f"inputs.{near}"
    text = renamed(use, name, near) if near else None
    remedy = f"did you mean {near!r}?" if near else "name a step, or one of inputs, context, goal"
    inside = survey.inside(node.parent).get(name)
    if inside is not None:
        text, remedy = None, f"it is inside {inside.step.id}: read {inside.step.id}.{name}"
    return finding(
        node,
        "unknown_reference",
        use.place,
        f"there is no step {name[:80]!r} that {node.step.id} could read",
        names=(name[:80],),
        allowed=visible[:_SHOWN_MAX],
        remedy=remedy,
        fix=put(node, use.place, text) if text else None,
    )


def _word(survey: Survey, node: Node, use: Use, path: Path) -> Iterator[Finding]:
    """One of the reserved names: it means something in some places only."""
    reason = _misplaced(node, use, path.root)
    if reason:
        why, remedy = reason
        text = None
        if path.root == "result" and use.field == "until":
            text = renamed(use, "result", "loop.previous")
        yield finding(
            node,
            "misplaced_name",
            use.place,
            f"{path.root!r} means nothing here: {why}",
            names=(path.root,),
            remedy=remedy,
            fix=put(node, use.place, text) if text else None,
        )
    elif path.root == "secret" and (len(path.keys) != 1 or not isinstance(path.keys[0], str)):
        yield finding(
            node, "secret_form", use.place, "a secret is named with one key", remedy="write ${secret.NAME}"
        )


def _misplaced(node: Node, use: Use, word: str) -> tuple[str, str] | None:
    own_early = use.field in ("when", "foreach")
    around = [one for one in node.around() if not (own_early and one is node)]
    match word:
        case "item" | "index" if not any(one.step.foreach is not None for one in around):
            if node.step.foreach is not None:
                return (
                    f"`{use.field}` comes before the items",
                    "put the condition on a step inside, or filter the list before",
                )
            return (
                "neither this step nor one around it has `foreach`",
                "add `foreach`, or read the step itself",
            )
        case "loop" if not any(one.step.loop is not None for one in around):
            return "neither this step nor one around it has a `loop`", "add `loop`"
        case "result" if use.field not in _RESULT_FIELDS:
            if use.field == "until":
                return "`until` looks at the round just done", "use loop.previous"
            return (
                "it is the step's own result, known only to `expect` and `compensate`",
                "name the step whose result you want",
            )
        case "secret" if use.field not in _SECRET_FIELDS:
            return "secrets go into tool arguments only", "pass it as an argument"
        case "results" if not node.needs:
            return (
                "it is the results of the steps this one depends on, and there are none",
                "add `after`, or name a step",
            )
        case _:
            return None


_NOT_IN_PLAN = frozenset({"item", "index", "loop", "result", "secret"})


def _in_plan(survey: Survey, use: Use, path: Path) -> Iterator[Finding]:
    """A name in `outputs` or `answer`."""
    root = path.root
    if root in survey.scopes.top:
        node = survey.scopes.top[root]
        if node.fallback_for is not None:
            yield _reads_fallback(None, use, path, node)
    elif root in _NOT_IN_PLAN:
        yield Finding(
            code="misplaced_name",
            path=use.place,
            message=f"{root!r} means nothing here: this is read when the run ends",
            names=(root,),
            remedy="name a step, or one of inputs, context, goal",
        )
    elif root not in RESERVED_IDS:
        near = survey.nearest(root, [*survey.scopes.top, "inputs", "context", "goal"])
        text = renamed(use, root, near) if near else None
        yield Finding(
            code="unknown_reference",
            path=use.place,
            message=f"there is no step {root[:80]!r} in the plan",
            names=(root[:80],),
            allowed=tuple(survey.scopes.top)[:_SHOWN_MAX],
            fix=Fix(path=use.place, value=text) if text else None,
            remedy=f"did you mean {near!r}?" if near else "name a step, or one of inputs, context, goal",
        )


def fallback_reads(survey: Survey) -> Iterator[Finding]:
    """A fallback is read under its target's name, and cannot read what has failed."""
    for node in survey.nodes:
        target = node.fallback_for
        for use in node.uses:
            for path in use.paths:
                read = node.names.get(path.root)
                if read is None or read is node:
                    continue
                if read is target:
                    yield finding(
                        node,
                        "fallback_reads_target",
                        use.place,
                        f"{node.step.id} runs only when {read.step.id} has failed: there is nothing to read",
                        names=(read.step.id,),
                        remedy=f"read what {read.step.id} reads",
                    )
                elif read.fallback_for is not None:
                    yield _reads_fallback(node, use, path, read)


def _reads_fallback(node: Node | None, use: Use, path: Path, read: Node) -> Finding:
    stands_for, seen = read, {read.number}
    while stands_for.fallback_for is not None and stands_for.fallback_for.number not in seen:
        stands_for = stands_for.fallback_for
        seen.add(stands_for.number)  # fallbacks may go in a ring, which need not lead back here
    name = stands_for.step.id
    text = renamed(use, path.root, name)
    more: dict[str, Any] = {
        "names": (path.root,),
        "remedy": f"read {name!r}: it has the fallback's result when that ran",
    }
    message = f"{path.root} is a fallback: it runs only if {name} fails"
    if node is None:
        return Finding(
            code="reads_fallback",
            path=use.place,
            message=message,
            fix=Fix(path=use.place, value=text) if text else None,
            **more,
        )
    fix = put(node, use.place, text) if text and stands_for is not node else None
    return finding(node, "reads_fallback", use.place, message, fix=fix, **more)


def afters(survey: Survey) -> Iterator[Finding]:
    """`after` names steps that exist, and not fallbacks."""
    for node in survey.nodes:
        for index, name in enumerate(node.step.after):
            place = f"after[{index}]"
            found = node.after.get(name)
            if found is None:
                visible = survey.visible(node.parent)
                near = survey.nearest(name, (one for one in visible if one != node.step.id))
                yield finding(
                    node,
                    "unknown_after",
                    place,
                    f"there is no step {name[:80]!r} to come after",
                    names=(name[:80],),
                    allowed=visible[:_SHOWN_MAX],
                    remedy=f"did you mean {near!r}?" if near else "name a step of this plan, or remove it",
                    fix=put(node, place, near)
                    if near
                    else Fix(path=f"{node.place}.{place}", action="remove"),
                )
            elif found is node.fallback_for:
                yield finding(
                    node,
                    "after_target",
                    place,
                    f"a fallback waits for {name}'s failure already",
                    names=(name,),
                    remedy="remove it",
                    fix=Fix(path=f"{node.place}.{place}", action="remove"),
                )
            elif found.fallback_for is not None and found is not node:
                target = found.fallback_for.step.id
                yield finding(
                    node,
                    "reads_fallback",
                    place,
                    f"{name} is a fallback: it runs only if {target} fails",
                    names=(name,),
                    remedy=f"come after {target!r}",
                    fix=put(node, place, target) if target != node.step.id else None,
                )


def paths(survey: Survey) -> Iterator[Finding]:
    """A key that a result, an input or the context is known not to have."""
    for node in survey.nodes:
        for use in node.uses:
            for path in use.paths:
                if path.keys and path not in use.asked:
                    trouble = survey.types.at_step(path, node).trouble
                    if trouble is not None:
                        yield _no_key(survey, node, use, path, trouble)
    for use in survey.plan_uses:
        for path in use.paths:
            if path.keys and path not in use.asked:
                top = survey.scopes.top.get(path.root)
                reached = (
                    survey.types.settled(top, path.keys) if top is not None else survey.types.anywhere(path)
                )
                if reached.trouble is not None:
                    yield _no_key(survey, None, use, path, reached.trouble)


def _no_key(survey: Survey, node: Node | None, use: Use, path: Path, trouble: Trouble) -> Finding:
    key = str(trouble.key)
    near = survey.nearest(key, trouble.known) if trouble.known else None
    text = None
    if near and key in path.keys:
        upto = path.keys[: path.keys.index(key) + 1]
        text = _rekeyed(use, Path(path.root, upto), near)
    more: dict[str, Any] = {
        "code": trouble.code, "message": trouble.message, "names": (key[:80],),
        "allowed": trouble.known[:_SHOWN_MAX],
        "remedy": f"did you mean {near!r}?" if near else "read a key that is there",
    }  # fmt: skip
    if node is None:
        return Finding(path=use.place, fix=Fix(path=use.place, value=text) if text else None, **more)
    return finding(node, field=use.place, fix=put(node, use.place, text) if text else None, **more)


def shadowed(survey: Survey) -> Iterator[Finding]:
    """A name that means an inner step while an outer one has it too."""
    for node in survey.nodes:
        if node.parent is None:
            continue
        for name, found in node.names.items():
            if found.parent is None or found is node:
                continue
            outer = survey.scopes.find(name, found.parent.parent)
            if outer is not None:
                yield finding(
                    node,
                    "shadowed_name",
                    "",
                    f"{name!r} means {found.path} here, not {outer.path}",
                    names=(name,),
                    remedy="give one of the two another id if that is not what you want",
                )
