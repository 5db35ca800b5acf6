"""What is wrong with an argument of the library, or only shows when a plan runs: told, and nothing runs."""

import asyncio
import json
import os

import bad_arguments
import bad_calls
import bad_documents
import bad_references
import bad_structure
import bad_tools
import bad_values
import pytest
from bad_case import group, plan, step
from click.testing import CliRunner

import kedge
from kedge.surface.cli.app import app

PLANS = [*bad_documents.CASES, *bad_structure.CASES, *bad_references.CASES, *bad_arguments.CASES]


def rows(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@pytest.fixture(autouse=True)
def nothing_runs():
    bad_tools.LEDGER.clear()
    yield
    assert bad_tools.LEDGER == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(document, inputs=None, *, run_id=None, tools=bad_tools.TOOLS, limits=None):
    """The result of a run. When it does not even begin, the store must not know of it."""

    async def main():
        async with kedge.Engine(tools=tools, limits=limits) as engine:
            try:
                run = await engine.start(kedge.Plan.parse(document), inputs, run_id)
            except kedge.KedgeError:
                assert engine.runs() == []
                raise
            return await run.result()

    return asyncio.run(main())


@rows([*bad_calls.FILES, *bad_calls.CALLS])
def test_a_bad_argument_is_refused_with_place_and_remedy(case, folder):
    with pytest.raises(kedge.KedgeError) as caught:
        case.call(folder)
    error = caught.value
    assert (type(error), error.code) in ((case.kind, case.code), (kedge.InvalidPlan, case.code))
    assert case.where in error.where
    assert case.says in f"{error.remedy} {error.message} {error.allowed}"
    assert len(str(error)) < 2000


@rows(bad_calls.INPUTS)
def test_bad_inputs_are_refused_before_anything_runs(case):
    reads = {name: f"${{inputs.{name}}}" for name in bad_calls.DECLARED}
    with pytest.raises(kedge.BadInput) as caught:
        started(plan(step(args=reads), inputs=bad_calls.DECLARED), case.inputs)
    error = caught.value
    assert (error.code, error.where) == (case.code, case.where)
    assert case.says in str(error)
    assert error.remedy


@pytest.mark.parametrize("run_id", bad_calls.RUN_IDS, ids=range(len(bad_calls.RUN_IDS)))
def test_a_run_id_can_be_no_path_no_query_and_no_device(run_id):
    async def main():
        async with kedge.Engine(tools=bad_tools.TOOLS) as engine:
            good = kedge.Plan.parse(plan(step()))
            doors = (
                lambda: engine.start(good, run_id=run_id), lambda: engine.resume(run_id),
                lambda: asyncio.to_thread(engine.delete, run_id),
                lambda: asyncio.to_thread(engine.look, run_id),
                lambda: asyncio.to_thread(engine.reader, run_id),
            )  # fmt: skip
            for door in doors:
                with pytest.raises(kedge.BadInput) as caught:
                    await door()
                assert caught.value.code == "run_id"
                assert "a-z" in caught.value.remedy
                assert len(str(caught.value)) < 300
            assert engine.runs() == []

    asyncio.run(main())


def test_a_run_that_is_not_there_is_not_made_up():
    async def main():
        async with kedge.Engine(tools=bad_tools.TOOLS) as engine:
            with pytest.raises(kedge.NotFound) as caught:
                await engine.resume("nobody")
            assert caught.value.code == "unknown_run"
            assert engine.runs() == []

    asyncio.run(main())


@rows(bad_values.CASES)
def test_a_value_that_does_not_fit_fails_the_step_before_its_call(case):
    document = plan(case.step, step("z", after=["a"]), inputs={"v": {}})
    result = started(document, {"v": case.value}, limits=kedge.Limits(**case.limits))
    failure = result.steps["a"].error
    assert failure is not None
    assert result.status == kedge.RunStatus.FAILED
    assert (failure.code, failure.category) == (case.code, case.category)
    assert case.says in f"{failure.message} {failure.remedy}"
    assert len(failure.message) < 500
    assert result.steps["z"].status == kedge.StepStatus.SKIPPED
    assert not result.ok


@pytest.mark.parametrize("text", bad_values.DATA)
def test_data_stays_data(text):
    document = plan(
        step(args={"x": "${inputs.v}", "y": "<${inputs.v}>"}), step("b", args={"z": "${a.x}"}),
        inputs={"v": {}, "other": {"default": "leaked"}}, outputs={"o": "b.z", "y": "a.y"},
        answer="${inputs.other} ${b.z}",
    )  # fmt: skip
    result = started(document, {"v": text})
    assert result.outputs == {"o": text, "y": f"<{text}>"}
    assert result.answer == f"leaked {text}"
    bad_tools.LEDGER.clear()


@pytest.mark.parametrize(("path", "category", "says"), bad_values.PATHS, ids=range(len(bad_values.PATHS)))
@pytest.mark.parametrize("tool", ["files.read", "files.write", "files.list"])
def test_a_path_leads_nowhere_outside_the_roots(folder, tool, path, category, says):
    root = folder / "root"
    root.mkdir()
    (folder / "secret.txt").write_text("secret")
    (root / "link").symlink_to(folder, target_is_directory=True)
    (root / "linked.txt").symlink_to(folder / "secret.txt")
    os.mkfifo(root / "pipe")
    if tool == "files.list" and path in ("linked.txt", "pipe"):
        category, says = ("permission", "link") if path == "linked.txt" else ("invalid_input", "directory")
    args = {"path": "${inputs.path}"} | ({"text": "owned"} if tool == "files.write" else {})
    document = plan(step("a", tool, args=args), inputs={"path": {}})
    result = started(document, {"path": path}, tools=kedge.builtin_tools([root]))
    failure = result.steps["a"].error
    assert failure is not None
    assert (result.status, failure.category) == (kedge.RunStatus.FAILED, category)
    assert says in f"{failure.message} {failure.remedy}"
    assert "secret" not in str(result.outputs)
    assert (folder / "secret.txt").read_text() == "secret"
    assert sorted(one.name for one in root.iterdir()) == ["link", "linked.txt", "pipe"]


@pytest.mark.parametrize(("name", "fields", "place"), bad_values.LATER)
def test_what_cannot_be_run_yet_is_refused_and_not_half_run(name, fields, place):
    document = plan({"id": "a", "tool": "anything"} | fields, step("b"))
    assert kedge.check(document, tools=bad_tools.TOOLS).ok
    with pytest.raises(kedge.InvalidPlan) as caught:
        started(document)
    (finding,) = caught.value.findings
    assert (finding.code, finding.path, finding.step) == ("not_supported_yet", place, "a")
    assert finding.names == (name,)
    assert "take it out" in finding.remedy


def kedge_command(*args):
    """Exit code and the JSON document of a command."""
    done = CliRunner().invoke(app, [*args, "--tools", "bad_tools", "--json"], prog_name="kedge")
    return done.exit_code, json.loads(done.stdout)


def written(folder, document):
    """The document as a file; None if no file can hold it."""
    file = folder / "plan.yaml"
    if isinstance(document, dict):
        try:
            document = json.dumps(document, allow_nan=False)
        except (TypeError, ValueError):
            return None
    if not isinstance(document, str | bytes):
        return None
    file.write_bytes(document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document)
    return str(file)


@rows(PLANS)
def test_the_command_line_tells_the_same(case, folder):
    file = written(folder, case.document)
    if file is None or case.code == "not_serializable":
        return
    code, report = kedge_command("check", file)
    told = [one for one in report["findings"] if (one["code"], one.get("path", "")) == (case.code, case.path)]
    assert len(told) == 1, report
    assert case.says in told[0]["remedy"]
    assert told[0]["severity"] == case.severity
    later = any(one["code"] == "not_supported_yet" for one in report["findings"])
    assert (code, report["ok"]) == ((2, False) if case.severity == "error" or later else (0, True))


NEVER_GREEN = [
    ("empty plan", plan(), 2),
    ("empty composite", plan(group("o")), 2),
    ("missing tool", plan(step(tool="nobody")), 2),
    ("missing tool in a step that is skipped", plan(step(tool="nobody", when="false"), step("b")), 2),
    ("missing tool in a fallback", plan(step("m"), step("f", "nobody", fallback_for="m")), 2),
    ("tool that is not available", plan(step(tool="fax", args={"to": "x"})), 2),
    ("cycle", plan(step("b", after=["c"]), step("c", after=["b"])), 2),
    ("skipped cycle", plan(step("b", after=["c"], when="false"), step("c", after=["b"]), step("d")), 2),
    *[
        (f"all skipped, {number}", plan(one, inputs={"no": {"default": False}}), 1)
        for number, one in enumerate(bad_values.SKIPPED)
    ],
]


@pytest.mark.parametrize(("name", "document", "code"), NEVER_GREEN, ids=[row[0] for row in NEVER_GREEN])
def test_a_plan_that_does_nothing_is_never_a_green_run(name, document, code, folder):
    found, report = kedge_command("run", written(folder, document), "--store", ":memory:")
    assert found == code
    if code == 2:
        with pytest.raises(kedge.InvalidPlan):
            started(document)
        assert report["error"]["findings"]
    else:
        result = started(document)
        assert (result.status, result.ok, result.counts.done) == (kedge.RunStatus.EMPTY, False, 0)
        assert report["status"] == "empty"
        assert not report["ok"]


def test_the_tables_together_are_large_enough():
    cases = [*bad_calls.FILES, *bad_calls.CALLS, *bad_calls.INPUTS, *bad_values.CASES]
    codes = {case.code for case in [*PLANS, *cases]} | {"run_id", "not_supported_yet", "unknown_run"}
    count = len(PLANS) + len(cases) + len(bad_calls.RUN_IDS) + len(bad_values.PATHS) + len(bad_values.LATER)
    assert count >= 400
    assert len(codes) >= 140
