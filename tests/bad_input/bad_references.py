"""References that lead nowhere, conditions that cannot be, and expressions that are attacks or slips."""

from bad_case import LS, Bad, args, group, plan, step

_FALLBACK = step("f", fallback_for="ls")


def _when(name, text, code, character, says, allowed=""):
    """A condition of step `a`; the message names the character, counted from 1."""
    found = Bad(name, plan(LS, step(when=text)), code, "steps[1].when", says, "a", allowed)
    return found, character


_WITH_CHARACTER = [
    # the way to the interpreter
    _when("class of a tuple", "().__class__.__bases__[0]", "expr_syntax", 1, "null"),
    _when("class of a text", "''.__class__", "expr_dunder", 4, "own keys"),
    _when("class of a result", "ls.__class__ == 1", "expr_dunder", 4, "own keys"),
    _when("dunder in a subscript", "ls['__globals__']", "expr_dunder", 3, "own keys"),
    _when("builtins", "__builtins__", "expr_dunder", 1, "a-z"),
    _when("import", "__import__('os').system('id')", "expr_unknown_function", 1, "a step compute", "len"),
    _when("getattr", "getattr(ls, 'x')", "expr_unknown_function", 1, "a step compute", "present"),
    _when("format", "'{0.x}'.format(ls)", "expr_call", 8, "functions", "len"),
    _when("f-string", "f'{ls}' == 'x'", "expr_string_prefix", 1, "quotes"),
    _when("template engine", "{{ ls.files }}", "expr_template", 1, "alone"),
    _when("lambda", "(lambda: 1)()", "expr_reserved", 2, "name a value"),
    _when("comprehension", "[x for x in ls]", "expr_comprehension", 4, "foreach"),
    _when("walrus", "(ls := 1) > 0", "expr_assignment", 5, "=="),
    _when("homoglyph", "l\u0455.files", "expr_character", 2, "ASCII"),
    _when("right to left in a condition", "ls\u202e > 1", "expr_character", 3, "ASCII"),
    # what would take all day
    _when("tower of powers", "9**9**9 > 1", "expr_power", 2, "multiply"),
    _when("shift bomb", "1 << 10**9 > 0", "expr_operator", 3, "a step compute"),
    _when("50,000 signs", "-" * 50_000 + "1", "expr_too_long", 4097, "a step compute"),
    _when("100,000 brackets", "(" * 100_000, "expr_too_long", 4097, "a step compute"),
    _when("1,000 brackets", "(" * 1_000 + "1" + ")" * 1_000, "expr_too_deep", 32, "a step compute"),
    _when("1,000 parts", "+".join("1" * 1_000), "expr_too_many_parts", 999, "a step compute"),
    _when("4,000 digits", "9" * 4_000 + " > 1", "expr_number_too_big", 1, "smaller"),
    # slips of people and models
    _when("empty condition", " ", "expr_empty", 1, "leave it out"),
    _when("Python's None", "ls == None", "expr_python_literal", 7, "null"),
    _when("and of C", "ls.files && true", "expr_operator", 10, "and"),
    _when("assignment", "ls = 1", "expr_assignment", 4, "=="),
    _when("reference in a condition", "${ls.files} == 3", "expr_template", 1, "alone"),
    _when("chain of comparisons", "0 < len(ls.files) < 5", "expr_chained", 19, "two comparisons"),
    _when("quote never closed", "ls == 'x", "expr_unclosed_string", 7, "close it"),
    _when("bracket never closed", "(ls.files", "expr_unclosed", 1, ")"),
    _when("bracket that closes nothing", "ls)", "expr_unopened", 3, "remove it"),
    _when("ends early", "ls.files ==", "expr_incomplete", 12, "complete it"),
    _when("capital", "LS.files", "expr_name", 1, "id is written"),
    _when("method", "ls.files.upper()", "expr_call", 9, "upper("),
    _when("function of another language", "length(ls.files) > 0", "expr_unknown_function", 1, "len", "len"),
    _when("too many arguments", "len(ls, ls)", "expr_arguments", 1, "len("),
    _when("presence of a number", "present(1)", "expr_present", 1, "present(name)"),
    _when("if without else", "1 if ls", "expr_no_else", 8, "else null"),
    _when("tuple", "ls == (1, 2)", "expr_tuple", 9, "[a, b]"),
    _when("octal", "007 > 1", "expr_number", 1, "leading zero"),
    _when("escape", "ls == '\\x41'", "expr_escape", 8, "backslash", "\\n"),
    _when("slice with a step", "ls.files[1:2:3]", "expr_slice_step", 13, "[a:b]"),
    _when("map with one key twice", "ls == {'a': 1, 'a': 2}", "expr_duplicate_key", 16, "keep one"),
    _when("key that is no text", "ls == {1: 2}", "expr_map_key", 8, '"key"'),
    _when("number for a key", "ls.files.0 == 1", "expr_key", 10, "[0]"),
]

CHARACTERS = {case.name: character for case, character in _WITH_CHARACTER}
EXPRESSIONS = [case for case, _ in _WITH_CHARACTER]

CASES = [
    *EXPRESSIONS,
    # templates
    Bad("template never closed", plan(LS, args(x="see ${ls.files")), "template_unclosed", "steps[1].args.x", "$${",
        "a"),
    Bad("template of nothing", plan(args(x="${ }")), "template_empty", "steps[0].args.x", "name a value", "a"),
    Bad("attack in a template", plan(LS, args(x=["${ls.__class__}"])), "expr_dunder", "steps[1].args.x[0]",
        "own keys", "a"),
    Bad("broken output", plan(LS, outputs={"o": "${ls}"}), "expr_template", "outputs.o", "alone"),
    Bad("broken answer", plan(LS, answer="${ls +}"), "expr_incomplete", "answer", "complete it"),
    # names
    Bad("missing step", plan(LS, args(x="${lss.files}")), "unknown_reference", "steps[1].args.x", "'ls'", "a",
        "ls"),
    Bad("missing step far from all", plan(LS, args(x="${zzz}")), "unknown_reference", "steps[1].args.x",
        "name a step", "a", "ls"),
    Bad("missing step in a condition", plan(LS, step(when="len(lss.files) > 0")), "unknown_reference",
        "steps[1].when", "'ls'", "a", "ls"),
    Bad("missing step deep in arguments", plan(LS, args(x={"y": [{"z": "${lss}"}]})), "unknown_reference",
        "steps[1].args.x.y[0].z", "'ls'", "a", "ls"),
    Bad("step inside a composite", plan(group("o", step("inner")), args(x="${inner}")), "unknown_reference",
        "steps[1].args.x", "o.inner", "a", "o"),
    Bad("input without its word", plan(args(x="${folder}"), inputs={"folder": {}}), "unknown_reference",
        "steps[0].args.x", "inputs.folder", "a"),
    Bad("missing step in outputs", plan(LS, outputs={"o": "lss.files"}), "unknown_reference", "outputs.o",
        "'ls'", "", "ls"),
    Bad("missing step in the answer", plan(LS, answer="${lss}"), "unknown_reference", "answer", "'ls'", "", "ls"),
    Bad("ambiguous name", plan(step("x"), group("o", step("x"), step("y", args={"v": "${x}"}))),
        "shadowed_name", "steps[1].steps[1]", "another id", "o/y", severity="warning"),
    Bad("item without foreach", plan(args(x="${item}")), "misplaced_name", "steps[0].args.x", "foreach", "a"),
    Bad("loop without loop", plan(args(x="${loop.index}")), "misplaced_name", "steps[0].args.x", "`loop`", "a"),
    Bad("own result in arguments", plan(args(x="${result}")), "misplaced_name", "steps[0].args.x", "name the step",
        "a"),
    Bad("secret in a condition", plan(step(when="secret.KEY == 'x'")), "misplaced_name", "steps[0].when",
        "argument", "a"),
    Bad("secret in the outputs", plan(step(), outputs={"o": "secret.KEY"}), "misplaced_name", "outputs.o",
        "name a step"),
    Bad("all secrets", plan(args(x="${secret}")), "secret_form", "steps[0].args.x", "secret.NAME", "a"),
    Bad("results of nothing", plan(args(x="${results}")), "misplaced_name", "steps[0].args.x", "`after`", "a"),
    # keys
    Bad("missing key", plan(LS, args(x="${ls.files[0].pth}")), "unknown_key", "steps[1].args.x", "'path'", "a",
        "path"),
    Bad("missing child", plan(group("o", step("child")), args(x="${o.chld}")), "unknown_key", "steps[1].args.x",
        "'child'", "a", "child"),
    Bad("missing input", plan(args(x="${inputs.foldr}"), inputs={"folder": {}}), "unknown_input",
        "steps[0].args.x", "'folder'", "a", "folder"),
    Bad("missing key of the context", plan(args(x="${context.usr}"), context={"user": 1}), "doubtful_key",
        "steps[0].args.x", "'user'", "a", "user"),
    Bad("key of a number", plan(step("m", "double", args={"x": 1}), args(x="${m.value}")), "wrong_key",
        "steps[1].args.x", "a key that is there", "a"),
    Bad("key of a list", plan(LS, args(x="${ls.files.path}")), "wrong_key", "steps[1].args.x", "a key", "a"),
    # fallbacks
    Bad("reads a fallback", plan(LS, _FALLBACK, args(x="${f.x}")), "reads_fallback", "steps[2].args.x", "'ls'",
        "a"),
    Bad("output of a fallback", plan(LS, _FALLBACK, outputs={"o": "f"}), "reads_fallback", "outputs.o", "'ls'"),
    Bad("fallback reads what failed", plan(LS, step("f", fallback_for="ls", args={"x": "${ls}"})),
        "fallback_reads_target", "steps[1].args.x", "ls reads", "f"),
    # conditions
    Bad("text against number", plan(step(when="'x' > 3")), "condition_fails", "steps[0].when", "like with like", "a"),
    Bad("division by zero", plan(step(when="1 / 0 > 2")), "condition_fails", "steps[0].when", "0", "a"),
    Bad("a number for a condition", plan(step(when="3")), "not_a_condition", "steps[0].when", "count > 0", "a"),
    Bad("a list for a condition", plan(LS, step(when="ls.files")), "condition_types", "steps[1].when",
        "true or false", "a"),
    Bad("list against number", plan(LS, step(when="ls.files > 3")), "condition_types", "steps[1].when",
        "like with like", "a"),
    Bad("always true", plan(step(when="1 < 2")), "constant_condition", "steps[0].when", "remove it", "a",
        severity="note"),
    Bad("foreach of bare words", plan(LS, step(foreach="ls.files")), "foreach_not_a_list", "steps[1].foreach",
        "${ls.files}", "a"),
    Bad("foreach of a map", plan(LS, step(foreach="${ls}")), "foreach_not_a_list", "steps[1].foreach",
        "name a list", "a"),
]  # fmt: skip
