"""Texts that are no plan: YAML and JSON as people and models send them, bytes, and other things."""

from bad_case import Bad

_STEP = '{"id": "a", "tool": "anything"}'
_JSON = f'{{"goal": "g", "steps": [{_STEP}]}}'
_YAML = "goal: g\nsteps:\n- {id: a, tool: anything}\n"
_LAUGHS = "goal: g\na0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))

CASES = [
    # JSON
    Bad("trailing comma in a map", _JSON[:-1] + ",}", "json_trailing_comma", "line 1, column 57", "comma"),
    Bad("trailing comma in a list", _JSON[:-2] + ", ]}", "json_trailing_comma", "line 1, column 56", "comma"),
    Bad("cut off", _JSON[:30], "json_truncated", "line 1, column 31", "whole document"),
    Bad("cut off in a text", _JSON[:44], "json_truncated", "line 1, column 44", "whole document"),
    Bad("two plans", f"{_JSON}\n{_JSON}", "several_documents", "line 2, column 1", "one document"),
    Bad("prose before", f"Here is your plan:\n{_JSON}", "json_in_prose", "line 2, column 1", "JSON alone"),
    Bad("prose after", f"{_JSON}\nGood luck!", "json_in_prose", "line 2, column 1", "JSON alone"),
    Bad("in a fence", f"Sure!\n```json\n{_JSON}\n```\n", "fenced", "line 2, column 1", "without the fence"),
    Bad("YAML in a fence", f"```yaml\n{_YAML}```", "fenced", "line 1, column 1", "without the fence"),
    Bad("single quotes", _JSON.replace('"', "'"), "json_python", "line 1, column 2", "double quotes"),
    Bad("Python's True", '{"goal": "g", "steps": [], "metadata": {"x": True}}', "json_python",
        "line 1, column 46", "true, false, null"),
    Bad("comment in JSON", '{"goal": "g", // why\n"steps": []}', "json_comment", "line 1, column 15", "YAML"),
    Bad("keys without quotes", '{goal: "g"}', "json_syntax", "line 1, column 2", "double quotes"),
    Bad("NaN", '{"goal": "g", "context": {"x": NaN}, "steps": []}', "number", "line 1, column 32", "null"),
    Bad("Infinity", '{"goal": "g", "context": {"x": -Infinity}}', "number", "line 1, column 32",
        "smaller number"),
    Bad("too large a number", '{"goal": "g", "context": {"x": 1e999}}', "number", "line 1, column 32",
        "smaller"),
    Bad("5,000 digits", '{"goal": "g", "context": {"x": ' + "9" * 5000 + "}}", "number", "line 1, column 32",
        "text in quotes"),
    Bad("one key twice", f'{{"goal": "g", "steps": [{_STEP}],\n "goal": "h"}}', "duplicate_key",
        "line 2, column 2", "keep one"),
    Bad("one key twice, escaped", f'{{"goal": "g", "steps": [{_STEP}], "\\u0067oal": ""}}', "duplicate_key",
        "line 1, column 59", "keep one"),
    Bad("half a surrogate pair", '{"goal": "\\ud800", "steps": []}', "bad_character", "line 1",
        "both halves"),
    Bad("brackets 100,000 deep", '{"goal": ' + "[" * 100_000, "too_deep", "line 1, column 1", "flatten"),
    # YAML
    Bad("nothing", "", "empty_document", "line 1", "`goal` and `steps`"),
    Bad("only a comment", "# the plan\n", "empty_document", "line 1", "`goal` and `steps`"),
    Bad("two YAML documents", f"{_YAML}---\n{_YAML}", "several_documents", "line 4, column 1", "---"),
    Bad("anchor", "goal: &g go\nsteps: []", "yaml_anchor", "line 1, column 7", "write the part out"),
    Bad("billion laughs", _LAUGHS, "yaml_anchor", "line 2, column 5", "remove it"),
    Bad("alias", "goal: *g\nsteps: []", "yaml_alias", "line 1, column 7", "write that part out"),
    Bad("tag that makes an object", "goal: !!python/object/apply:os.system ['id']", "yaml_tag",
        "line 1, column 7", "remove it"),
    Bad("merge key", "goal: g\n<<: {steps: []}", "yaml_merge_key", "line 2, column 1", "write the keys out"),
    Bad("YAML key twice", f"{_YAML}goal: h", "duplicate_key", "line 4, column 1", "keep one"),
    Bad("key that is a number", "goal: g\n7: x\nsteps: []", "key_not_text", "line 2, column 1", "quotes"),
    Bad("tab", "goal: g\nsteps:\n\t- {id: a}", "yaml_tab", "line 3, column 1", "spaces"),
    Bad("colon in plain text", "goal: a: b\nsteps: []", "yaml_syntax", "line 1, column 8", "quotes"),
    Bad("list never closed", "goal: g\nsteps: [\n", "yaml_syntax", "line 3, column 1", "mend that line"),
    Bad("not a number of YAML", "goal: g\ncontext: {x: .nan}\nsteps: []", "number", "line 2, column 14",
        "quotes"),
    Bad("control character", "goal: \x07g\nsteps: []", "bad_character", "line 1", "escape"),
    Bad("YAML 100,000 deep", "goal: " + "[" * 100_000, "too_deep", "line 1, column 70", "depth"),
    # bytes and other things
    Bad("bytes that are no text", b'{"goal": "\xff\xfe"}', "not_utf8", "line 1", "UTF-8"),
    Bad("UTF-16", _JSON.encode("utf-16"), "not_utf8", "line 1", "UTF-16"),
    Bad("a word", "hello", "not_a_plan", "", "`goal:`"),
    Bad("a list", "[1, 2]", "not_a_plan", "", "`steps:`"),
    Bad("null", "null", "not_a_plan", "", "`goal:`"),
    Bad("a number for a plan", 7, "not_a_plan", "", "dict with `goal`"),
    Bad("nothing for a plan", None, "not_a_plan", "", "dict with `goal`"),
    Bad("bytes in data", {"goal": "g", "steps": [], "context": {"x": b"y"}}, "not_serializable", "context.x",
        "decode it"),
    Bad("a set in data", {"goal": "g", "steps": [], "context": {"x": [{1}]}}, "not_serializable",
        "context.x[0]", "sorted"),
    Bad("NaN in data", {"goal": "g", "steps": [], "context": {"x": float("nan")}}, "not_serializable",
        "context.x", "finite"),
    Bad("an integer of 65 bits", {"goal": "g", "steps": [], "context": {"x": 2**64}}, "not_serializable",
        "context.x", "text"),
]  # fmt: skip


def _itself():
    knot: dict = {"goal": "g", "steps": [], "context": {}}
    knot["context"]["again"] = knot["context"]
    return knot


CASES.append(Bad("data that contains itself", _itself(), "not_serializable", "context.again", "tree"))
