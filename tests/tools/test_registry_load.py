import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kedge.base.errors import BadInput
from kedge.tools.function import tool
from kedge.tools.load import load_tools
from kedge.tools.registry import Registry
from kedge.tools.source import ToolSource


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


GOOD = """
    from __future__ import annotations
    import dataclasses
    import helper_of_tools
    from kedge.tools.function import tool

    @dataclasses.dataclass
    class Point:
        x: int

    @tool(effect="pure")
    async def one(p: Point) -> int:
        return p.x + helper_of_tools.PLUS

    def plain(a: str): return a
    def left_out(a: str): return a
    TOOLS = [plain, one]
    """


def test_a_registry_finds_tools_by_name_and_wraps_plain_functions():
    def plain(a: int):
        """Plain."""

    @tool(effect="read", name="my.read")
    def read(): ...

    registry = Registry([plain, read])
    assert [t.spec.name for t in registry] == ["plain", "my.read"]
    assert [t.spec.effect for t in registry] == ["effect", "read"]
    assert registry.get("my.read") is read
    assert registry.get("other") is None
    assert ("plain" in registry, "other" in registry, len(registry)) == (True, False, 2)
    assert registry.catalog.names == ("plain", "my.read")
    assert registry.catalog.get("my.read") is read.spec


def test_two_tools_of_one_name_are_refused_with_both_places():
    def first(): ...
    def second(): ...

    one, two = tool(name="same")(first), tool(name="same")(second)
    with pytest.raises(BadInput, match=r"two tools are named 'same': .*first .* and .*second ") as caught:
        Registry([one, two])
    assert caught.value.code == "duplicate_tool"
    assert len(Registry([one, one])) == 1  # the same one twice is no conflict


@pytest.mark.parametrize("where", ["tools_of_mine.py", "sub/tools_of_mine.py"])
def test_tools_load_from_a_file_and_what_lies_beside_it(folder, where):
    write(folder / where, GOOD)
    write((folder / where).parent / "helper_of_tools.py", "PLUS = 1")
    assert [t.spec.name for t in load_tools(where)] == ["one", "plain"]


def test_tools_load_from_a_module_or_one_object_of_it(folder):
    write(folder / "mine_pkg" / "tools_mod.py", GOOD)
    write(folder / "helper_of_tools.py", "PLUS = 1")
    assert [t.spec.name for t in load_tools("mine_pkg.tools_mod")] == ["one", "plain"]
    assert [t.spec.name for t in load_tools("mine_pkg.tools_mod:left_out")] == ["left_out"]
    assert [t.spec.name for t in load_tools("mine_pkg.tools_mod:TOOLS")] == ["plain", "one"]


def test_two_files_of_one_name_do_not_replace_each_other(folder):
    for name in ("a", "b"):
        write(
            folder / name / "tools.py", f"from kedge.tools.function import tool\n@tool\ndef {name}(): ...\n"
        )
    assert [load_tools(f"{name}/tools.py")[0].spec.name for name in "aba"] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("where", "text", "code", "says"),
    [
        ("none.py", None, "no_tools_file", "there is no file none.py"),
        ("/nowhere/none.py", None, "no_tools_file", "there is no file"),
        (".", None, "tools_reference", "names no tools"),
        ("./", None, "no_tools_file", "there is no file"),
        ("", None, "tools_reference", "names no tools"),
        ("a b", None, "tools_reference", "names no tools"),
        ("no_such_module_here", None, "no_tools_module", "there is no module 'no_such_module_here'"),
        ("no_such_module_here.sub:x", None, "no_tools_module", "no module 'no_such_module_here'"),
        ("json.no_such_part", None, "no_tools_module", "json.no_such_part"),
        ("json:nothing", None, "no_tools", "has no 'nothing'"),
        ("json:__doc__", None, "not_a_tool", "a str is not a tool"),
        ("json:JSONDecoder", None, "not_a_tool", "a type is not a tool"),
        ("json", None, "no_tools", "no tools in it"),
        ("t.py", "x = 1", "no_tools", "no tools in it"),
        ("t.py", "TOOLS = []", "no_tools", "no tools in it"),
        ("t.py", "TOOLS = [3]", "not_a_tool", "a int is not a tool"),
        ("t.py", "def f(:\n  pass", "tools_import", r"t\.py:1: SyntaxError"),
        ("t.py", "\n1 / 0", "tools_import", r"t\.py:2: ZeroDivisionError: division by zero"),
        ("t.py", "import no_such_module_here", "tools_import", r"t\.py:1: ModuleNotFoundError"),
        ("t.py", "import sys\nsys.exit(3)", "tools_import", r"t\.py:2: SystemExit: 3"),
        ("t_mod", "\n\nraise KeyError('k')", "tools_import", r"t_mod\.py:3: KeyError: 'k'"),
        ("t_mod", "import no_such_module_here", "tools_import", r"t_mod\.py:1: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_loaded_says_what_and_where(folder, where, text, code, says):
    if text is not None:
        write(folder / (where if where.endswith(".py") else f"{where}.py"), text)
    with pytest.raises(BadInput, match=says) as caught:
        load_tools(where)
    assert caught.value.code == code
    assert where in str(caught.value)


def test_a_file_that_failed_to_load_can_be_mended_and_loaded(folder):
    write(folder / "t.py", "1 / 0")
    with pytest.raises(BadInput):
        load_tools("t.py")
    write(folder / "t.py", "def f(): ...\nTOOLS = [f]  # longer than before")
    assert len(load_tools("t.py")) == 1


def test_another_process_finds_the_function_by_its_source(folder):
    write(folder / "tools_of_mine.py", GOOD)
    write(folder / "helper_of_tools.py", "PLUS = 1")
    source = load_tools("tools_of_mine.py")[0].source
    script = """
        import json, sys
        from kedge.tools.source import ToolSource
        found = ToolSource(**json.loads(sys.argv[1])).find()
        print(found.spec.name, found.decode(b'{"p":{"x":1}}').p.x)
        """
    address = {"module": source.module, "qualname": source.qualname, "file": source.file}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), json.dumps(address)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert done.stdout.split() == ["one", "1"]


def test_a_source_that_is_gone_is_a_clear_error():
    with pytest.raises(BadInput, match="json has no no_such") as caught:
        ToolSource("json", "no_such").find()
    assert caught.value.code == "tool_source"
    assert ToolSource("json", "JSONDecoder.decode").find() is json.JSONDecoder.decode
