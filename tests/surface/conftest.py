"""A fresh folder with plans and tools in it, and two ways to call the command line there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

SRC = Path(__file__).parents[2] / "src"

TOOLS = '''
import asyncio
import os
import time

import kedge


@kedge.tool(effect="pure")
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@kedge.tool(effect="pure")
async def answered(x: int) -> int:
    """Twice as much, from somewhere else."""
    await asyncio.sleep(0.02)
    return 2 * x


@kedge.tool(effect="pure")
async def slow(name: str, seconds: float) -> str:
    """Takes its time, and writes down that it was called."""
    with open("calls.txt", "a") as file:
        file.write(name + "\\n")
    await asyncio.sleep(seconds)
    return name


@kedge.tool(effect="pure")
async def held(name: str) -> str:
    """Writes down that it was called, and ends when the test says so."""
    with open("calls.txt", "a") as file:
        file.write(name + "\\n")
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return name


@kedge.tool(effect="pure")
async def chatty() -> str:
    """Prints."""
    print("printed by a tool")
    return "said"


@kedge.tool(effect="effect")
async def unclear() -> str:
    """Ends without saying whether it did anything."""
    raise RuntimeError("connection lost")


@kedge.tool(effect="pure")
async def nasty() -> str:
    """Fails with what would act on a terminal."""
    what = "\\x1b]0;owned\\x07bad [red]markup[/red] \\x1b[2Jthing"
    raise kedge.ToolError(what, remedy="use another \\x1b[1mtool")


@kedge.tool(effect="pure")
def stubborn() -> str:
    """Cannot be stopped."""
    with open("calls.txt", "a") as file:
        file.write("stubborn\\n")
    time.sleep(60)
    return "late"
'''

PLANS = {
    "good": """
        goal: Double a number
        inputs: {x: {type: integer, default: 4}, name: {type: string, required: false}}
        steps:
          - {id: a, tool: double, args: {x: "${inputs.x}"}}
          - {id: b, tool: double, args: {x: "${a}"}}
        outputs: {y: b}
        answer: "it is ${b}"
        """,
    "failing": """
        goal: Fail
        steps:
          - {id: a, tool: fail, args: {message: no way, category: permission}}
        """,
    "empty": """
        goal: Do nothing
        inputs: {go: {type: boolean, default: false}}
        steps:
          - {id: a, tool: double, args: {x: 1}, when: "inputs.go"}
        """,
    "doubtful": """
        goal: Leave a doubt
        steps:
          - {id: a, tool: unclear}
          - {id: b, tool: double, args: {x: 2}, after: [a]}
        """,
    "bad": """
        goal: Be wrong
        steps:
          - {id: a, tool: dubble, args: {x: 1}}
          - {id: b, tool: double, args: {x: "${c}"}}
        """,
    "slow": """
        goal: Take a while
        steps:
          - {id: first, tool: slow, args: {name: first, seconds: 0}}
          - {id: long, tool: slow, args: {name: long, seconds: 0.6}, after: [first]}
          - {id: last, tool: slow, args: {name: last, seconds: 0}, after: [long]}
        """,
    "held": """
        goal: Take as long as the test wants
        steps:
          - {id: first, tool: slow, args: {name: first, seconds: 0}}
          - {id: long, tool: held, args: {name: long}, after: [first]}
          - {id: last, tool: slow, args: {name: last, seconds: 0}, after: [long]}
        """,
    "stuck": """
        goal: Never come back
        steps:
          - {id: a, tool: stubborn}
        """,
    "nasty": """
        goal: "Clear \\e[2J the [bold]screen[/bold]"
        steps:
          - {id: a, do: "\\e]0;title\\a[red]do[/red]", tool: nasty}
        """,
    "chatty": """
        goal: Print something
        steps:
          - {id: a, tool: chatty}
        """,
    "many": """
        goal: Do many things
        steps:
          - {id: a, tool: double, args: {x: "${index}"}, foreach: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
        """,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder: plans as `good.yaml` and so on, tools, and nothing from the environment."""
    for name in [name for name in os.environ if name.startswith("KEDGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "kedge.toml").write_text('tools = ["tools.py"]\n')
    for name, text in PLANS.items():
        (tmp_path / f"{name}.yaml").write_text(textwrap.dedent(text))
    return tmp_path


class Kedge:
    """Calls commands in this process."""

    def __call__(self, *args, code=0):
        from kedge.surface.cli.app import app

        done = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="kedge")
        assert done.exit_code == code, f"exit {done.exit_code}\n{done.output}\n{done.stderr}"
        return done

    def data(self, *args, code=0):
        """The JSON document, which must be all there is on stdout."""
        return json.loads(self(*args, "--json", code=code).stdout)


@pytest.fixture
def kedge(folder):
    return Kedge()


@pytest.fixture
def command():
    """A real command line, and the environment it needs."""
    return [sys.executable, "-W", "error", "-m", "kedge"]


@pytest.fixture
def environment(folder):
    return {**os.environ, "PYTHONPATH": str(SRC), "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def start(command, environment):
    """Starts a real process; the test ends none of its own behind."""
    started = []

    def popen(*args, **more):
        process = subprocess.Popen(
            [*command, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment | more,
        )  # fmt: skip
        started.append(process)
        return process

    yield popen
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
