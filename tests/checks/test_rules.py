"""Every rule on a plan that breaks it: code, place, remedy, and the mending that a machine can do."""

import pytest

from kedge.base.limits import DEFAULT_LIMITS
from kedge.checks.check import RULES
from kedge.checks.survey import Survey
from kedge.plan.findings import apply_fix
from kedge.plan.model import Plan


def step(name="a", tool="anything", **fields):
    return {"id": name, "tool": tool, **fields}


def group(name, *steps, **fields):
    return {"id": name, "steps": list(steps), **fields}


def plan(*steps, **fields):
    return {"goal": "g", "steps": list(steps), **fields}


def args(tool="anything", **values):
    return step("a", tool, args=values)


def shape(name, value):
    return plan(args("shapes", **{name: value}))


LS = step("ls", "files.list", args={"path": "x"})
SEND = step("mail", "send", compensate={"tool": "unsend", "args": {"id": "${mail.id}"}})

# name: document, code, place, value at the fix's place after the fix (... : no fix, "gone": removed)
CASES = {
    # tools
    "unknown tool": (plan(step("a", "files.lst")), "unknown_tool", "steps[0].tool", "files.list"),
    "unknown tool, nothing near": (plan(step("a", "zzz")), "unknown_tool", "steps[0].tool", ...),
    "unknown compensation": (
        plan(step("a", compensate={"tool": "unsnd"})),
        "unknown_tool",
        "steps[0].compensate.tool",
        "unsend",
    ),
    "tool unavailable": (plan(step("a", "fax")), "unavailable_tool", "steps[0].tool", "send"),
    # arguments
    "argument missing": (plan(step("a", "double")), "missing_argument", "steps[0].args.x", ...),
    "argument misspelt": (
        plan(args("files.list", path="x", patern="y")),
        "unknown_argument",
        "steps[0].args.patern",
        "y",
    ),
    "argument unknown": (plan(args("double", x=1, zzz=2)), "unknown_argument", "steps[0].args.zzz", ...),
    "number as text": (plan(args("double", x="3")), "wrong_argument", "steps[0].args.x", 3),
    "text as number": (plan(args("files.list", path=3)), "wrong_argument", "steps[0].args.path", "3"),
    "fraction for whole": (shape("count", 1.5), "wrong_argument", "steps[0].args.count", ...),
    "null for number": (plan(args("double", x=None)), "wrong_argument", "steps[0].args.x", ...),
    "boolean for number": (plan(args("double", x=True)), "wrong_argument", "steps[0].args.x", ...),
    "boolean as text": (shape("flag", "True"), "wrong_argument", "steps[0].args.flag", True),
    "over the maximum": (shape("number", 11), "wrong_argument", "steps[0].args.number", 10),
    "under the minimum": (shape("number", -1), "wrong_argument", "steps[0].args.number", 0),
    "not in the enum": (shape("mode", "fats"), "wrong_argument", "steps[0].args.mode", "fast"),
    "far from the enum": (shape("mode", "x"), "wrong_argument", "steps[0].args.mode", ...),
    "not the constant": (shape("one", 2), "wrong_argument", "steps[0].args.one", 1),
    "scalar for list": (shape("names", "a"), "wrong_argument", "steps[0].args.names", ["a"]),
    "wrong item": (shape("names", ["a", 2]), "wrong_argument", "steps[0].args.names[1]", "2"),
    "list too short": (shape("names", []), "wrong_argument", "steps[0].args.names", ...),
    "list too long": (shape("names", list("abcd")), "wrong_argument", "steps[0].args.names", ...),
    "inner key missing": (shape("point", {"lon": 1}), "missing_argument", "steps[0].args.point.lat", ...),
    "inner key misspelt": (
        shape("point", {"lat": 1, "lom": 1}),
        "unknown_argument",
        "steps[0].args.point.lom",
        1,
    ),
    "text for number or null": (shape("maybe", "3"), "wrong_argument", "steps[0].args.maybe", 3),
    "list for any of two": (shape("several", [1]), "wrong_argument", "steps[0].args.several", ...),
    "all of two": (shape("both", 2), "wrong_argument", "steps[0].args.both", 3),
    "form of a text": (shape("code", "A1"), "wrong_argument", "steps[0].args.code", ...),
    "text too long": (shape("short", "abcd"), "wrong_argument", "steps[0].args.short", ...),
    "deep in a recursive schema": (
        shape("tree", {"kids": [{"kids": [{"kid": []}]}]}),
        "unknown_argument",
        "steps[0].args.tree.kids[0].kids[0].kid",
        [],
    ),
    "pattern that could hang": (shape("slow", "aaaa!"), "pattern_unchecked", "steps[0].args.slow", ...),
    "arguments of a compensation": (
        plan(step("a", compensate={"tool": "unsend", "args": {}})),
        "missing_argument",
        "steps[0].compensate.args.id",
        ...,
    ),
    "arguments nobody reads": (
        plan(group("a", step("b"), args={"x": 1})),
        "unused_arguments",
        "steps[0].args",
        "gone",
    ),
    # types of references
    "list for number": (
        plan(LS, step("a", "double", args={"x": "${ls.files}"})),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "map for text": (
        plan(LS, step("a", "files.read", args={"path": "${ls}"})),
        "reference_type",
        "steps[1].args.path",
        ...,
    ),
    "text around a reference": (
        plan(LS, step("a", "double", args={"x": "n ${ls.files[0].size}"})),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "many for one": (
        plan(
            step("m", "double", foreach=[1, 2], args={"x": "${item}"}),
            step("a", "double", args={"x": "${m}"}),
        ),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "item of a list": (
        plan(LS, step("a", "double", foreach="${ls.files}", args={"x": "${item}"})),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "item of written items": (
        plan(step("a", "double", foreach=["x", "y"], args={"x": "${item}"})),
        "reference_type",
        "steps[0].args.x",
        ...,
    ),
    "all rounds for one": (
        plan(
            step("m", "double", loop={"times": 2, "collect": "all"}, args={"x": 1}),
            step("a", "double", args={"x": "${m}"}),
        ),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "input of another type": (
        plan(step("a", "double", args={"x": "${inputs.n}"}), inputs={"n": {"type": "string"}}),
        "reference_type",
        "steps[0].args.x",
        ...,
    ),
    "result of a fallback": (
        plan(
            step("m", "double", args={"x": 1}),
            step("f", "files.read", args={"path": "p"}, fallback_for="m"),
            step("a", "double", args={"x": "${m}"}),
        ),
        "reference_type",
        "steps[2].args.x",
        ...,
    ),
    "loop index is a number": (
        plan(step("a", "files.read", loop={"times": 2}, args={"path": "${loop.index}"})),
        "reference_type",
        "steps[0].args.path",
        ...,
    ),
    "declared output": (
        plan(step("m", output={"type": "array"}), step("a", "double", args={"x": "${m}"})),
        "reference_type",
        "steps[1].args.x",
        ...,
    ),
    "wrong items": (
        plan(LS, step("a", "shapes", args={"names": "${ls.files}"})),
        "reference_type",
        "steps[1].args.names",
        ...,
    ),
    # names
    "unknown step": (plan(LS, args(x="${lss}")), "unknown_reference", "steps[1].args.x", "${ls}"),
    "unknown step in text": (
        plan(LS, args(x="ls: ${lss.files} and ${ls}")),
        "unknown_reference",
        "steps[1].args.x",
        "ls: ${ls.files} and ${ls}",
    ),
    "unknown step in when": (
        plan(LS, step("a", when="len(lss.files) > 0")),
        "unknown_reference",
        "steps[1].when",
        "len(ls.files) > 0",
    ),
    "input without inputs": (
        plan(args(x="${folder}"), inputs={"folder": {}}),
        "unknown_reference",
        "steps[0].args.x",
        "${inputs.folder}",
    ),
    "nothing near": (plan(args(x="${zzz}")), "unknown_reference", "steps[0].args.x", ...),
    "inside a composite": (
        plan(group("g1", step("inner")), args(x="${inner}")),
        "unknown_reference",
        "steps[1].args.x",
        ...,
    ),
    "unknown in outputs": (
        plan(LS, outputs={"o": "lss.files"}),
        "unknown_reference",
        "outputs.o",
        "ls.files",
    ),
    "unknown in answer": (
        plan(LS, answer="Found ${lss.files}"),
        "unknown_reference",
        "answer",
        "Found ${ls.files}",
    ),
    "unknown after": (plan(LS, step("a", after=["lss"])), "unknown_after", "steps[1].after[0]", "ls"),
    "unknown after, nothing near": (
        plan(LS, step("a", after=["zzz"])),
        "unknown_after",
        "steps[1].after[0]",
        "gone",
    ),
    "item without foreach": (plan(args(x="${item}")), "misplaced_name", "steps[0].args.x", ...),
    "index without foreach": (plan(args(x="${index}")), "misplaced_name", "steps[0].args.x", ...),
    "item in when": (plan(step("a", foreach=[1], when="item > 0")), "misplaced_name", "steps[0].when", ...),
    "loop without loop": (plan(args(x="${loop.index}")), "misplaced_name", "steps[0].args.x", ...),
    "loop in foreach": (
        plan(step("a", loop={"times": 1}, foreach="${loop.previous}")),
        "misplaced_name",
        "steps[0].foreach",
        ...,
    ),
    "result in args": (plan(args(x="${result}")), "misplaced_name", "steps[0].args.x", ...),
    "result in until": (
        plan(step("a", loop={"times": 3, "until": "result.ok"})),
        "misplaced_name",
        "steps[0].loop.until",
        "loop.previous.ok",
    ),
    "secret in when": (plan(step("a", when="secret.KEY == 'x'")), "misplaced_name", "steps[0].when", ...),
    "secret in outputs": (plan(step("a"), outputs={"o": "secret.KEY"}), "misplaced_name", "outputs.o", ...),
    "secret alone": (plan(args(x="${secret}")), "secret_form", "steps[0].args.x", ...),
    "secret with two keys": (plan(args(x="${secret.A.B}")), "secret_form", "steps[0].args.x", ...),
    "results of nothing": (plan(args(x="${results}")), "misplaced_name", "steps[0].args.x", ...),
    "two steps of one name": (
        plan(step("x"), group("o", step("x"), step("y", args={"v": "${x}"}))),
        "shadowed_name",
        "steps[1].steps[1]",
        ...,
    ),
    # keys
    "unknown key": (plan(LS, args(x="${ls.filez}")), "unknown_key", "steps[1].args.x", "${ls.files}"),
    "unknown key further in": (plan(LS, args(x="${ls.files[0].pth}")), "unknown_key", "steps[1].args.x", ...),
    "unknown key of an item": (
        plan(LS, step("a", foreach="${ls.files}", args={"x": "${item.pth}"})),
        "unknown_key",
        "steps[1].args.x",
        "${item.path}",
    ),
    "unknown key in a condition": (
        plan(LS, step("a", when="ls.filez == 3")),
        "unknown_key",
        "steps[1].when",
        "ls.files == 3",
    ),
    "unknown key in outputs": (plan(LS, outputs={"o": "ls.filez"}), "unknown_key", "outputs.o", "ls.files"),
    "unknown child": (
        plan(group("o", step("child")), args(x="${o.chld}")),
        "unknown_key",
        "steps[1].args.x",
        "${o.child}",
    ),
    "unknown key of the loop": (
        plan(step("a", loop={"times": 2}, args={"x": "${loop.indx}"})),
        "unknown_key",
        "steps[0].args.x",
        "${loop.index}",
    ),
    "unknown key of the result": (
        plan(step("a", "files.list", args={"path": "x"}, expect="len(result.filez) > 0")),
        "unknown_key",
        "steps[0].expect",
        "len(result.files) > 0",
    ),
    "unknown key of what stands in": (
        plan(
            LS,
            step("f", "send", compensate={"tool": "unsend", "args": {"id": "x"}}, fallback_for="ls"),
            args(x="${ls.files}"),
        ),
        "unknown_key",
        "steps[2].args.x",
        ...,
    ),
    "key that is not promised": (
        plan(step("m", "loose"), args(x="${m.knwon}")),
        "doubtful_key",
        "steps[1].args.x",
        "${m.known}",
    ),
    "key the context lacks": (
        plan(args(x="${context.usr}"), context={"user": 1}),
        "doubtful_key",
        "steps[0].args.x",
        "${context.user}",
    ),
    "unknown input": (
        plan(args(x="${inputs.foldr}"), inputs={"folder": {}}),
        "unknown_input",
        "steps[0].args.x",
        "${inputs.folder}",
    ),
    "key of a number": (
        plan(step("m", "double", args={"x": 1}), args(x="${m.value}")),
        "wrong_key",
        "steps[1].args.x",
        ...,
    ),
    "key of a list": (plan(LS, args(x="${ls.files.path}")), "wrong_key", "steps[1].args.x", ...),
    "key of many": (
        plan(step("m", "files.list", foreach=["x"], args={"path": "${item}"}), args(x="${m.files}")),
        "wrong_key",
        "steps[1].args.x",
        ...,
    ),
    "place in a map": (plan(LS, args(x="${ls[0]}")), "wrong_key", "steps[1].args.x", ...),
    "key of the goal": (plan(args(x="${goal.text}")), "wrong_key", "steps[0].args.x", ...),
    # expressions
    "expression with a brace": (
        plan(LS, step("a", when="${ls.files} == 3")),
        "expr_template",
        "steps[1].when",
        "ls.files == 3",
    ),
    "expression that ends early": (
        plan(LS, step("a", when="ls.files ==")),
        "expr_incomplete",
        "steps[1].when",
        ...,
    ),
    "template never closed": (
        plan(LS, args(x="see ${ls.files")),
        "template_unclosed",
        "steps[1].args.x",
        ...,
    ),
    "broken output": (plan(LS, outputs={"o": "${ls}"}), "expr_template", "outputs.o", "ls"),
    # conditions
    "text against number": (plan(step("a", when="'x' > 3")), "condition_fails", "steps[0].when", ...),
    "division by nothing": (plan(step("a", when="1 / 0 > 2")), "condition_fails", "steps[0].when", ...),
    "a number is no condition": (plan(step("a", when="3")), "not_a_condition", "steps[0].when", ...),
    "always true": (plan(step("a", when="1 < 2")), "constant_condition", "steps[0].when", ...),
    "never met": (
        plan(step("a", loop={"times": 3, "until": "false"})),
        "constant_condition",
        "steps[0].loop.until",
        ...,
    ),
    "list against number": (
        plan(LS, step("a", when="ls.files > 3")),
        "condition_types",
        "steps[1].when",
        ...,
    ),
    "list as condition": (plan(LS, step("a", when="ls.files")), "condition_types", "steps[1].when", ...),
    "not of a list": (plan(LS, step("a", when="not ls.files")), "condition_types", "steps[1].when", ...),
    "and of a list": (plan(LS, step("a", when="ls.files and true")), "condition_types", "steps[1].when", ...),
    "length of a number": (
        plan(step("a", "double", args={"x": 1}, expect="len(result) > 2")),
        "condition_types",
        "steps[0].expect",
        ...,
    ),
    "text plus number": (
        plan(step("a", "double", args={"x": 1}, expect="result + 'x' == 'y'")),
        "condition_types",
        "steps[0].expect",
        ...,
    ),
    "in a number": (
        plan(step("a", "double", args={"x": 1}, expect="3 in result")),
        "condition_types",
        "steps[0].expect",
        ...,
    ),
    "foreach of bare words": (
        plan(LS, step("a", foreach="ls.files")),
        "foreach_not_a_list",
        "steps[1].foreach",
        "${ls.files}",
    ),
    "foreach of text": (plan(step("a", foreach="just text")), "foreach_not_a_list", "steps[0].foreach", ...),
    "foreach of a map": (plan(LS, step("a", foreach="${ls}")), "foreach_not_a_list", "steps[1].foreach", ...),
    # order
    "waits for itself": (plan(args(x="${a}")), "cycle", "steps[0]", ...),
    "until reads itself": (plan(step("a", loop={"times": 2, "until": "a.ok"})), "cycle", "steps[0]", ...),
    "two wait for each other": (
        plan(step("b", args={"x": "${a}"}), args(x="${b}")),
        "cycle",
        "steps[0]",
        ...,
    ),
    "child reads its composite": (plan(group("o", step("b", args={"x": "${o}"}))), "cycle", "steps[0]", ...),
    "fallback waits for its reader": (
        plan(step("m"), args(x="${m}"), step("f", fallback_for="m", args={"x": "${a}"})),
        "cycle",
        "steps[0]",
        ...,
    ),
    "fallbacks of each other": (
        plan(step("m", fallback_for="n"), step("n", fallback_for="m")),
        "cycle",
        "steps[0]",
        ...,
    ),
    "always false": (plan(step("a", when="1 > 2"), step("z")), "unreachable", "steps[0].when", ...),
    "after what never runs": (
        plan(step("n", when="false"), step("a", after=["n"])),
        "unreachable",
        "steps[1]",
        ...,
    ),
    "no items": (plan(step("a", foreach=[])), "unreachable", "steps[0].foreach", ...),
    "fallback of what never runs": (
        plan(step("n", when="false"), step("f", fallback_for="n")),
        "unreachable",
        "steps[1]",
        ...,
    ),
    # fallbacks
    "fallback of nothing": (
        plan(LS, step("f", fallback_for="lss")),
        "fallback_of_nothing",
        "steps[1].fallback_for",
        "ls",
    ),
    "fallback across scopes": (
        plan(LS, group("o", step("f", fallback_for="ls"))),
        "fallback_of_nothing",
        "steps[1].steps[0].fallback_for",
        ...,
    ),
    "fallback of itself": (
        plan(LS, step("f", fallback_for="f")),
        "fallback_of_itself",
        "steps[1].fallback_for",
        "gone",
    ),
    "two fallbacks": (
        plan(LS, step("f", fallback_for="ls"), step("h", fallback_for="ls")),
        "two_fallbacks",
        "steps[2].fallback_for",
        "f",
    ),
    "fallback of a sleep": (
        plan(step("w", "sleep", args={"seconds": 1}), step("f", fallback_for="w")),
        "unneeded_fallback",
        "steps[1].fallback_for",
        ...,
    ),
    "fallback reads what failed": (
        plan(LS, step("f", fallback_for="ls", args={"x": "${ls.files}"})),
        "fallback_reads_target",
        "steps[1].args.x",
        ...,
    ),
    "fallback after its target": (
        plan(LS, step("f", fallback_for="ls", after=["ls"])),
        "after_target",
        "steps[1].after[0]",
        "gone",
    ),
    "reads a fallback": (
        plan(LS, step("f", fallback_for="ls"), args(x="${f.x}")),
        "reads_fallback",
        "steps[2].args.x",
        "${ls.x}",
    ),
    "comes after a fallback": (
        plan(LS, step("f", fallback_for="ls"), step("a", after=["f"])),
        "reads_fallback",
        "steps[2].after[0]",
        "ls",
    ),
    "output of a fallback": (
        plan(LS, step("f", fallback_for="ls"), outputs={"o": "f.x"}),
        "reads_fallback",
        "outputs.o",
        "ls.x",
    ),
    # effects
    "nothing undoes it": (plan(step("a", "send")), "no_compensation", "steps[0]", ...),
    "nothing to undo": (
        plan(step("a", "double", args={"x": 1}, compensate={"tool": "unsend", "args": {"id": "x"}})),
        "compensation_unused",
        "steps[0].compensate",
        "gone",
    ),
    "a composite to undo": (
        plan(
            group("o", step("a", "double", args={"x": 1}), compensate={"tool": "unsend", "args": {"id": "x"}})
        ),
        "misplaced_compensation",
        "steps[0].compensate",
        "gone",
    ),
    "a wait to undo": (
        plan({"id": "a", "wait": {"signal": "go"}, "compensate": {"tool": "unsend", "args": {"id": "x"}}}),
        "misplaced_compensation",
        "steps[0].compensate",
        "gone",
    ),
    "a sleep that undoes": (
        plan(SEND | {"compensate": {"tool": "sleep", "args": {"seconds": 1}}}),
        "misplaced_compensation",
        "steps[0].compensate",
        "gone",
    ),
    "a list's item in what undoes a step": (
        plan(step("a", "send", foreach=[1], compensate={"tool": "unsend", "args": {"id": "${a[0].id}"}})),
        "wrong_key",
        "steps[0].compensate.args.id",
        ...,
    ),
    "retry of an effect": (plan(SEND | {"retry": {"attempts": 3}}), "retry_unused", "steps[0].retry", "gone"),
    "retry of a sleep": (
        plan(step("a", "sleep", args={"seconds": 1}, retry={"attempts": 2})),
        "retry_unused",
        "steps[0].retry",
        "gone",
    ),
    "retry of a composite with effects": (
        plan(group("o", step("a", "upload"), retry={"attempts": 2})),
        "retry_repeats_effects",
        "steps[0].retry",
        "gone",
    ),
    "retry on what is never retried": (
        plan(step("a", retry={"attempts": 2, "on": ["bug", "timeout"]})),
        "retry_category",
        "steps[0].retry.on[0]",
        "timeout",
    ),
    "first wait longer than the longest": (
        plan(step("a", retry={"attempts": 2, "backoff_s": 9, "max_backoff_s": 3})),
        "retry_backoff",
        "steps[0].retry.backoff_s",
        3.0,
    ),
    # sleep
    "sleep without seconds": (plan(step("a", "sleep")), "missing_argument", "steps[0].args.seconds", ...),
    "sleep backwards": (
        plan(step("a", "sleep", args={"seconds": -1})),
        "wrong_argument",
        "steps[0].args.seconds",
        0,
    ),
    "sleep in words": (
        plan(step("a", "sleep", args={"seconds": "5"})),
        "wrong_argument",
        "steps[0].args.seconds",
        5,
    ),
    # limits
    "unknown limit": (plan(step(), limits={"paralel": 2}), "unknown_limit", "limits.paralel", 2),
    "unknown limit, nothing near": (plan(step(), limits={"zzz": 2}), "unknown_limit", "limits.zzz", "gone"),
    "loosened limit": (plan(step(), limits={"steps": 1e9}), "limit_loosened", "limits.steps", 10_000),
    "limit of nothing": (plan(step(), limits={"steps": 0}), "limit_value", "limits.steps", "gone"),
    "half a step": (plan(step(), limits={"steps": 1.5}), "limit_value", "limits.steps", "gone"),
    "more steps than its own limit": (
        plan(step("a"), step("b"), limits={"steps": 1}),
        "too_many_steps",
        "steps",
        ...,
    ),
    "chain over its own limit": (
        plan(step("a"), step("b", after=["a"]), limits={"chain": 1}),
        "chain_too_long",
        "steps[1]",
        ...,
    ),
    "too many rounds": (
        plan(step("a", loop={"times": 10**6})),
        "too_many_rounds",
        "steps[0].loop.times",
        10_000,
    ),
    "too many items": (
        plan(step("a", foreach=[1, 2, 3]), limits={"expansions": 2}),
        "too_many_items",
        "steps[0].foreach",
        ...,
    ),
    "too deep composites": (
        plan(group("o", group("p", step("a"))), limits={"nesting": 1}),
        "nesting_too_deep",
        "steps[0].steps[0].steps",
        ...,
    ),
    "too deep arguments": (plan(args(x=[[[1]]]), limits={"depth": 2}), "too_deep", "steps[0].args.x", ...),
    "too big arguments": (
        plan(args(x=["y" * 100]), limits={"args_bytes": 50}),
        "args_too_big",
        "steps[0].args.x",
        ...,
    ),
    "too much metadata": (
        plan(step("a", metadata={"x": "y" * 70_000})),
        "metadata_too_big",
        "steps[0].metadata",
        "gone",
    ),
    "too much metadata of the plan": (
        plan(step(), metadata={"x": "y" * 70_000}),
        "metadata_too_big",
        "metadata",
        "gone",
    ),
    # the rest
    "no steps": (plan(), "empty_plan", "steps", ...),
    "no children": (plan(group("o")), "empty_composite", "steps[0].steps", ...),
    "no goal": ({"goal": " ", "steps": [step()]}, "blank_goal", "goal", ...),
    "default of another type": (
        plan(args(x="${inputs.n}"), inputs={"n": {"type": "integer", "default": "x"}}),
        "input_default",
        "inputs.n.default",
        "gone",
    ),
    "true is no number": (
        plan(args(x="${inputs.n}"), inputs={"n": {"type": "number", "default": True}}),
        "input_default",
        "inputs.n.default",
        "gone",
    ),
    "unused input": (plan(step(), inputs={"n": {}}), "unused_input", "inputs.n", "gone"),
    "idle longer than all": (
        plan(step("a", timeout_s=5, idle_timeout_s=9)),
        "idle_timeout_unused",
        "steps[0].idle_timeout_s",
        "gone",
    ),
    "resource without a name": (
        plan(step("a", resources=["a b"])),
        "resource_name",
        "steps[0].resources[0]",
        ...,
    ),
    "output with a word that is not applied": (
        plan(step("a", output={"properties": {"x": {"items": {"anyOf": [{"not": {}}]}}}})),
        "output_unchecked",
        "steps[0].output.properties.x.items.anyOf[0].not",
        ...,
    ),
    "output with a pattern that could hang": (
        plan(step("a", output={"additionalProperties": {"pattern": "(a+)+"}})),
        "output_unchecked",
        "steps[0].output.additionalProperties.pattern",
        ...,
    ),
    "output of no type": (
        plan(step("a", output={"type": "strng"})),
        "output_schema",
        "steps[0].output.type",
        "string",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_has_code_place_and_remedy_and_its_fix_mends_it(name, found):
    document, code, place, mended = CASES[name]
    mine = [finding for finding in found(document) if (finding.code, finding.path) == (code, place)]
    assert len(mine) == 1, [str(finding) for finding in found(document)]
    finding = mine[0]
    assert finding.remedy
    assert finding.message
    if mended is ...:
        assert finding.fix is None
        return
    fixed = apply_fix(document, finding.fix)
    assert finding not in found(fixed)
    if mended == "gone":
        assert finding.fix.action == "remove"
    elif finding.fix.action == "set":
        assert finding.fix.value == mended


def test_every_rule_finds_something_that_no_other_finds(catalog):
    idle = {rule.__name__ for rule in RULES}
    for document, code, place, _ in CASES.values():
        survey = Survey(Plan.parse(document), catalog, DEFAULT_LIMITS)
        for rule in RULES:
            if any((finding.code, finding.path) == (code, place) for finding in rule(survey)):
                idle.discard(rule.__name__)
    assert idle == set()
    assert len({code for _, code, _, _ in CASES.values()}) >= 50


@pytest.mark.parametrize(
    "document",
    [
        plan(
            LS, step("r", "files.read", foreach="${ls.files}", args={"path": "${item.path}"}), args(x="${r}")
        ),
        plan(
            LS,
            step("r", "files.read", foreach="${ls.files[:2]}", args={"path": "${item.path}"}),
            outputs={"n": "len(r)"},
        ),
        plan(
            LS, args(x="${results.files}") | {"after": ["ls"]}, answer="Found ${len(ls.files)}: $${not this}"
        ),
        plan(LS, step("a", when="len(ls.files) > 0 and present(ls.nothing)")),
        plan(
            step("m", "double", args={"x": 1}), step("a", "double", args={"x": "${m}"}, expect="result > m")
        ),
        plan(
            step(
                "a",
                "double",
                args={"x": 1},
                loop={"times": 3, "until": "loop.previous > 5 or loop.index > 2"},
            )
        ),
        plan(step("a", "double", foreach=[1, 2], args={"x": "${item + index}"})),
        plan(step("a", "double", foreach=[[1], [2]], args={"x": "${item[0]}"})),
        plan(group("o", step("i", args={"x": "${item}"}), foreach=[1, 2]), args(x="${o[0].i}")),
        plan(
            group("o", group("p", step("i")), step("j", args={"x": "${p.i}"})),
            args(x="${o.p.i}"),
            outputs={"o": "o.j"},
        ),
        plan(SEND, step("f", "upload", fallback_for="mail"), step("h", "upload", fallback_for="f")),
        plan(args(key="${secret.TOKEN}", text="Bearer ${secret.TOKEN}")),
        plan(
            args(x="${inputs.a}", y="${context.b.c}", z="${goal}"),
            inputs={"a": {"type": "string"}},
            context={"b": {"c": 1}},
        ),
        plan(
            step(
                "a",
                "shapes",
                args={
                    "number": 1.5,
                    "count": 2,
                    "flag": True,
                    "mode": "fast",
                    "one": 1,
                    "names": ["x"],
                    "point": {"lat": 1},
                    "maybe": None,
                    "several": "x",
                    "both": 5,
                    "code": "abc",
                    "short": "abc",
                    "tree": {"kids": [{"kids": []}]},
                },
            )
        ),
        plan(
            LS, step("a", "shapes", args={"maybe": "${ls.files[0].size}", "several": "${ls.files[0].path}"})
        ),
        plan(
            step("w", "sleep", args={"seconds": "${inputs.n}"}),
            inputs={"n": {"type": "number", "default": 1}},
        ),
        plan(step("a", when="inputs.go"), inputs={"go": {"type": "boolean"}}),
        plan(step("a", retry={"attempts": 3}), step("b", after=["a"]), limits={"parallel": 2, "run_s": 60}),
        plan(LS, step("a", "anything", args={"x": "${ls.files[0].path + '.md'}", "y": {"deep": ["${ls}"]}})),
        plan(
            {"id": "a", "role": "analyze", "args": {"x": 1}},
            {"id": "b", "goal": "Look into ${a.x}"},
            {"id": "c", "wait": {"signal": "go"}},
        ),
    ],
)
def test_a_good_plan_has_no_findings(document, found):
    assert [str(finding) for finding in found(document, "strict")] == []


def test_without_a_catalog_nothing_is_said_of_tools(found):
    assert (
        found(plan(step("a", "nobody.knows", args={"x": "${b.y}"}), step("b", "nor.this")), catalog=None)
        == []
    )


def test_all_faults_are_told_at_once_in_document_order(found):
    document = plan(
        step("one", "files.lst", args={"path": "${two.x}"}),
        step("two", "double", args={"x": "${one}", "y": 1}, when="thre > 1"),
        group("three", step("inner", "send", retry={"attempts": 2})),
        outputs={"o": "four"},
    )
    assert [(finding.code, finding.step) for finding in found(document)] == [
        ("unknown_reference", ""),
        ("wrong_key", "one"),
        ("unknown_tool", "one"),
        ("cycle", "one"),
        ("unknown_reference", "two"),
        ("unknown_argument", "two"),
        ("no_compensation", "three/inner"),
        ("retry_unused", "three/inner"),
    ]
