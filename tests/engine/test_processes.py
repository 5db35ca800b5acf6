"""Tools in processes of their own: what crosses, what a crash or a hang costs, and that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kedge
from kedge.base.codec import decode, encode
from kedge.base.errors import BadInput, NotDone, ToolError
from kedge.engine import child as child_module
from kedge.engine import process_child
from kedge.engine import processes as processes_module
from kedge.engine.child import ProcessDied
from kedge.engine.failures import ToolFailed, failure_of
from kedge.engine.processes import Processes
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.load import load_tools

HERE = Path(__file__).parent
SAMPLES = {item.spec.name: item for item in load_tools(str(HERE / "sample_process_tools.py"))}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are a POSIX matter")


class Notes:
    """A sink that remembers."""

    def __init__(self):
        self.all = []

    def report(self, kind, data):
        self.all.append((kind, data))

    def of(self, kind):
        return [data for other, data in self.all if other == kind]


def context_for(notes):
    return Context(notes, "run1", "outer[3]/inner", 2, lambda: "the-key")


@pytest.fixture
async def processes():
    made = Processes()
    yield made
    await made.close()
    assert not made._alive


async def call(processes, name, notes=None, /, **args):
    notes = notes or Notes()
    wanted = SAMPLES[name] if isinstance(name, str) else name
    return decode(await processes.call(wanted, encode(args), context_for(notes), notes))


async def failure(processes, name, /, **args):
    with pytest.raises(Exception) as caught:
        await call(processes, name, **args)
    return failure_of(caught.value)


def is_alive(process_id):
    """A process that ended and that nobody has asked about yet does not count."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, 0)
            return True
        return False
    return state not in "ZX"


async def until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        await asyncio.sleep(0.01)


async def process_ids(note):
    await until(note.exists)
    return [int(word) for word in note.read_text().split()]


# --- calls


async def test_a_call_returns_what_the_function_returns(processes):
    assert await call(processes, "add", a=2, b=3) == 5
    assert await call(processes, "add", a=2) == 3
    assert await call(processes, "add_async", a=2, b=3) == 5
    assert await call(processes, "plain.tool", a=4) == 8
    assert await call(processes, "size_of", text="é" * 1_000_000) == 1_000_000


async def test_it_runs_in_another_process_and_group(processes):
    there = await call(processes, "which_process")
    assert there != os.getpid()
    assert os.getpgid(there) == there == os.getsid(there)


async def test_a_tool_sees_its_context_and_its_reports_arrive(processes):
    notes = Notes()
    seen = await call(processes, "where", notes)
    assert seen == {
        "run": "run1",
        "step": "outer[3]/inner",
        "attempt": 2,
        "key": "the-key",
        "folder": str(Path.cwd()),
    }
    assert notes.all[:4] == [
        ("began", {}),
        ("progress", {"fraction": 0.5, "message": "half"}),
        ("heartbeat", {}),
        ("discovery", {"what": "a door", "need": "a key"}),
    ]


async def test_what_a_call_takes_is_reported(processes):
    notes = Notes()
    await call(processes, "burns", notes, seconds=0.1)
    assert 0.1 <= notes.of("usage")[0]["cpu_s"] < 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can start a new peak")
async def test_memory_is_that_of_one_call_not_of_those_before_it(processes):
    notes = Notes()
    await call(processes, "fills", notes, size=100_000_000)
    await call(processes, "add", notes, a=1)
    large, small = (usage["rss_bytes"] for usage in notes.of("usage"))
    assert large > 100_000_000
    assert small < large - 90_000_000


async def test_a_tool_that_prints_breaks_nothing_and_reads_nothing(processes, capfd):
    assert await call(processes, "prints_and_reads") == "nothing to read"
    assert capfd.readouterr() == ("", "")


async def test_a_tool_of_an_importable_module_is_found(processes, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    module = importlib.import_module("sample_process_tools")
    assert module.add.source.module == "sample_process_tools"
    assert await call(processes, module.add, a=1, b=1) == 2


async def test_a_result_of_100_megabytes_crosses():
    processes = Processes(200_000_000)
    try:
        assert len(await call(processes, "big", size=100_000_000)) == 100_000_000
    finally:
        await processes.close()


async def test_a_result_over_the_limit_is_a_failure_that_names_both_sizes():
    processes = Processes(1_000)
    try:
        assert await call(processes, "big", size=998) == "x" * 998
        told = await failure(processes, "big", size=999)
    finally:
        await processes.close()
    assert (told.category, told.classified) == ("limit", True)
    assert "1,001" in told.message
    assert "1,000" in told.message


# --- the same process again


async def test_the_next_call_of_the_same_module_finds_the_process_warm(processes):
    assert [await call(processes, "count_calls") for _ in range(3)] == [1, 2, 3]
    first = await call(processes, "which_process")
    assert await call(processes, "which_process") == first


async def test_async_tools_keep_their_event_loop_between_calls(processes):
    assert await call(processes, "which_loop") == await call(processes, "which_loop")


@pytest.mark.parametrize(("kind", "kept"), [("tool", True), ("value", False)])
async def test_a_process_is_used_again_only_after_failures_a_tool_tells_of(processes, kind, kept):
    first = await call(processes, "which_process")
    await failure(processes, "raises", kind=kind)
    assert is_alive(first) == kept
    assert (await call(processes, "which_process") == first) == kept


async def test_a_process_that_died_while_idle_is_not_used_again(processes):
    first = await call(processes, "which_process")
    os.kill(first, signal.SIGKILL)
    await until(lambda: not processes._alive)
    assert await call(processes, "which_process") != first


async def test_each_call_starts_in_the_engines_folder(processes, tmp_path, monkeypatch):
    await call(processes, "changes_folder", folder=str(tmp_path))
    assert (await call(processes, "where"))["folder"] == str(Path.cwd())
    monkeypatch.chdir(tmp_path)
    assert (await call(processes, "where"))["folder"] == str(tmp_path)


async def test_a_changed_environment_is_seen_by_the_next_call(processes, monkeypatch):
    assert await call(processes, "environment", name="KEDGE_TEST_WORD") is None
    monkeypatch.setenv("KEDGE_TEST_WORD", "new")
    assert await call(processes, "environment", name="KEDGE_TEST_WORD") == "new"


async def test_idle_processes_end_after_a_while(processes, monkeypatch):
    monkeypatch.setattr(processes_module, "IDLE_S", 0.05)
    there = await call(processes, "which_process")
    await until(lambda: not is_alive(there))
    await until(lambda: not processes._alive)


async def test_only_so_many_are_alive_and_the_rest_of_the_calls_wait(monkeypatch):
    monkeypatch.setattr(processes_module, "MAX_ALIVE", 2)
    processes = Processes()
    try:
        ids = await asyncio.gather(*(call(processes, "which_process") for _ in range(6)))
        assert len(set(ids)) == 2
        assert len(processes._alive) == 2
        monkeypatch.setenv("KEDGE_TEST_WORD", "other")  # none of the idle ones will do
        assert await call(processes, "which_process") not in ids
        assert len(processes._alive) == 2
    finally:
        await processes.close()


async def test_a_late_report_does_not_speak_for_the_next_call(processes):
    notes = Notes()
    await call(processes, "report_late")
    await call(processes, "nap", notes, seconds=0.4)
    assert notes.of("progress") == []


# --- failures


@pytest.mark.parametrize(
    ("kind", "category", "code", "classified", "text"),
    [
        ("tool", "rate_limited", "tool_error", True, "slow down"),
        ("not_done", "transient", "not_done", True, "nothing was sent"),
        ("value", "bug", "ValueError", False, "ValueError: a wrong value"),
        ("odd", "transient", "OddError", False, "OddError: gone"),
        ("unshowable", "bug", "UnshowableError", False, "cannot be shown"),
        ("group", "bug", "ExceptionGroup", False, "several"),
        ("long", "bug", "ValueError", False, "10,000,012 characters"),
        ("system_exit", "bug", "SystemExit", False, "3"),
        ("keyboard", "bug", "KeyboardInterrupt", False, ""),
        ("generator_exit", "bug", "GeneratorExit", False, ""),
        ("stop", "bug", "StopIteration", False, ""),
        ("memory", "limit", "MemoryError", False, ""),
        ("missing_file", "invalid_input", "FileNotFoundError", False, "No such file"),
        ("cancelled", "cancelled", "CancelledError", False, ""),
    ],
)
async def test_what_a_tool_raises_arrives_as_the_failure_it_is(
    processes, kind, category, code, classified, text
):
    told = await failure(processes, "raises", kind=kind)
    assert (told.category, told.code, told.classified) == (category, code, classified)
    assert text in told.message


async def test_what_the_tool_said_about_its_failure_is_kept(processes):
    told = await failure(processes, "raises", kind="tool")
    assert (told.retry_after_s, told.remedy, told.not_done) == (1.5, "wait", False)
    assert (await failure(processes, "raises", kind="not_done")).not_done
    trace = (await failure(processes, "raises", kind="value")).trace
    assert "sample_process_tools.py" in trace
    assert "in raises" in trace


NO_JSON_FORM = {
    "nan": "result.a[0]: nan",
    "set": "result: a set",
    "loop": "result[0]: the value contains itself",
    "bytes": "result: a bytes",
    "code": "result: a",
}


async def test_a_result_without_a_json_form_is_named_with_its_place(processes):
    for kind, place in NO_JSON_FORM.items():
        told = await failure(processes, "returns_odd", kind=kind)
        assert told.category == "not_serializable"
        assert place in told.message
        assert told.remedy


async def test_wrong_arguments_never_reach_the_function(processes):
    told = await failure(processes, "add", a="two")
    assert (told.category, told.classified) == ("invalid_input", True)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exit", "exit code 7"),
        ("exit_0", "exit code 0"),
        ("kill", "SIGKILL"),
        ("segfault", "SIGSEGV"),
    ],
)
async def test_a_process_that_dies_is_an_unclassified_failure_with_its_last_words(processes, how, text):
    with pytest.raises(ProcessDied, match="'dies'") as caught:
        await call(processes, "dies", how=how)
    assert text in str(caught.value)
    assert "about to go" in str(caught.value)
    told = failure_of(caught.value)
    assert (told.category, told.classified, told.not_done) == ("transient", False, False)


async def test_a_segfault_shows_where_in_the_tool_it_was(processes):
    with pytest.raises(ProcessDied, match="in dies"):
        await call(processes, "dies", how="segfault")


@pytest.mark.parametrize("name", ["closes_pipes", "writes_rubbish"])
async def test_a_tool_that_spoils_its_pipes_fails_at_once(processes, name):
    began = time.monotonic()
    with pytest.raises(ProcessDied):
        await call(processes, name)
    assert time.monotonic() - began < 5


async def test_other_calls_go_on_when_one_process_dies(processes):
    napping = asyncio.create_task(call(processes, "nap", seconds=0.3))
    with pytest.raises(ProcessDied):
        await call(processes, "dies", how="kill")
    assert await napping is None


async def test_where_no_process_can_be_started_nothing_was_done(processes, monkeypatch):
    monkeypatch.setattr(child_module.sys, "executable", "/nowhere/python")
    told = await failure(processes, "add", a=1)
    assert told.not_done


async def test_a_process_that_dies_before_the_call_has_done_nothing(processes, tmp_path, monkeypatch):
    file = tmp_path / "sudden.py"
    file.write_text(
        "import os, kedge.tools.function as f\n"
        "if os.environ.get('SUDDEN'): os._exit(9)\n"
        "@f.tool(isolation='process')\ndef never() -> None: ...\n"
    )
    (never,) = load_tools(str(file))
    monkeypatch.setenv("SUDDEN", "1")
    with pytest.raises(NotDone, match="before the call") as caught:
        await call(processes, never)
    assert "exit code 9" in str(caught.value)


# --- tools that another process cannot find


def outer(a: int, b: int = 2) -> int:
    return a * b


async def test_a_tool_that_is_not_at_its_address_is_refused(processes):
    import functools

    part = tool(effect="pure", isolation="process", name="part")(functools.partial(outer, b=5))
    with pytest.raises(ToolError, match="'part'") as caught:
        await call(processes, part, a=1)
    assert caught.value.category == "bug"
    assert "top level" in caught.value.remedy
    assert not processes._alive


async def test_a_module_that_cannot_be_imported_again_says_why(processes, tmp_path, monkeypatch):
    file = tmp_path / "once.py"
    file.write_text(
        "import os, kedge.tools.function as f\n"
        "if os.environ.get('ONCE'): raise RuntimeError('only once')\n"
        "@f.tool(isolation='process')\ndef once() -> None: ...\n"
    )
    (once,) = load_tools(str(file))
    monkeypatch.setenv("ONCE", "1")
    told = await failure(processes, once)
    assert (told.category, told.classified) == ("bug", True)
    assert "RuntimeError: only once" in told.message


SCRIPT = """
import asyncio, sys
from kedge.engine.processes import Processes
from kedge.tools.context import Context
from kedge.tools.function import tool

@tool(effect="pure", isolation="process")
def double(a: int) -> int:
    return a * 2

class Sink:
    def report(self, kind, data): pass

async def main():
    processes = Processes()
    try:
        print(await processes.call(double, b'{"a":21}', Context(Sink(), "r", "s", 1, str), Sink()))
    except Exception as error:
        print(error)
    finally:
        await processes.close()

"""
GUARDED = SCRIPT + "if __name__ == '__main__': asyncio.run(main())\n"


def python(*arguments, **more):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        **more,
    )
    return done.stdout + done.stderr


def test_tools_of_a_script_are_found(tmp_path):
    (tmp_path / "script.py").write_text(GUARDED)
    assert "42" in python("script.py", cwd=tmp_path)


def test_tools_of_a_module_run_by_name_are_found(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "sibling.py").write_text("factor = 2\n")
    text = "from .sibling import factor\n" + GUARDED.replace("a * 2", "a * factor")
    (tmp_path / "pack" / "script.py").write_text(text)
    assert "42" in python("-m", "pack.script", cwd=tmp_path)


def test_tools_typed_in_are_refused_with_the_reason(tmp_path):
    assert "typed in" in python("-c", GUARDED, cwd=tmp_path)


def test_a_script_without_a_guard_does_not_start_itself_again_and_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT + "asyncio.run(main())\n")
    said = python("script.py", cwd=tmp_path)
    assert "starts an engine" in said
    assert "__main__" in said


def test_an_engine_cannot_be_made_while_a_tools_module_is_loaded(monkeypatch):
    monkeypatch.setattr(process_child, "loading", True)
    with pytest.raises(BadInput, match="__main__"):
        Processes()


# --- nothing is left


@pytest.mark.parametrize("manner", ["sleep", "deaf", "regex"])
async def test_a_cancelled_call_ends_its_process_group_before_it_is_over(processes, tmp_path, manner):
    note = tmp_path / "note"
    task = asyncio.create_task(call(processes, "hangs", note=str(note), manner=manner))
    ids = await process_ids(note)
    assert len(ids) == 2
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 1.5
    assert not is_alive(ids[0])
    await until(lambda: not is_alive(ids[1]), 0.5)
    assert not processes._alive


@pytest.mark.parametrize(("name", "more"), [("hangs", {"manner": "tidy"}), ("hangs_async", {})])
async def test_a_cancelled_tool_may_clean_up(processes, tmp_path, name, more):
    note = tmp_path / "note"
    task = asyncio.create_task(call(processes, name, note=str(note), **more))
    await process_ids(note)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "note.cleaned").exists()


async def test_a_call_cancelled_twice_still_leaves_nothing(processes, tmp_path):
    note = tmp_path / "note"
    task = asyncio.create_task(call(processes, "hangs", note=str(note), manner="deaf"))
    ids = await process_ids(note)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await processes.close()
    assert not any(map(is_alive, ids))


async def test_a_call_cancelled_while_its_process_starts_leaves_nothing(processes):
    task = asyncio.create_task(call(processes, "add", a=1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not processes._alive


async def test_closing_ends_calls_that_still_run(tmp_path):
    processes, note = Processes(), tmp_path / "note"
    task = asyncio.create_task(call(processes, "hangs", note=str(note)))
    ids = await process_ids(note)
    await processes.close()
    with pytest.raises(ProcessDied):
        await task
    await until(lambda: not any(map(is_alive, ids)), 0.5)
    with pytest.raises(NotDone, match="closed"):
        await call(processes, "add", a=1)


@pytest.mark.parametrize(
    "name",
    [
        "leaves_child",
        pytest.param(
            "leaves_orphan", marks=pytest.mark.skipif(sys.platform != "linux", reason="others cannot adopt")
        ),
    ],
)
async def test_what_a_call_leaves_running_is_ended_after_it(processes, name):
    left = await call(processes, name)
    await until(lambda: not is_alive(left))
    await until(lambda: not processes._alive)


async def test_a_tool_that_forks_and_comes_back_twice_answers_once(processes):
    assert await call(processes, "forks_and_returns_twice") in ("parent", "child")
    assert await call(processes, "add", a=1) == 2


DRIVER = """
import asyncio, sys
from kedge.engine.processes import Processes
from kedge.tools.context import Context
from kedge.tools.load import load_tools
from kedge.base.codec import encode

class Sink:
    def report(self, kind, data): pass

async def main():
    tools = {t.spec.name: t for t in load_tools(sys.argv[1])}
    args = encode({"note": sys.argv[2], "manner": sys.argv[3]})
    await Processes().call(tools["hangs"], args, Context(Sink(), "r", "s", 1, str), Sink())

asyncio.run(main())
"""


@pytest.mark.parametrize("manner", ["sleep", "deaf", "regex"])
async def test_a_killed_engine_takes_its_tools_with_it(tmp_path, manner):
    if manner == "regex" and sys.platform != "linux":
        pytest.skip("only Linux can signal a group from the kernel")
    note = tmp_path / "note"
    arguments = [sys.executable, "-c", DRIVER, str(HERE / "sample_process_tools.py"), str(note), manner]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(arguments, env=environment) as engine:  # noqa: ASYNC220 - it starts in no time
        ids = await process_ids(note)
        await asyncio.sleep(0.1)
        engine.kill()
    await until(lambda: not any(map(is_alive, ids)))


async def test_a_failed_call_is_told_as_data_never_as_an_object(processes):
    with pytest.raises(ToolFailed) as caught:
        await call(processes, "raises", kind="odd")
    assert caught.value.__cause__ is None
    assert encode(caught.value.failure)


async def test_a_call_stopped_before_a_process_was_free_is_not_in_doubt(monkeypatch, tmp_path):
    monkeypatch.setattr(processes_module, "MAX_ALIVE", 1)
    notes = [str(tmp_path / f"{n}.txt") for n in range(3)]
    steps = [
        {"id": f"s{n}", "tool": "hangs_with_effects", "args": {"note": note}} for n, note in enumerate(notes)
    ]
    async with kedge.Engine(tools=[SAMPLES["hangs_with_effects"]]) as engine:
        run = await engine.start(kedge.Plan.parse({"goal": "hang", "steps": steps}))
        async with asyncio.timeout(5):
            while not any(map(os.path.exists, notes)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await run.cancel()
        result = await run.result()
    assert (result.counts.in_doubt, result.counts.cancelled) == (1, 2)
