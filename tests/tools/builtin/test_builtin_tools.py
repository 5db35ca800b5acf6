import subprocess
import sys
from pathlib import Path

import pytest

from kedge.base.errors import BadInput, InternalError, ToolError
from kedge.plan.model import SLEEP
from kedge.tools.builtin import builtin_tools
from kedge.tools.registry import Registry

EFFECTS = {
    "files.list": "read",
    "files.read": "read",
    "files.search": "read",
    "files.write": "idempotent",
    "data.json": "pure",
    "data.csv": "pure",
    "data.xml": "pure",
    "data.yaml": "pure",
    "text.stats": "pure",
    "text.extract": "pure",
    "text.replace": "pure",
    "text.join": "pure",
    "http.get": "read",
    "shell.run": "effect",
    "sleep": "pure",
    "fail": "pure",
}


def by_name(tools):
    return {tool.spec.name: tool for tool in tools}


def test_the_built_in_tools_and_their_effects(tmp_path):
    registry = Registry(builtin_tools([tmp_path]))
    assert {t.spec.name: t.spec.effect for t in registry} == EFFECTS
    assert [t.spec.name for t in registry if not t.spec.available] == ["shell.run"]
    assert by_name(builtin_tools([tmp_path], allow_shell=True))["shell.run"].spec.available


@pytest.mark.parametrize("name", sorted(EFFECTS))
def test_every_built_in_tool_and_parameter_is_described(tmp_path, name):
    spec = by_name(builtin_tools([tmp_path]))[name].spec
    assert spec.description.endswith(".")
    undescribed = [p for p, s in spec.parameters["properties"].items() if not s.get("description")]
    assert undescribed == []
    assert len(spec.definition_hash) == 64


def test_the_current_folder_is_the_root_by_default(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a")
    assert call(by_name(builtin_tools())["files.read"], path="a.txt") == "a"


def test_a_plan_cannot_write_what_it_would_gain_by(tmp_path, call):
    tools = by_name(builtin_tools([tmp_path], reserved=[tmp_path / "runs.db"]))
    for path in ("kedge.toml", ".kedge/kedge.db", "runs.db"):
        with pytest.raises(ToolError, match="path") as caught:
            call(tools["files.write"], path=path, text="allow_shell = true")
        assert caught.value.category == "permission"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("roots", ["/tmp", Path("/tmp")])
def test_one_folder_is_no_list_of_roots(roots):
    with pytest.raises(BadInput, match="list of folders, not '/tmp'") as caught:
        builtin_tools(roots)
    assert (caught.value.code, caught.value.remedy) == ("root", "give ['/tmp']")


def test_sleep_is_never_called_as_a_tool(call):
    sleep = by_name(builtin_tools())[SLEEP]
    assert sleep.spec.parameters["properties"]["seconds"]["minimum"] == 0
    with pytest.raises(InternalError, match="timer"):
        call(sleep, seconds=1)


def test_fail_fails_the_way_it_is_told(call):
    fail = by_name(builtin_tools())["fail"]
    with pytest.raises(ToolError, match="no reports") as caught:
        call(fail, message="no reports")
    assert caught.value.category == "permanent"
    with pytest.raises(ToolError) as caught:
        call(fail, message="later", category="transient")
    assert caught.value.category == "transient"
    with pytest.raises(ToolError, match="allowed: 'transient', 'timeout'"):
        call(fail, message="x", category="odd")


def test_the_decorator_loads_nothing_heavy():
    heavy = ["http.client", "ssl", "asyncio", "xml"]
    script = f"import sys, kedge.tools.function; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[]"
