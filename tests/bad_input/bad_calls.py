"""Bad arguments of the library itself: files, inputs, run ids, tools, limits. Each call is refused."""

import asyncio
import math
from pathlib import Path
from typing import Any, NamedTuple

import bad_tools
from bad_case import plan, step

import kedge
from kedge.control.retention import Retention
from kedge.tools.builtin.rooted import Rooted
from kedge.tools.load import load_tools


class Refused(NamedTuple):
    """A call with a fault in what it is given, made in an empty folder."""

    name: str
    call: Any
    code: str
    says: str
    """A word that the error must have, best in its remedy."""
    where: str = ""
    kind: type[kedge.KedgeError] = kedge.BadInput


def _load(text):
    def load(folder: Path):
        (folder / "plan.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return kedge.load(folder / "plan.yaml")

    return load


def _loop(folder: Path):
    (folder / "plan.yaml").symlink_to("plan.yaml")
    return kedge.load(folder / "plan.yaml")


def _misspelt(folder: Path):
    (folder / "plan.yaml").touch()
    return kedge.load(folder / "plam.yaml")


def _tools_file(text):
    def load(folder: Path):
        (folder / "tools.py").write_text(text)
        return load_tools(str(folder / "tools.py"))

    return load


FILES = [
    Refused("misspelt file", _misspelt, "file_missing", "plan.yaml", "plam.yaml", kedge.NotFound),
    Refused("folder", kedge.load, "file_is_folder", "name the plan's file"),
    Refused("NUL in a path", lambda _: kedge.load("a\0b"), "file_unreadable", "check the path", "a\0b"),
    Refused("path of a megabyte", lambda _: kedge.load("a" * 1_000_000), "file_unreadable", "check the path"),
    Refused("link to itself", _loop, "file_unreadable", "check the path", "plan.yaml"),
    Refused("file without end", lambda _: kedge.load("/dev/zero"), "document_too_big", "files of their own",
            "/dev/zero"),
    Refused("empty file", _load(""), "empty_document", "`goal`", "plan.yaml: line 1"),
    Refused("picture for a plan", _load(b"\x89PNG\r\n\x1a\n\0"), "not_utf8", "UTF-8", "plan.yaml: line 1"),
    Refused("cut file", _load('{"goal": "g",'), "json_truncated", "whole document", "line 1, column 14"),
    Refused("faulty file", _load("goal: g\nsteps: [{id: A, tool: t}]"), "bad_id", "'a'",
        "plan.yaml: steps[0].id"),
    Refused("no tools in a folder", lambda folder: load_tools(str(folder / "no.py")), "no_tools_file",
        "path/tools.py",
            "no.py"),
    Refused("no such module of tools", lambda _: load_tools("no_such_module_xyz"), "no_tools_module",
        "pkg.tools",
            "no_such"),
    Refused("no reference at all", lambda _: load_tools("a b; c"), "tools_reference", "give a module"),
    Refused("tools file that is not Python", _tools_file("def ("), "tools_import", "mend that line",
        "tools.py"),
    Refused("tools file that fails", _tools_file("1 / 0"), "tools_import", "mend that line", "tools.py"),
    Refused("tools file without tools", _tools_file("x = 1"), "no_tools", "@kedge.tool", "tools.py"),
    Refused("no root", lambda _: Rooted([]), "root", "at least one"),
    Refused("root that is not there", lambda folder: Rooted([folder / "no"]), "root", "create it"),
]  # fmt: skip


def _tool(name="t", **settings):
    async def act(x: int = 0) -> int:
        return x

    return lambda _: kedge.tool(name=name, **settings)(act)


def _star(*x): ...


def _generator():
    yield 1


async def _events(level: Any):
    async with kedge.Engine(tools=bad_tools.TOOLS) as engine:
        run = await engine.start(_PLAN)
        return [event async for event in run.events(level=level)]


_PLAN: Any = kedge.Plan.parse(plan(step()))
_kedge: Any = kedge
"""What is wrong here on purpose would not pass a type checker."""

CALLS = [
    Refused("tool name that is a path", _tool("../x"), "tool_name", "letters"),
    Refused("tool name of a megabyte", _tool("x" * 1_000_000), "tool_name", "128"),
    Refused("effect that there is not", _tool(effect="none"), "tool_setting", "idempotent"),
    Refused("timeout of nothing", _tool(timeout_s=0), "tool_setting", "above 0"),
    Refused("retry of NaN", _tool(retry=kedge.Retry(backoff_s=math.nan)), "tool_setting", "backoff_s=1"),
    Refused("number for a retry", _tool(retry=3), "tool_setting", "kedge.Retry(attempts=3)"),
    Refused("text for a list of resources", _tool(resources="gpu"), "tool_setting", "list of names"),
    Refused("process tool nobody can find", _tool(isolation="process"), "tool_isolation", "top level"),
    Refused("arguments without names", lambda _: kedge.tool(_star), "tool_signature", "one parameter"),
    Refused("generator for a tool", lambda _: kedge.tool(_generator), "tool_signature", "list"),
    Refused("number for a tool", lambda _: _kedge.check(_PLAN, tools=[3]), "not_a_tool", "give a function"),
    Refused(
        "two tools of one name", lambda _: kedge.check(_PLAN, tools=[_tool()(0), _tool()(0)]),
        "duplicate_tool", "another name", "t",
    ),
    Refused("one tool for a list", lambda _: _kedge.check(_PLAN, tools=_tool()(0)), "not_a_tool", "[my_tool]",
        "tools"),
    Refused("a name for a list of tools", lambda _: _kedge.Engine(tools="send"), "not_a_tool", "[my_tool]",
        "tools"),
    Refused("resource of which there is none", lambda _: _kedge.Engine(resources={"gpu": 0}), "setting_value",
        "1 at least", "resources"),
    Refused("a word for a list of statuses", lambda _: _kedge.Retention(statuses="done"), "status", "list"),
    Refused("data for a path", lambda _: _kedge.load({"goal": "g"}), "bad_input", "Plan.parse"),
    Refused("strictness of none", lambda _: _kedge.check(_PLAN, strictness="lax"), "strictness", "lenient"),
    Refused("limit of zero", lambda _: kedge.Limits(parallel=0), "limit_value", "above 0", "parallel"),
    Refused("limit of half a place", lambda _: _kedge.Limits(parallel=0.5), "limit_value", "whole number",
        "parallel"),
    Refused("limit without end", lambda _: _kedge.Limits(calls=math.inf), "limit_value", "whole number",
        "calls"),
    Refused("limit of no number", lambda _: kedge.Limits(run_s=math.nan), "limit_value", "above 0", "run_s"),
    Refused("limits as a map", lambda _: _kedge.Engine(limits={"parallel": 2}), "limit_value", "kedge.Limits",
        "limits"),
    Refused("level of nowhere", lambda _: asyncio.run(_events("steps")), "level", "group"),
    Refused("form of nowhere", lambda _: _PLAN.dump("xml"), "form", "yaml"),
    Refused("a picture of a word", lambda _: _kedge.draw(_PLAN, "svg"), "bad_input", "form="),
    Refused("picture of nowhere", lambda _: _kedge.draw(_PLAN, form="gif"), "form", "mermaid"),
    Refused(
        "mending of another document", lambda _: kedge.apply_fix({}, _FIX), "fix", "that was checked",
        "steps[0].tool",
    ),
    Refused("nothing to forget", lambda _: Retention(), "retention", "an age"),
    Refused("a word for a number to keep", lambda _: _kedge.Retention(keep="x"), "retention", "number", "keep"),
    Refused("a half run to keep", lambda _: _kedge.Retention(keep=0.5), "retention", "number", "keep"),
    Refused("no age", lambda _: _kedge.Retention(older_than_s=True), "retention", "number", "older_than_s"),
    Refused("status of nowhere", lambda _: Retention(statuses=("gone",)), "status", "failed"),
    Refused("data for a plan", lambda _: _kedge.run_sync({"goal": "g"}), "bad_input", "kedge.load"),
]  # fmt: skip

_FIX: Any = next(iter(kedge.check(plan(step(tool="doubel")), tools=[bad_tools.double]))).fix


class Start(NamedTuple):
    """A plan that is right, started with what is not."""

    name: str
    inputs: Any
    code: str
    says: str
    where: str = "inputs"


DECLARED = {
    "text": {"type": "string", "default": ""},
    "whole": {"type": "integer", "default": 0},
    "number": {"type": "number", "default": 0},
    "flag": {"type": "boolean", "default": False},
    "items": {"type": "array", "default": []},
    "map": {"type": "object", "default": {}},
    "free": {"default": None},
    "must": {"type": "string"},
}


def _input(name, what, value, says):
    return Start(name, {"must": "x", what: value}, "inputs", says)


def _free(name, value, where, says):
    return Start(name, {"must": "x", "free": value}, "not_serializable", says, where)


_KNOT: list = []
_KNOT.append(_KNOT)

INPUTS = [
    Start("input left out", {}, "inputs", "missing: must"),
    Start("input nobody declared", {"must": "x", "mast": 1}, "inputs", "unknown: mast"),
    Start("two faults at once", {"whole": "x"}, "inputs", "whole: needs integer, got str 'x'; missing: must"),
    Start("list for the inputs", ["x"], "inputs", "give a map"),
    _input("number for the text", "text", 3, "text: needs string"),
    _input("null for the text", "text", None, "text: needs string"),
    _input("text for the whole number", "whole", "3", "whole: needs integer"),
    _input("fraction for the whole number of the inputs", "whole", 1.5, "whole: needs integer"),
    _input("true for the whole number", "whole", True, "got a boolean"),
    _input("text for the number", "number", "1e3", "number: needs number"),
    _input("one for true", "flag", 1, "flag: needs boolean"),
    _input("text for the items", "items", "a,b", "items: needs array"),
    _input("map for the items", "items", {}, "items: needs array"),
    _input("list for the map", "map", [], "map: needs object"),
    _free("NaN for an input", math.nan, "inputs.free", "finite"),
    _free("bytes deep in an input", {"a": [b"x"]}, "inputs.free.a[0]", "decode"),
    _free("set for an input", {1}, "inputs.free", "sorted"),
    _free("an input that contains itself", _KNOT, "inputs.free[0]", "tree"),
    _free("65 bits for an input", [2**64], "inputs.free[0]", "text"),
    _free("half a surrogate pair for an input", "\ud800", "inputs.free", "decode"),
    _free("key that is no text", {1: 2}, "inputs.free[1]", "str(key)"),
    _free("code for an input", print, "inputs.free", "numbers, text"),
]  # fmt: skip

RUN_IDS = [
    "", " ", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:", "c:x", "a\0b", "a\n", "a b", "A", "é",
        "\u0430",
    "a\u200b", "con", "nul", "com1", "lpt9", "-a", "_a", "a.b", "$.x", "%2e%2e", "x' or '1'='1", "a;--", "*",
    "x" * 65, "x" * 1_000_000, "\ud800", 7, b"x", ["x"],
]  # fmt: skip
