"""Other engines: measured where they are installed, told where not, and held to right results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
LIAR = """
import sys
import child, node, peers

class Liar(peers.PeerAdapter):
    async def build(self, graph):
        self.graph = graph

    async def run(self):
        if {calls}:
            for _ in range(len(self.graph)):
                await node.work([])
        return {results}

sys.modules["peers.with_liar"] = sys.modules[__name__]
peers.PEERS["liar"] = peers.Peer("liar", "with_liar", "Liar")
child.main()
"""


def run_script(text: str, *arguments: str):
    return subprocess.run(
        [sys.executable, "-c", text, *arguments],
        env={**os.environ, "PYTHONPATH": f"{BENCH}{os.pathsep}{BENCH.parent / 'src'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def measure_liar(*, calls: bool, results: str):
    wanted = {"who": "liar", "graph": "W1", "n": 30, "reps": 1}
    return run_script(LIAR.format(calls=calls, results=results), "wall", json.dumps(wanted))


def test_an_adapter_is_measured_as_any_other_subject():
    done = measure_liar(calls=True, results="self.graph.expected")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["n"] == 30
    assert found["runs"][0]["wall"] > 0


def test_an_adapter_with_a_wrong_result_is_refused():
    done = measure_liar(calls=True, results="[*self.graph.expected[:-1], 0]")
    assert done.returncode == 1
    assert "wrong results: 1 of 20" in done.stderr


def test_an_adapter_that_does_not_run_every_step_is_refused():
    done = measure_liar(calls=False, results="self.graph.expected")
    assert done.returncode == 1
    assert "0 calls were made for 20 steps" in done.stderr


def test_peers_that_are_not_installed_are_told_and_nothing_else_happens(tmp_path):
    script = """
import importlib.metadata, sys
import peers, run

def nothing(name):
    raise importlib.metadata.PackageNotFoundError(name)

peers.version = nothing
sys.exit(run.main())
"""
    report = tmp_path / "bench.json"
    done = run_script(script, "--only", "peers", "--strict", "--json", str(report))
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())["rows"]
    assert [row["note"] for row in rows if row["title"] == "peer: dbos"] == [
        "left out: dbos is not installed"
    ]
    assert len(rows) == 7
    assert all(row["value"] is None and row["note"].endswith("is not installed") for row in rows)
    assert all(row["title"] in done.stdout for row in rows)
    assert "0 of 0 targets missed" in done.stdout


def test_what_an_engine_cannot_say_is_told_beside_what_it_can():
    script = """
import peers, rows

peers.version = lambda name: "1.2.3"
for row in rows.others():
    print(row.title, row.target, sorted(row.jobs), sep="; ")
"""
    lines = run_script(script).stdout.splitlines()
    assert "peer: hamilton W3 / L1; ; ['limit', 'ours', 'peer']" in lines
    assert "peer: pydantic-graph W3 / L1; ; ['ours']" in lines
    assert len(lines) == 7 * 3
