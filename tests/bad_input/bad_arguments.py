"""Tools that are not there, and arguments that do not fit the ones that are."""

from bad_case import LS, Bad, args, group, plan, step


def _shape(name, argument, value, says, allowed="", where="", code="wrong_argument"):
    place = f"steps[0].args.{argument}{where}"
    return Bad(name, plan(args("shapes", **{argument: value})), code, place, says, "a", allowed)


CASES = [
    # tools
    Bad("misspelt tool", plan(LS | {"tool": "lsting"}), "unknown_tool", "steps[0].tool", "'listing'", "ls",
        "listing"),
    Bad("tool of nowhere", plan(step(tool="zzz")), "unknown_tool", "steps[0].tool", "register it", "a", "double"),
    Bad("tool with a path for a name", plan(step(tool="../../bin/sh")), "unknown_tool", "steps[0].tool",
        "register it", "a", "double"),
    Bad("unknown compensation", plan(step(compensate={"tool": "unsnd", "args": {"id": "x"}})), "unknown_tool",
        "steps[0].compensate.tool", "'unsend'", "a", "unsend"),
    Bad("tool that cannot be used now", plan(args("fax", to="x")), "unavailable_tool", "steps[0].tool", "'send'",
        "a", "send"),
    Bad("nothing undoes it", plan(args("send", to="x")), "no_compensation", "steps[0]", "compensate", "a",
        severity="warning"),
    # arguments
    Bad("missing argument", plan(step(tool="double")), "missing_argument", "steps[0].args.x", "'x'", "a"),
    Bad("misspelt argument", plan(args("listing", path="x", patern="y")), "unknown_argument",
        "steps[0].args.patern", "'pattern'", "a", "pattern"),
    Bad("argument too many", plan(args("double", x=1, zzz=2)), "unknown_argument", "steps[0].args.zzz",
        "remove it", "a", "x"),
    Bad("text for a number", plan(args("double", x="3")), "wrong_argument", "steps[0].args.x", "write 3", "a"),
    Bad("words for a number", plan(args("double", x="many")), "wrong_argument", "steps[0].args.x",
        "a whole number", "a"),
    Bad("number for a text", plan(args("read", path=3)), "wrong_argument", "steps[0].args.path", "'3'", "a"),
    Bad("fraction for a whole number", plan(args("double", x=1.5)), "wrong_argument", "steps[0].args.x",
        "a whole number", "a"),
    Bad("true for a number", plan(args("double", x=True)), "wrong_argument", "steps[0].args.x", "a whole number",
        "a"),
    Bad("null for a number", plan(args("double", x=None)), "wrong_argument", "steps[0].args.x", "a whole number",
        "a"),
    _shape("over the maximum", "number", 11, "at most 10"),
    _shape("under the minimum", "number", -1, "at least 0"),
    _shape("misspelt choice", "mode", "fats", "'fast'", "'slow'"),
    _shape("no choice", "mode", "x", "allowed values", "'fast'"),
    _shape("text for a list", "names", "a", "a list"),
    _shape("wrong item", "names", ["a", 2], "'2'", where="[1]"),
    _shape("too few items", "names", [], "at least 1"),
    _shape("too many items in a list", "names", list("abcd"), "at most 3"),
    _shape("key missing inside", "point", {"lon": 1}, "'lat'", where=".lat", code="missing_argument"),
    _shape("key misspelt inside", "point", {"lat": 1, "lom": 1}, "'lon'", "lon", ".lom", "unknown_argument"),
    _shape("text for number or null", "maybe", "3", "write 3"),
    _shape("list for one of two", "several", [1], "one of them", "text"),
    _shape("boolean in words", "flag", "True", "true"),
    _shape("text of another form", "code", "A1", "of that form"),
    _shape("text too long", "short", "abcd", "at most 3"),
    Bad("pattern that could hang", plan(args("shapes", slow="a" * 40 + "!")), "pattern_unchecked",
        "steps[0].args.slow", "the tool itself", "a", severity="note"),
    Bad("compensation without its argument", plan(step(compensate={"tool": "unsend"})), "missing_argument",
        "steps[0].compensate.args.id", "'id'", "a"),
    Bad("arguments of a composite", plan(group("a", step("b"), args={"x": 1})), "unused_arguments",
        "steps[0].args", "remove them", "a", severity="warning"),
    # references of the wrong type
    Bad("list for a number", plan(LS, args("double", x="${ls.files}")), "reference_type", "steps[1].args.x",
        "the part that fits", "a"),
    Bad("map for a text", plan(LS, args("read", path="${ls}")), "reference_type", "steps[1].args.path",
        "the part that fits", "a"),
    Bad("text around a number", plan(LS, args("double", x="n ${ls.files[0].size}")), "reference_type",
        "steps[1].args.x", "another step", "a"),
    Bad("input of another type", plan(args("double", x="${inputs.n}"), inputs={"n": {"type": "string"}}),
        "reference_type", "steps[0].args.x", "the part that fits", "a"),
    Bad("item of another type", plan(step(tool="double", foreach=["x"], args={"x": "${item}"})), "reference_type",
        "steps[0].args.x", "the part that fits", "a"),
    Bad("many for one", plan(step("m", "double", foreach=[1, 2], args={"x": "${item}"}),
        args("double", x="${m}")), "reference_type", "steps[1].args.x", "the part that fits", "a"),
    # sleep
    Bad("sleep without end", plan(step(tool="sleep")), "missing_argument", "steps[0].args.seconds", "'seconds'",
        "a"),
    Bad("sleep backwards", plan(args("sleep", seconds=-1)), "wrong_argument", "steps[0].args.seconds",
        "at least 0", "a"),
    # retries
    Bad("retry of an effect", plan(step(tool="send", args={"to": "x"}, retry={"attempts": 2},
        compensate={"tool": "unsend", "args": {"id": "${result.id}"}})), "retry_unused", "steps[0].retry",
        "idempotent", "a", severity="warning"),
    Bad("retry that repeats effects", plan(group("a", step("b", "unsend", args={"id": "x"}),
        retry={"attempts": 2})), "retry_repeats_effects", "steps[0].retry", "steps inside", "a"),
    Bad("retry of a bug", plan(step(retry={"attempts": 2, "on": ["bug"]})), "retry_category",
        "steps[0].retry.on[0]", "remove it", "a", "timeout", "warning"),
    Bad("retry that waits backwards", plan(step(retry={"attempts": 2, "backoff_s": 9, "max_backoff_s": 3})),
        "retry_backoff", "steps[0].retry.backoff_s", "lower backoff_s", "a"),
    # inputs as the plan declares them
    Bad("default of another type", plan(args(x="${inputs.n}"), inputs={"n": {"type": "integer", "default": "3"}}),
        "input_default", "inputs.n.default", "a whole number"),
    Bad("input that nothing reads", plan(step(), inputs={"n": {}}), "unused_input", "inputs.n", "${inputs.n}",
        severity="note"),
]  # fmt: skip
