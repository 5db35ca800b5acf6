"""A plan far too large is refused by name, within a second and 200 MB. A large one that is right is not."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bad_sizes
import pytest

import kedge

HERE = Path(__file__).parent
PATHS = [str(HERE.parents[1] / "src"), str(HERE)]


def measured(name):
    """In a process of its own: the most memory a process ever had never gets less."""
    code = f"import sys; sys.path[:0] = {PATHS!r}; import bad_sizes; bad_sizes.main({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def costs():
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(bad_sizes.CASES, pool.map(measured, bad_sizes.CASES), strict=True))


@pytest.mark.parametrize("name", bad_sizes.CASES)
def test_size_is_refused_by_name_and_cheaply(costs, name):
    case, cost = bad_sizes.CASES[name], costs[name]
    assert cost["seconds"] < 1
    assert cost["peak_mb"] < 200
    if not case.code:
        assert cost["errors"] == 0
        return
    code, path, remedy = cost["found"][0]
    assert (code, path) == (case.code, case.path)
    assert case.says in remedy
    assert cost["errors"] < 10_000
    assert cost["length"] < 500


def test_a_file_of_50_mb_is_not_even_read_to_its_end(tmp_path):
    with (tmp_path / "plan.yaml").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(kedge.BadInput) as caught:
        kedge.load(tmp_path / "plan.yaml")
    assert caught.value.code == "document_too_big"


@pytest.mark.parametrize(
    "name", ["a chain of 10,000", "a ring of 10,000", "9,999 steps, half of them misspelt"]
)
def test_no_run_begins_with_a_plan_too_large(name):
    with pytest.raises(kedge.InvalidPlan) as caught:
        kedge.run_sync(kedge.Plan.parse(bad_sizes.CASES[name].make()))
    assert caught.value.findings.errors
