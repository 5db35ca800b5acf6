"""The generated parts of the pages are what the code says, and the generator notices when they are not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STALE = "# Page\n\n<!-- generated: limits -->\nan old text\n<!-- end -->\n\nThe end.\n"


@pytest.fixture(autouse=True)
def _generator_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


@pytest.fixture
def generate(tmp_path, monkeypatch):
    """The generator, with one page of its own."""
    generator = import_module("generate")
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    monkeypatch.setattr(generator, "pages", lambda root: [root / "page.md"])
    return generator.main


def test_the_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_told_and_left_alone_by_check(generate, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(STALE)
    assert generate(["--check"]) == 1
    assert "stale: page.md" in capsys.readouterr().err
    assert page.read_text() == STALE


def test_a_stale_page_is_written_anew_and_nothing_else_of_it_changes(generate, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(STALE)
    assert generate([]) == 0
    text = page.read_text()
    assert "| `parallel` | 16 |" in text
    assert text.startswith("# Page\n\n<!-- generated: limits -->\n| limit |")
    assert text.endswith("\n<!-- end -->\n\nThe end.\n")
    assert generate(["--check"]) == 0


def test_an_unknown_place_is_an_error_that_names_the_known_ones(generate, tmp_path):
    (tmp_path / "page.md").write_text(STALE.replace("limits", "limist"))
    with pytest.raises(SystemExit, match=r"'limist'; there are: .*limits"):
        generate([])


def test_every_section_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in import_module("pages").pages(ROOT))
    unused = [
        name for name in import_module("generate").SECTIONS if f"<!-- generated: {name} -->" not in text
    ]
    assert unused == []


def test_every_code_has_a_meaning_and_every_meaning_a_code():
    codes = import_module("codes")
    found = codes.found_codes(ROOT / "src" / "kedge")
    wrong = codes.unsaid(found, codes.meanings(ROOT / "docs" / "codes.txt"))
    assert wrong == [], "mend docs/codes.txt, then run make docs"
    assert len(found) > 150


def test_every_public_member_says_what_it_is():
    assert import_module("members").unsaid() == []


def test_what_init_gives_an_instance_is_a_member_too():
    named = {name for name, _, _ in import_module("members").members(import_module("kedge").RunResult)}
    assert {"run_id", "plan_id", "version", "steps", "status", "summary"} <= named


def test_every_public_name_is_on_a_page():
    import kedge

    text = "".join(page.read_text(encoding="utf-8") for page in import_module("pages").pages(ROOT))
    told = set(re.findall(r"\w+", text))
    assert set(kedge.__all__) - told == {"__version__"}


def test_the_reader_of_codes_sees_every_form():
    codes = import_module("codes")
    text = (
        "raise BadInput('no', code='by_keyword')\n"
        "finding(node, 'by_place', 'field', 'message')\n"
        "at.fail('one_way' if x else 'other_way', 'message')\n"
        "code, remedy = 'by_pair', 'do'\n"
        "table = {'**': ('expr_in_table', 'message', 'remedy')}\n"
        "def f():\n    return 'by_return', f'message {x}'\n"
        "print('not_a_code')\n"
    )
    assert set(codes._codes_in(ast.parse(text))) == {
        "by_keyword", "by_place", "one_way", "other_way", "by_pair", "expr_in_table", "by_return",
    }  # fmt: skip


def test_pictures_are_the_same_if_only_times_differ():
    same_picture = import_module("picture").same_picture
    one = "├─ ✓ a [normal] · 1 ms\n███\ndone: 2 done · in 0.3 s\ncritical path 0.3 s: a → b"
    other = "├─ ✓ a [normal] · 1.2 s\n█████\ndone: 2 done · in 4 min\ncritical path 2 s: c → b"
    assert same_picture(one, other)
    assert not same_picture(one, other.replace("✓ a", "✗ a"))


def test_a_table_keeps_its_columns():
    table = import_module("pages").table
    assert table(("a", "b"), [("x | y", "two\nlines")]).splitlines()[2] == r"| x \| y | two lines |"


def test_every_cap_of_the_built_in_tools_is_on_the_page_of_limits():
    page = (ROOT / "docs" / "limits.md").read_text()
    caps = {
        f"{file.stem}.{name}": value
        for file in sorted((ROOT / "src/kedge/tools/builtin").glob("*.py"))
        for name, value in vars(import_module(f"kedge.tools.builtin.{file.stem}")).items()
        if "_MAX" in name and not name.startswith("_")
    }
    assert len(caps) > 10
    assert [name for name, value in caps.items() if f"{value:,}" not in page] == []
