"""Settings: where they come from, who overrules whom, and what is said of wrong ones."""

from __future__ import annotations

import sys

import pytest

from kedge.assemble import Settings, build_engine, build_planner, build_tools, read_settings
from kedge.base.errors import BadInput, ToolError
from kedge.plan.model import Plan


def write(folder, text):
    (folder / "kedge.toml").write_text(text)


def test_without_anything_the_defaults_hold(tmp_path):
    settings = read_settings(folder=tmp_path, environ={})
    assert settings == Settings()
    assert settings.store == ".kedge/kedge.db"


def test_the_command_line_overrules_the_environment_and_that_the_file(tmp_path):
    write(tmp_path, 'store = "file.db"\nparallel = 1\nroots = ["a"]\n')
    environ = {"KEDGE_STORE": "environment.db", "KEDGE_PARALLEL": "2", "HOME": "/"}
    settings = read_settings({"store": "typed.db", "tools": None}, folder=tmp_path, environ=environ)
    assert (settings.store, settings.parallel, settings.roots) == ("typed.db", 2, ("a",))


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("KEDGE_TOOLS", "a.py, pkg.tools:NAME", "tools", ("a.py", "pkg.tools:NAME")),
        ("KEDGE_ROOTS", "a:b", "roots", ("a", "b")),
        ("KEDGE_ALLOW_SHELL", "yes", "allow_shell", True),
        ("KEDGE_ALLOW_PRIVATE_ADDRESSES", "0", "allow_private_addresses", False),
        ("KEDGE_PARALLEL", "3", "parallel", 3),
    ],
)
def test_variables_are_read_as_what_they_stand_for(tmp_path, variable, text, name, value):
    assert getattr(read_settings(folder=tmp_path, environ={variable: text}), name) == value


def test_limits_and_resources_are_tables(tmp_path):
    write(tmp_path, "parallel = 3\n[limits]\nsteps = 50\nrun_s = 1.5\n[resources]\ngpu = 2\n")
    settings = read_settings(folder=tmp_path, environ={})
    assert (settings.bounds.steps, settings.bounds.run_s, settings.bounds.parallel) == (50, 1.5, 3)
    assert settings.resources == {"gpu": 2}


@pytest.mark.parametrize(
    ("text", "environ", "code", "remedy"),
    [
        ('stroe = "x"', {}, "unknown_setting", "did you mean store?"),
        ("[limits]\nparalel = 2", {}, "unknown_setting", "did you mean parallel?"),
        ("", {"KEDGE_STROE": "x"}, "unknown_setting", "did you mean KEDGE_STORE?"),
        ("parallel = 'many'", {}, "setting_value", ""),
        ("parallel = 0", {}, "limit_value", ""),
        ("", {"KEDGE_PARALLEL": "many"}, "setting_value", ""),
        ("", {"KEDGE_ALLOW_SHELL": "perhaps"}, "setting_value", ""),
        ("allow_shell = 'yes'", {}, "setting_value", ""),
        ("[resources]\ngpu = 0", {}, "setting_value", ""),
        ("[limits]\nsteps = -1", {}, "limit_value", ""),
        ("tools = [", {}, "settings_file", "mend that line"),
    ],
)
def test_wrong_settings_are_errors(tmp_path, text, environ, code, remedy):
    write(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        read_settings(folder=tmp_path, environ=environ)
    assert caught.value.code == code
    assert remedy in caught.value.remedy


def test_a_settings_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "kedge.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput) as caught:
        read_settings(folder=tmp_path, environ={})
    assert caught.value.code == "settings_file"


def test_built_in_tools_are_always_there_and_named_files_add_theirs(tmp_path):
    (tmp_path / "mine.py").write_text("import kedge\n\n@kedge.tool\ndef mine() -> int: return 1\n")
    settings = Settings(tools=(str(tmp_path / "mine.py"),), roots=(str(tmp_path),))
    names = {tool.spec.name for tool in build_tools(settings)}
    assert {"mine", "files.read", "sleep", "fail"} <= names


@pytest.mark.parametrize("allowed", [True, False])
def test_shell_run_is_off_unless_allowed(tmp_path, allowed):
    settings = Settings(allow_shell=allowed, roots=(str(tmp_path),))
    shell = next(tool for tool in build_tools(settings) if tool.spec.name == "shell.run")
    assert shell.spec.available == allowed


def by_name(settings):
    return {tool.spec.name: tool for tool in build_tools(settings)}


OWN = ["kedge.toml", "KEDGE.toml", "kedge.toml/x", ".kedge/kedge.db", ".kedge/new/x", "tools.py", "runs.db"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder as people have it: settings, tools, a store in use, all in the root."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    (tmp_path / "tools.py").write_text(
        "import kedge\nfrom helper import ONE\n\n@kedge.tool\ndef mine() -> int: return ONE\n"
    )
    monkeypatch.setattr("sys.path", [*sys.path])
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(module)]:
        del sys.modules[name]


@pytest.mark.parametrize("path", [*OWN, "helper.py", "helper/__init__.py", "./tools.py"])
def test_no_plan_writes_the_settings_the_store_or_the_code_that_runs_it(project, path):
    write_file = by_name(Settings(store="runs.db", tools=("tools.py",)))["files.write"]
    names = sorted(project.iterdir())
    texts = [file.read_text() for file in project.glob("*.py")]
    with pytest.raises(ToolError, match="path") as caught:
        write_file.function(path, "allow_shell = true")
    assert caught.value.category == "permission"
    assert sorted(project.iterdir()) == names
    assert [file.read_text() for file in project.glob("*.py")] == texts
    write_file.function("notes/tools.py", "what is not loaded may be written")


@pytest.mark.parametrize("store", ["runs.db", "link.db", ".kedge/kedge.db"])
async def test_no_plan_sees_a_file_of_the_store(project, store):
    (project / "link.db").symlink_to("runs.db")
    settings = Settings(store=store)
    plan = Plan.parse({"goal": "Look", "steps": [{"id": "s", "tool": "sleep", "args": {"seconds": 9}}]})
    async with build_engine(settings) as engine:
        await engine.start(plan)
        assert len(list(project.rglob("*.db*"))) > 3
        found = by_name(settings)["files.list"].function(".", recursive=True).files
    assert [one.path for one in found] == ["helper.py", "tools.py"]
    with pytest.raises(ToolError, match="its own files"):
        by_name(settings)["files.search"].function("x", None, "./.kedge/kedge.db")


def test_what_a_plan_cannot_write_it_can_read(project):
    (project / "kedge.toml").write_text("parallel = 2")
    read = by_name(Settings(tools=("tools.py",)))["files.read"]
    assert read.function("kedge.toml") == "parallel = 2"
    assert "def mine" in read.function("tools.py")


async def test_the_engine_is_as_the_settings_say(tmp_path):
    settings = Settings(store=str(tmp_path / "a.db"), parallel=2, limits={"steps": 9}, roots=(str(tmp_path),))
    async with build_engine(settings) as engine:
        assert (engine.limits.parallel, engine.limits.steps) == (2, 9)
        assert engine.stats()["store"] == "sqlite"


PLANNERS = """
class Mine:
    async def repair(self, situation): ...

mine = Mine()
other = 1
"""


def test_a_planner_is_the_rules_or_one_of_your_own(project):
    (project / "mending.py").write_text(PLANNERS)
    assert build_planner("") is None
    assert type(build_planner("rules")).__name__ == "RulePlanner"
    for name in ("mending.py:Mine", "mending.py:mine", "mending:Mine"):
        assert type(build_planner(name)).__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("rule", "tools_reference"),
        ("mending.py:other", "setting_value"),
        ("mending.py:nobody", "no_tools"),
        ("nowhere.py:Mine", "no_tools_file"),
        ("a b:Mine", "tools_reference"),
    ],
)
def test_what_is_no_planner_is_refused(project, name, code):
    (project / "mending.py").write_text(PLANNERS)
    with pytest.raises(BadInput) as refused:
        build_planner(name)
    assert refused.value.code == code
