"""What the pages show works: Python runs, plans have no fault, commands exist."""

from __future__ import annotations

import os
import re
import runpy
import textwrap
from pathlib import Path

import pytest

import kedge
from kedge.surface.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "yaml", "sh", "text", "mermaid"}
FENCE = re.compile(r"^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(text: str) -> list[tuple[str, str]]:
    return FENCE.findall(text)


def blocks(language: str) -> list:
    """Every block in that language, named after its page and line."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match["language"] == language:
                line = text.count("\n", 0, match.start()) + 1
                found.append(pytest.param(match["text"], id=f"{page.name}:{line}"))
    return found


@pytest.mark.parametrize("block", blocks("python"))
def test_python_in_the_pages_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)  # where cassettes are not recorded
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    found = runpy.run_path(str(script), run_name="__main__")
    for name, test in found.items():
        if name.startswith("test_"):
            test()


@pytest.mark.parametrize("block", blocks("yaml"))
def test_plans_in_the_pages_have_no_fault(block):
    document = block
    if block.startswith("- id:"):
        document = "goal: A part of a plan\nsteps:\n" + textwrap.indent(block, "  ")
    findings = kedge.check(document, tools=kedge.builtin_tools())
    assert findings.errors == (), str(findings)
    assert findings.warnings == (), str(findings)


@pytest.mark.parametrize("block", blocks("mermaid"))
def test_diagrams_in_the_pages_go_to_the_real_parser(block, request):
    assert block.startswith(("stateDiagram-v2\n", "flowchart "))
    if folder := os.environ.get("MERMAID_OUT"):
        (Path(folder) / f"{request.node.callspec.id.replace(':', '-')}.mmd").write_text(
            block, encoding="utf-8"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    text = page.read_text(encoding="utf-8")
    strange = [language for language, _ in fences(text) if language not in LANGUAGES]
    assert strange == [], f"use one of {', '.join(sorted(LANGUAGES))}"
    assert text.count("```") == 2 * len(fences(text)), "a block that is not closed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    shown = [command for language, command in fences(text) if language == "sh"]
    shown += re.findall(r"`((?:make|kedge|\.venv/bin/kedge) [^`]*)`", text)
    for line in filter(None, "\n".join(shown).splitlines()):
        program, *words = line.split()
        if program == "make":
            assert words[0] in targets, line
        elif program.endswith("kedge"):
            assert words[0] in COMMANDS or words[0].startswith("--"), line


def test_the_readme_starts_with_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, first = next(iter(fences(readme)))
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            wrong.append(target)
    assert wrong == []


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def test_every_page_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme]
    assert missing == []


def test_every_example_is_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = [*(ROOT / "examples").glob("python/*.py"), *(ROOT / "examples").glob("*/plan.yaml")]
    missing = [path.relative_to(ROOT).as_posix() for path in examples
               if path.relative_to(ROOT).as_posix() not in readme]  # fmt: skip
    assert missing == []
