"""The planted bugs fit the source as it is, and what looks for them can tell found from missed.

Whether the suite finds them takes minutes: `make prove ARGS="--only planted"`.
"""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

PROOF = Path(__file__).parents[2] / "proof"


@pytest.fixture(scope="module")
def planted():
    sys.path.insert(0, str(PROOF))
    try:
        return import_module("planted")
    finally:
        sys.path.remove(str(PROOF))


def test_every_bug_fits_the_source(planted):
    for bug in planted.all_bugs():
        bug.check()


def test_bugs_have_names_of_their_own_and_say_what_they_break(planted):
    bugs = planted.all_bugs()
    assert len(bugs) >= 36
    assert len({bug.name for bug in bugs}) == len(bugs)
    for bug in bugs:
        assert bug.what.endswith("."), bug.name
        assert bug.breaks.endswith("."), bug.name


def test_a_bug_whose_source_has_moved_on_is_named(planted):
    bug = planted.all_bugs()[0]
    with pytest.raises(ValueError, match=rf"bug {bug.name}: its old text is 0 times in {bug.file}"):
        bug._replace(old="what was never there").check()


def test_a_bug_that_changes_only_the_looks_is_refused(planted):
    bug = planted.all_bugs()[0]
    with pytest.raises(ValueError, match="only how the source looks"):
        bug._replace(new=f"{bug.old}  # the same").check()


@pytest.mark.parametrize("count", [1, 6, 20, 1000])
def test_a_draw_is_the_same_each_time_and_fair_to_all_rooms(planted, count):
    bugs = planted.all_bugs()
    drawn = planted.drawn(bugs, count)
    assert drawn == planted.drawn(bugs, count)
    assert len(set(drawn)) == len(drawn) == min(count, len(bugs))
    rooms = {bug.room for bug in bugs}
    assert len({bug.room for bug in drawn}) == min(count, len(rooms))


@pytest.fixture
def small(planted, monkeypatch, tmp_path) -> types.ModuleType:
    """The part, at work on a project of one room with two functions."""
    project = tmp_path / "project"
    (project / "src/kedge/room").mkdir(parents=True)
    (project / "tests/room").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["src"]\n')
    (project / "src/kedge/__init__.py").write_text("")
    (project / "src/kedge/room/part.py").write_text(
        "def double(x):\n    return 2 * x\n\n\n"
        "def count(x):\n    while x > 9:\n        x -= 1\n    return x\n"
    )
    (project / "tests/room/test_part.py").write_text(
        "from kedge.room.part import count, double\n\n\n"
        "def test_double():\n    assert double(2) == 4\n\n\n"
        "def test_count():\n    assert count(12) == 9\n"
    )
    monkeypatch.setattr(planted, "ROOT", project)
    monkeypatch.setattr(planted, "SILENT_S", 2.0)
    monkeypatch.setattr(planted, "ALONE_S", 4.0)
    monkeypatch.setattr(planted, "TIMES", 1)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return planted


def _bug(small, old, new):
    return small.Bug("a_bug", "What.", "Breaks.", "src/kedge/room/part.py", old, new)


def _verdict(small, old, new):
    (verdict,) = small._tried([_bug(small, old, new)])
    return verdict


def test_a_bug_is_found_by_the_test_that_fails(small):
    verdict = _verdict(small, "2 * x", "3 * x")
    assert (verdict.test, verdict.hung) == ("tests/room/test_part.py::test_double", False)


def test_a_bug_that_no_test_looks_at_is_missed(small):
    verdict = _verdict(small, "2 * x", "x * x")
    assert (verdict.test, verdict.broken) == ("", "")


def test_a_bug_is_found_by_the_test_that_hangs(small):
    verdict = _verdict(small, "        x -= 1", "        x -= 0")
    assert (verdict.test, verdict.hung) == ("tests/room/test_part.py::test_count", True)


def test_a_bug_that_keeps_the_tests_from_being_read_is_not_found(small):
    verdict = _verdict(small, "def count", "def count_down")
    assert verdict.test == ""
    assert "exit code" in verdict.broken


def test_a_test_that_fails_without_the_bug_too_finds_nothing(small):
    (small.ROOT / "tests/room/test_part.py").write_text(
        "from kedge.room.part import double\n\n\n"
        "def test_broken():\n    assert not double(2)\n\n\n"
        "def test_double():\n    assert double(2) == 4\n"
    )
    assert _verdict(small, "2 * x", "3 * x").test == "tests/room/test_part.py::test_double"


def test_a_bug_that_is_missed_comes_with_the_command_that_plants_it(small, monkeypatch):
    missed = _bug(small, "2 * x", "x * x")
    monkeypatch.setattr(small, "all_bugs", lambda: [missed])
    found, there_are = small.prove(None)
    assert (found.value, found.good) == ("0 of 1", False)
    assert "PYTHONPATH=src .venv/bin/python proof/planted.py a_bug" in found.note
    assert there_are.good is False
