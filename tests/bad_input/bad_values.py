"""What only a run can tell: values that do not fit what the plan does with them, and paths that lead away."""

from typing import Any, NamedTuple

from bad_case import step


class Value(NamedTuple):
    """A value for the input `v` of a plan with one step, which fails and calls nothing."""

    name: str
    value: Any
    step: dict[str, Any]
    code: str
    says: str
    category: str = "invalid_input"
    limits: dict[str, Any] = {}


def _x(text, tool="anything", key="x"):
    return step("a", tool, args={key: text})


_WHEN = "a"

CASES = [
    Value("key that is not there", {"kex": 1}, _x("${inputs.v.key}"), "expr_missing_key", "'key'"),
    Value("key of a list", [1], _x("${inputs.v.key}"), "expr_type", "[0]"),
    Value("key of null", None, _x("${inputs.v.key}"), "expr_null", "present(inputs.v)"),
    Value("key of a text", "x", _x("see ${inputs.v.key}"), "expr_type", "inputs.v"),
    Value("dunder made of parts", {}, _x("${inputs.v['__cl' + 'ass__']}"), "expr_missing_key", "__class__"),
    Value("place that is not there", [], _x("${inputs.v[3]}"), "expr_index", "places count from 0"),
    Value("division by what is zero", 0, _x("${1 / inputs.v}"), "expr_zero_division", "b != 0"),
    Value("more than 64 bits", 2**63, _x("${inputs.v * 10}"), "expr_overflow", "64 bits"),
    Value("more than a number can be", 1e308, _x("${inputs.v * 10}"), "expr_overflow", "64 bits"),
    Value("text that is no number", "4.2", _x("${int(inputs.v)}"), "expr_conversion", "int(float(x))"),
    Value("least of nothing", [], _x("${min(inputs.v)}"), "expr_empty_list", "len(x) > 0"),
    Value("a list twice as long as allowed", list(range(600_000)), _x("${inputs.v + inputs.v}"),
        "expr_too_big",
          "a step compute"),
    Value("a text too long", "x" * 600_000, _x("${inputs.v + inputs.v}"), "expr_too_big", "a step compute"),
    Value("text for a condition", "yes", step(when="inputs.v"), "expr_not_boolean", "len(inputs.v) > 0"),
    Value("number for the condition", 1, step(when="inputs.v"), "expr_not_boolean", "inputs.v != 0"),
    Value("text against the number", "x", step(when="inputs.v > 3"), "expr_type", "like with like"),
    Value("null against a number", None, step(when="inputs.v > 3"), "expr_type", "present"),
    Value("search in a number", 3, step(when="'x' in inputs.v"), "expr_type", "item in list"),
    Value("items of a text", "abc", step(foreach="${inputs.v}"), "foreach", "list"),
    Value("items of a map", {}, step(foreach="${inputs.v}"), "foreach", "list"),
    Value("items of null", None, step(foreach="${inputs.v}"), "foreach", "list"),
    Value("more items than allowed", [0] * 11, step(foreach="${inputs.v}"), "foreach", "expansions",
          limits={"expansions": 10}),
    Value("sleep for a word", "long", _x("${inputs.v}", "sleep", "seconds"), "sleep", "number from 0"),
    Value("sleep for less than nothing", -1, _x("${inputs.v}", "sleep", "seconds"), "sleep", "number from 0"),
    Value("sleep for ages", 1e300, _x("${inputs.v}", "sleep", "seconds"), "sleep", "within a year"),
    Value("text for the tool's number", "3", _x("${inputs.v}", "double"), "tool_error",
        "expected int, got str"),
    Value("null for the tool's number", None, _x("${inputs.v}", "double"), "tool_error", "'x'"),
    Value("list for the tool's number", [1], _x("${inputs.v}", "double"), "tool_error", "$.x"),
    Value("too large for the tool", 11, _x("${inputs.v}", "shapes", "number"), "tool_error", "<= 10"),
    Value("choice the tool has not", "fats", _x("${inputs.v}", "shapes", "mode"), "tool_error", "'slow'"),
    Value("key the tool does not know", {"lat": 1, "lom": 1}, _x("${inputs.v}", "shapes", "point"),
        "tool_error",
          "lom"),
    Value("arguments over the limit", "y" * 100, _x("${inputs.v}"), "args_bytes", "pass its path", "limit",
          {"args_bytes": 50}),
]  # fmt: skip

DATA = [
    "${inputs.other}", "${secret.KEY}", "$${x}", "{{ 7 * 7 }}", "{0.__class__}", "%(x)s", "$(id)", "`id`",
    "<script>alert(1)</script>", "'; drop table runs; --", "__proto__", "../../etc/passwd", "\u202egnp.exe",
]  # fmt: skip
"""Texts that other systems have taken for code. Here what comes from outside stays what it is."""

PATHS = [
    ("../secret.txt", "permission", "upward"),
    ("a/../../secret.txt", "permission", "upward"),
    ("/etc/passwd", "permission", "absolute"),
    ("C:/secret.txt", "permission", "absolute"),
    ("~/secret.txt", "permission", "home"),
    ("..\\secret.txt", "invalid_input", "backslash"),
    ("a\0b", "invalid_input", "control"),
    ("a\nb", "invalid_input", "control"),
    ("", "invalid_input", "empty"),
    ("CON", "invalid_input", "device"),
    ("a/nul.txt", "invalid_input", "device"),
    ("a" * 256, "invalid_input", "255"),
    ("a" * 1_000_000, "invalid_input", "4096"),
    ("link/secret.txt", "permission", "link"),
    ("linked.txt", "permission", "link"),
    ("pipe", "permission", "pipe"),
]

LATER = [
    ("role", {"role": "clerk", "tool": None}, "steps[0].role"),
    ("goal", {"goal": "win", "tool": None}, "steps[0].goal"),
    ("use", {"use": "other", "tool": None}, "steps[0].use"),
    ("speculate", {"speculate": True}, "steps[0].speculate"),
    ("secret", {"args": {"x": "${secret.KEY}"}}, "steps[0].args.x"),
]
"""What parses and is checked, and no engine acts on yet."""

SKIPPED = [
    step(when="inputs.no"),
    {"id": "a", "steps": [step("b", when="inputs.no"), step("c", args={"x": "${b}"})]},
    {"id": "a", "steps": [step("b"), step("c")], "when": "inputs.no"},
    step(when="false"),
]
"""Steps of which a run skips everything."""
