"""Plans of the wrong shape: fields, types, ranges, ids, order, fallbacks, limits."""

from bad_case import LS, Bad, args, group, plan, step

_RING = [step(f"s{n}", args={"x": f"${{s{(n + 1) % 50}}}"}) for n in range(50)]
_NEST = step("deep")
for _n in range(29, -1, -1):
    _NEST = group(f"g{_n}", _NEST)


def _id(name, bad, says, code="bad_id"):
    shown = bad if len(bad) <= 80 else "0"
    return Bad(name, plan(step(bad)), code, "steps[0].id", says, shown)


CASES = [
    # fields
    Bad("no goal", {"steps": [step()]}, "missing_field", "goal", "`goal`"),
    Bad("no steps", {"goal": "g"}, "missing_field", "steps", "`steps`"),
    Bad("no id", plan({"tool": "anything"}), "missing_field", "steps[0].id", "anything_0", "0"),
    Bad("loop without end", plan(step(loop={})), "missing_field", "steps[0].loop.times", "times", "a"),
    Bad("field of another system", plan(LS, step(depends_on=["ls"])), "unknown_field", "steps[1].depends_on",
        "'after'", "a", "after"),
    Bad("misspelt field", plan({"id": "a", "tol": "anything"}), "unknown_field", "steps[0].tol", "'tool'", "a",
        "tool"),
    Bad("field of nowhere", plan(step(zzz=1)), "unknown_field", "steps[0].zzz", "metadata", "a", "when"),
    Bad("field with a strange name", plan(step(), **{"__proto__ x": 1}), "unknown_field",
        '["__proto__ x"]', "metadata", "", "goal"),
    Bad("field of a retry", plan(step(retry={"max_attempts": 2})), "unknown_field",
        "steps[0].retry.max_attempts", "'attempts'", "a", "attempts"),
    Bad("nobody does it", plan({"id": "a"}), "no_doer", "steps[0]", "`tool`", "a", "tool"),
    Bad("two do it", plan(step(role="clerk")), "two_doers", "steps[0]", "keep one", "a"),
    # types and ranges
    Bad("number for text", plan(step(do=5)), "wrong_type", "steps[0].do", '"5"', "a"),
    Bad("text for number", plan(step(timeout_s="30")), "wrong_type", "steps[0].timeout_s", "30", "a"),
    Bad("words for number", plan(step(timeout_s="soon")), "wrong_type", "steps[0].timeout_s", "a number", "a"),
    Bad("text for list", plan(LS, step(after="ls")), "wrong_type", "steps[1].after", '["ls"]', "a"),
    Bad("list for map", plan(step(args=[1])), "wrong_type", "steps[0].args", "a map", "a"),
    Bad("null where nothing can be null", plan(step(do=None)), "wrong_type", "steps[0].do", "leave it out", "a"),
    Bad("steps as a map", {"goal": "g", "steps": {"a": {"tool": "anything"}}}, "wrong_type", "steps", '"id"'),
    Bad("a step that is a word", plan("go"), "wrong_type", "steps[0]", "a map with id", "0"),
    Bad("true for a condition", plan(step(when=True)), "wrong_type", "steps[0].when", '"true"', "a"),
    Bad("number for retry", plan(step(retry=3)), "wrong_type", "steps[0].retry", "attempts", "a"),
    Bad("text for an input", plan(step(), inputs={"x": "string"}), "wrong_type", "inputs.x", '"type"'),
    Bad("an id that is a number", plan(step(7)), "wrong_type", "steps[0].id", '"7"', "0"),
    Bad("misspelt join", plan(step(join="al")), "bad_value", "steps[0].join", "'all'", "a", "settled"),
    Bad("unknown reaction", plan(step(on_error="explode")), "bad_value", "steps[0].on_error", "allowed values",
        "a", "continue"),
    Bad("unknown type of an input", plan(step(), inputs={"x": {"type": "strng"}}), "bad_value",
        "inputs.x.type", "'string'", "", "integer"),
    Bad("no time at all", plan(step(timeout_s=0)), "out_of_range", "steps[0].timeout_s", "more than 0", "a"),
    Bad("a timeout of ages", plan(step(timeout_s=1e300)), "out_of_range", "steps[0].timeout_s", "or less", "a"),
    Bad("no attempts", plan(step(retry={"attempts": 0})), "out_of_range", "steps[0].retry.attempts", "1 or more",
        "a"),
    Bad("complexity of nine", plan(step(complexity=9)), "out_of_range", "steps[0].complexity", "5 or less", "a"),
    # ids
    _id("empty id", "", "'step'"),
    _id("blank in an id", "read files", "read_files"),
    _id("capital in an id", "Read", "'read'"),
    _id("digit first", "1st", "step_1st"),
    _id("prototype", "__proto__", "'proto'"),
    _id("composed letter", "caf\u00e9", "'cafe'"),
    _id("decomposed letter", "cafe\u0301", "'cafe'"),
    _id("zero-width letter", "a\u200bb", "'ab'"),
    _id("homoglyph", "\u0430", "a-z"),
    _id("right to left", "a\u202eb", "'ab'"),
    _id("newline", "a\n", "'a'"),
    _id("NUL", "a\0b", "a_b"),
    _id("upward", "../../etc/passwd", "etc_passwd"),
    _id("drive", "C:\\x", "c_x"),
    _id("query", "a'; drop table runs; --", "drop_table"),
    _id("65 characters", "x" * 65, "1 to 64"),
    _id("id of a megabyte", "x" * 1_000_000, "1 to 64"),
    *[_id(f"id {word}", word, f"{word}_step", "reserved_id")
      for word in ("goal", "inputs", "result", "item", "true", "and", "len", "lambda")],
    Bad("one id twice", plan(step(), step()), "duplicate_id", "steps[1].id", "a_2", "a"),
    Bad("one id twice inside", plan(group("o", step(), step())), "duplicate_id", "steps[0].steps[1].id", "a_2",
        "o/a"),
    # order
    Bad("waits for itself", plan(args(x="${a}")), "cycle", "steps[0]", "another step", "a"),
    Bad("comes after itself", plan(step(after=["a"])), "cycle", "steps[0]", "another step", "a"),
    Bad("two wait for each other", plan(step("b", args={"x": "${a}"}), args(x="${b}")), "cycle", "steps[0]",
        "remove one", "b"),
    Bad("a ring of fifty", plan(*_RING), "cycle", "steps[0]", "remove one", "s0"),
    Bad("child reads its composite", plan(group("o", step("b", args={"x": "${o}"}))), "cycle", "steps[0]",
        "inside of", "o"),
    Bad("until waits for itself", plan(step(loop={"times": 2, "until": "a.ok"})), "cycle", "steps[0]",
        "loop.previous", "a"),
    Bad("fallbacks of each other", plan(step("m", fallback_for="n"), step("n", fallback_for="m")), "cycle",
        "steps[0]", "remove one", "m"),
    Bad("after nothing", plan(LS, step(after=["lss"])), "unknown_after", "steps[1].after[0]", "'ls'", "a", "ls"),
    Bad("never", plan(step(when="1 > 2"), step("z")), "unreachable", "steps[0].when", "remove the step", "a",
        severity="warning"),
    Bad("no items", plan(step(foreach=[]), step("z")), "unreachable", "steps[0].foreach", "remove the step", "a",
        severity="warning"),
    # fallbacks
    Bad("fallback of nothing", plan(LS, step("f", fallback_for="lss")), "fallback_of_nothing",
        "steps[1].fallback_for", "'ls'", "f", "ls"),
    Bad("fallback of another scope", plan(LS, group("o", step("f", fallback_for="ls"))), "fallback_of_nothing",
        "steps[1].steps[0].fallback_for", "beside", "o/f"),
    Bad("fallback of itself", plan(LS, step("f", fallback_for="f")), "fallback_of_itself",
        "steps[1].fallback_for", "remove it", "f", "ls"),
    Bad("two fallbacks", plan(LS, step("f", fallback_for="ls"), step("h", fallback_for="ls")), "two_fallbacks",
        "steps[2].fallback_for", "'f'", "h"),
    Bad("fallback after its target", plan(LS, step("f", fallback_for="ls", after=["ls"])), "after_target",
        "steps[1].after[0]", "remove it", "f"),
    Bad("fallback of a sleep", plan(step("w", "sleep", args={"seconds": 1}), step("f", fallback_for="w")),
        "unneeded_fallback", "steps[1].fallback_for", "remove", "f", severity="note"),
    # limits and emptiness
    Bad("empty plan", plan(), "empty_plan", "steps", "add a step"),
    Bad("empty composite", plan(group("o")), "empty_composite", "steps[0].steps", "add steps", "o"),
    Bad("blank goal", {"goal": " ", "steps": [step()]}, "blank_goal", "goal", "what the plan is for",
        severity="warning"),
    Bad("too many for its own limit", plan(step("b"), step("c"), limits={"steps": 1}), "too_many_steps", "steps",
        "foreach"),
    Bad("too long a chain", plan(step("b"), step("c", after=["b"]), limits={"chain": 1}), "chain_too_long",
        "steps[1]", "side by side", "c"),
    Bad("too deep a nest", plan(_NEST), "nesting_too_deep", "steps[0]" + ".steps[0]" * 8 + ".steps", "flatten",
        "/".join(f"g{n}" for n in range(9))),
    Bad("too many rounds", plan(step(loop={"times": 10**6})), "too_many_rounds", "steps[0].loop.times",
        "iterations", "a"),
    Bad("too many items", plan(step(foreach=[0] * 11), limits={"expansions": 10}), "too_many_items",
        "steps[0].foreach", "split", "a"),
    Bad("unknown limit", plan(step(), limits={"paralel": 2}), "unknown_limit", "limits.paralel", "'parallel'",
        "", "parallel"),
    Bad("limit of nothing", plan(step(), limits={"steps": 0}), "limit_value", "limits.steps", "remove it"),
    Bad("loosened limit", plan(step(), limits={"steps": 1e9}), "limit_loosened", "limits.steps", "lower it"),
    Bad("heavy metadata", plan(step(metadata={"x": "y" * 70_000})), "metadata_too_big", "steps[0].metadata",
        "reference", "a"),
    Bad("resource that is a path", plan(step(resources=["../gpu"])), "resource_name", "steps[0].resources[0]",
        "letters", "a"),
    Bad("idle longer than all", plan(step(timeout_s=1, idle_timeout_s=2)), "idle_timeout_unused",
        "steps[0].idle_timeout_s", "shorter", "a", severity="warning"),
    Bad("no schema of an output", plan(step(output={"type": "strng"})), "output_schema", "steps[0].output.type",
        "'string'", "a", "string"),
]  # fmt: skip

SEVERAL = {
    "broken text": (
        "goal: &g go\ncontext: {x: .nan, 7: y}\nsteps: *g\ngoal: again\n",
        [
            ("yaml_anchor", "line 1, column 7"), ("number", "line 2, column 14"),
            ("key_not_text", "line 2, column 20"), ("yaml_alias", "line 3, column 8"),
            ("duplicate_key", "line 4, column 1"),
        ],
    ),
    "broken shape": (
        plan(step("A"), step(tols=1), group("o", {"id": "x"}, step("y", retry={"attempts": 0})), step()),
        [
            ("bad_id", "steps[0].id"), ("unknown_field", "steps[1].tols"), ("no_doer", "steps[2].steps[0]"),
            ("out_of_range", "steps[2].steps[1].retry.attempts"), ("duplicate_id", "steps[3].id"),
        ],
    ),
    "broken sense": (
        plan(
            step("b", tool="zzz"),
            step("c", "double", args={"x": "many", "y": "${nobody}"}),
            step("d", args={"x": "${e}"}),
            step("e", args={"x": "${d}"}),
            group("o", step("f", when="1 +", after=["ghost"])),
            limits={"stepz": 1},
            outputs={"o": "ghost"},
        ),
        [
            ("unknown_limit", "limits.stepz"), ("unknown_reference", "outputs.o"),
            ("unknown_tool", "steps[0].tool"), ("unknown_reference", "steps[1].args.y"),
            ("wrong_argument", "steps[1].args.x"), ("unknown_argument", "steps[1].args.y"),
            ("cycle", "steps[2]"), ("expr_incomplete", "steps[4].steps[0].when"),
            ("unknown_after", "steps[4].steps[0].after[0]"),
        ],
    ),
}  # fmt: skip
