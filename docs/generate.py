"""Writes the reference parts of README.md and docs/*.md, which are made from the code.

    python docs/generate.py           bring every `<!-- generated: NAME -->` … `<!-- end -->` up to date
    python docs/generate.py --check   change nothing; exit 1 and say where, if one is stale

A section is a function below, found by its name. It says what the code says: change the code, not
the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT / "src"), str(DOCS)]  # this checkout, whatever else is installed

import kit  # noqa: E402
import members  # noqa: E402
import others  # noqa: E402
import sections  # noqa: E402
from pages import fill, pages  # noqa: E402
from picture import demo_picture, demo_timeline, same_picture  # noqa: E402

Section = Callable[[], str]

SECTIONS: dict[str, Section] = {
    "actions": sections.actions,
    "budgets": sections.budgets,
    "built-in tools": sections.builtin_tools,
    "caps of tools": sections.caps_of_tools,
    "categories": sections.categories,
    "classes": members.classes_of_the_package,
    "codes": sections.codes_by_kind,
    "commands": sections.commands,
    "demo": demo_picture,
    "demo timeline": demo_timeline,
    "error classes": sections.error_classes,
    "events": sections.events,
    "fields of a plan": sections.plan_fields,
    "fields of a step": sections.step_fields,
    "fields of parts": sections.part_fields,
    "functions": sections.functions,
    "functions for tests": kit.functions_for_tests,
    "functions of the package": members.functions_of_the_package,
    "later": sections.later_fields,
    "limits": sections.limits,
    "others bugs": others.others_bugs,
    "reserved words": sections.reserved_words,
    "rooms": sections.rooms,
    "run events": sections.run_events,
    "run statuses": sections.run_statuses,
    "settings": sections.settings,
    "levels of events": sections.levels_of_events,
    "step statuses": sections.step_statuses,
    "suggestions": sections.suggestions,
    "transition picture": sections.transition_picture,
    "transitions": sections.transitions,
}
MEASURED = {"demo", "demo timeline"}
"""Real output of a run: its times differ each time, so only what it shows is held against the page."""


def main(arguments: list[str]) -> int:
    """Write or check every page; the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    check = arguments == ["--check"]
    stale: list[str] = []
    made: dict[str, str] = {}

    def content(name: str, present: str) -> str:
        if name not in SECTIONS:
            raise SystemExit(f"no section is named {name!r}; there are: {', '.join(SECTIONS)}")
        if name not in made:
            made[name] = SECTIONS[name]().strip()
        text = made[name]
        return present if name in MEASURED and same_picture(present, text) else text

    for page in pages(ROOT):
        old = page.read_text(encoding="utf-8")
        new = fill(old, content)
        if new != old:
            stale.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    print(f"{'checked' if check else 'written'}: {', '.join(stale) or 'everything is up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
