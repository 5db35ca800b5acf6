"""Known attacks and a few thousand inputs of each kind, and proof that a judge would notice.

The interpreter's audit hook cannot be taken out again, so what needs it runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "proof"))

from hostile.corpus import attacks  # noqa: E402
from hostile.guard import Broken, watched  # noqa: E402
from hostile.luck import Given, Seeded  # noqa: E402
from hostile.reference import NoOpinion, Refused, evaluate  # noqa: E402
from hostile.targets import TARGETS  # noqa: E402

EACH = 2_000


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'proof'}", "PYTHONIOENCODING": "utf-8"},
    )


def test_no_known_attack_and_no_hostile_input_gets_through():
    ran = python("proof/run.py", "--only", "fuzz", "--told", "--count", str(EACH))
    assert ran.returncode == 0, ran.stderr
    facts = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [fact for fact in facts if not fact["good"]] == [], ran.stderr
    assert len(facts) == len(TARGETS) >= 8


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_says_what_each_attack_tries(name):
    known = attacks(name)
    assert len(known) >= 20
    assert len({text for _, text in known}) == len(known)
    assert all(len(what) > 4 for what, _ in known)


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_is_the_same_each_time(name):
    target = TARGETS[name]
    for seed in range(20):
        assert ascii(_shown(target.of_seed(seed))) == ascii(_shown(target.of_seed(seed)))
    for data in (b"", b"\x00\xff", bytes(range(256))):
        target.judge(target.of_bytes(data))


def _shown(given):
    """What identifies an input: the text itself, or how it is built up."""
    return given if isinstance(given, str | bytes) else type(given).__name__


def test_bytes_are_choices_and_no_bytes_the_simplest():
    assert [Given(b"\x05\x01").below(4), Given(b"").below(4), Given(b"\x01\x00").below(1_000)] == [1, 0, 256]
    assert not Given(b"").percent(99)
    assert [Seeded(1).below(10) for _ in range(3)] == [Seeded(1).below(10)] * 3


WATCHED = """
import sys
from hostile.guard import Broken, keep_watch, watched
keep_watch()
watched(lambda: sorted([1, 2]), (), 1.0)
try:
    watched(lambda: {0}, (Exception,), 1.0)
except Broken as broken:
    print(broken)
    sys.exit(3)
"""


@pytest.mark.parametrize(
    "done",
    [
        "eval('1')",
        "exec('x = 1')",
        "compile('1', 'f', 'eval')",
        "open('/dev/null')",
        "__import__('colorsys')",
        "__import__('os').system('true')",
        "__import__('os').listdir('/')",
        "__import__('os').putenv('A', 'b')",
        "__import__('subprocess').Popen(['true'])",
        "__import__('socket').socket()",
        "__import__('pickle').loads(b'cos\\nsystem\\n.')",
        "__import__('sys')._getframe()",
    ],
)
def test_the_interpreter_tells_on_whoever_acts(done):
    ran = python("-c", WATCHED.format(done))
    assert ran.returncode == 3, (ran.stdout, ran.stderr)
    assert "did what no text may do" in ran.stdout


def test_a_strange_error_and_lost_time_are_noticed():
    def lose() -> int:
        return sum(range(3_000_000))

    for error in (KeyError("x"), RecursionError(), MemoryError(), UnicodeError("x")):
        with pytest.raises(Broken, match=type(error).__name__):
            watched(lambda error=error: _throw(error), (), 1.0)
    with pytest.raises(Broken, match="ms of CPU"):
        watched(lose, (), 0.001)
    assert watched(lambda: _throw(KeyError("x")), (KeyError,), 1.0)[0] is None


def _throw(error: Exception) -> None:
    raise error


PLANTED = [
    (
        "expression",
        "1 + 2",
        "kedge.plan.expr.operators.ARITHMETIC",
        {"+": lambda frame, left, right, site: 4},
    ),
    ("expression", "1 == 2", "kedge.plan.expr.operators.COMPARISON", {"==": lambda *_: True}),
    ("expression", "a.missing", "kedge.plan.expr.operators.get", lambda *_: None),
    ("template", "x${n}", "kedge.plan.expr.template.text_of", lambda value: "${n}"),
    ("yaml", "goal: on\nsteps: []", "kedge.plan.yaml_text.plain_value", lambda text: text + "x"),
    ("codec", '{"b": 1, "a": 2}', "hostile.values.encode", lambda value: b'{"b":1,"a":2}'),
    ("codec", "[1]", "hostile.values.decode", lambda raw: {1}),
    ("names", "../x", "hostile.names.run_id", lambda text: text),
    ("names", "a.txt", "kedge.tools.builtin.rooted.Rooted.read", lambda *_: b"outside"),
    ("text", "\x1b[31mred", "hostile.labels.clean", lambda text, width: text),
    ("text", "a" * 3 + "\x1b[31m", "kedge.views.ascii.clean", lambda text, width=80: text),
    ("text", '"]; x', "kedge.views.mermaid.escape", lambda text: text),
    ("text", "<script>..", "kedge.views.canvas.escape", lambda text: text),
    ("events", '{"kind":"OsSystem"}', "hostile.journals.fold", lambda *_: 1 / 0),
    ("plan", '{"goal": "g"}', "hostile.documents.check", lambda *_: {}["x"]),
    ("json", '{"goal": "g"}', "hostile.documents.Plan.parse", lambda *_: {}["x"]),
]


@pytest.mark.parametrize(("name", "text", "place", "wrong"), PLANTED, ids=[row[2] for row in PLANTED])
def test_a_judge_notices_what_is_wrong(name, text, place, wrong, monkeypatch):
    from kedge.plan.expr import expression

    expression._parse.cache_clear()
    target = TARGETS[name]
    target.judge(target.of_text(text))
    expression._parse.cache_clear()
    if isinstance(wrong, dict):
        for key, value in wrong.items():
            monkeypatch.setitem(_found(place), key, value)
    else:
        monkeypatch.setattr(place, wrong)
    with pytest.raises(Broken):
        target.judge(target.of_text(text))
    expression._parse.cache_clear()


def _found(place: str):
    module, _, name = place.rpartition(".")
    return getattr(sys.modules[module], name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("true == 1", False),
        ("[1, 2][-1] if present(x.y) else len('abc')", 3),
        ("sum([0.1] * 3)", Refused),
        ("'a' in {'a': 1} and not false", True),
        ("x.if", NoOpinion),
        ("18446744073709551615 + 1", Refused),
        ("round(2.5) + int(' 7 ') + float('1e2')", 109.0),
    ],
)
def test_the_second_evaluator_has_opinions_of_its_own(text, expected):
    if isinstance(expected, type):
        with pytest.raises(expected):
            evaluate(text, {"x": {}})
    else:
        assert evaluate(text, {"x": {}}) == expected
