"""Text of others on a screen, in a diagram and in a picture: nothing in it may act on any of them."""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from functools import cache
from xml.etree.ElementTree import ParseError, fromstring

from hostile.corpus import texts_of
from hostile.guard import Broken, watched
from hostile.luck import Luck, changed
from kedge.base.errors import BadInput
from kedge.plan.findings import Finding
from kedge.plan.model import Loop, Plan, Step
from kedge.surface.cli.faults import finding_lines, report_error
from kedge.surface.cli.screen import Screen, lines_of
from kedge.views.draw import Form, draw
from kedge.views.text import clean, columns

TEXT_S = 0.010
DRAW_S = 0.100
_WIDTHS = (1, 2, 10, 80, 2_000)
_HIDDEN = frozenset({"Cc", "Cf", "Cs"})
WORDS = (
    "\x1b[31m", "\x1b[2J", "\x1b]0;t\x07", "\x1b]8;;http://x\x1b\\", "\x1b]52;c;aGk=\x07", "\x1bP1$r\x1b\\",
    "\x1b",
    "\x1b[", "\x1b]", "\x9b31m", "\x9d0;t\x9c", "\x90", "\x9c", "\x07", "\x08", "\r", "\n", "\t", "\x00",
    "\x7f",
    "\x1b[?1049h", "\x1bc", "\x1b[6n", "\x1b(0", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u0301",
    "\u0301" * 50, "\ufe0f", "\U000e0041", "\ud800", "\udfff", "\u2028", "\ufffe", "漢", "😀", "ﷺ", "e\u0301",
    '"', "'", "<", ">", "&", "#", ";", "`", "\\", "|", "[", "]", "(", ")", "{", "}", "%%{init: {}}%%",
    "end", "---",
    "-->", "click s0 href", "subgraph", "<br/>", "</text><script>alert(1)</script>", "]]>", "<!--", "&#60;",
    "&lt;",
    "<![CDATA[", "<?xml?>", "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>", "javascript:alert(1)",
    "#34;",
    "style s0 fill:#f00", "classDef", ":::x", "@{ shape: x }", "[bold red]x[/]", "[link=http://x]",
    "=cmd()", "${a}",
    "x", "word", " ", "  ", "\xa0", "\u3000", "a" * 300, "_" * 30, "**b**", "$$x$$", "\\u0022", "\\",
    "title:",
)  # fmt: skip


def text(luck: Luck) -> str:
    """A text that somebody else put into a plan, an error or a log."""
    if luck.percent(15):
        return "".join(changed(luck, list(luck.pick(texts_of("text"))[:400]), WORDS, luck.below(4)))[:5_000]
    out = [luck.pick(WORDS) for _ in range(1 + luck.below(6))]
    return "".join(changed(luck, out, WORDS, luck.below(3)))[:5_000]


def judge(given: str) -> str:
    """Cleaned, said on a terminal, and drawn in one of four ways."""
    width = _WIDTHS[len(given) % len(_WIDTHS)]
    shown, _ = watched(lambda: clean(given, width), (), TEXT_S)
    if shown is None or columns(shown) > width or not _is_visible(shown):
        raise Broken(f"{shown!r:.300} is shown in {width} columns")
    if clean(shown, width) != shown:
        raise Broken(f"{shown!r:.300} is not clean when it is cleaned")
    _on_a_terminal(given)
    form = ("ascii", "mermaid", "svg", "none")[len(given) % 4]
    if form == "ascii":
        _only_visible(_drawn(given, "ascii"))
    elif form == "mermaid":
        _is_a_flowchart(_drawn(given, "mermaid"))
    elif form == "svg":
        _is_a_picture(_drawn(given, "svg"))
    return "value" if shown == given else "changed"


def _is_visible(line: str) -> bool:
    return all(unicodedata.category(char) not in _HIDDEN for char in line) and "\u2028" not in line


def _only_visible(shown: str) -> None:
    for line in shown.split("\n"):
        if not _is_visible(line):
            raise Broken(f"{line!r:.300} is shown")


def _on_a_terminal(given: str) -> None:
    """What the command line writes of it, without colours."""
    screen = _screen()
    finding = Finding(code="x", message=given, path=given, step=given, allowed=(given,), remedy=given)
    kept, sys.stderr = sys.stderr, io.StringIO()
    try:
        said, _ = watched(lambda: lines_of(given) + "\n" + finding_lines(screen, finding), (), 10 * TEXT_S)
        error = BadInput(given, where=given, allowed=(given,), remedy=given)
        watched(lambda: report_error(error, as_json=False), (), 10 * TEXT_S)
        _only_visible((said or "") + "\n" + sys.stderr.getvalue())
    finally:
        sys.stderr = kept


@cache
def _screen() -> Screen:
    screen = Screen()
    screen.colour = False
    return screen


def _drawn(given: str, form: Form) -> str:
    steps = (
        Step(id="a", do=given, tool=given, when=given),
        Step(id="b", do=given, role=given, loop=Loop(times=2), after=("a",), resources=(given,)),
        Step(id="c", do=given, steps=(Step(id="d", do=given, tool="get", foreach=given),)),
    )
    drawn, _ = watched(lambda: draw(Plan(goal=given, steps=steps), None, form), (), DRAW_S)
    if not drawn:
        raise Broken("nothing is drawn")
    return drawn


_ID = r"s[0-9]+"
_LABEL = r"\"(?:[A-Za-z0-9 ,._-]|#[0-9]+;|<br/>|[^\x00-\x7f])*\""
_SHAPE = r"[\[\](){}<>/\\|]{1,3}"
_LINE = re.compile(
    rf"---|title: \"(?:[A-Za-z0-9 ,._-]|\\u[0-9a-f]{{4}}|[^\x00-\x7f])*\"|flowchart TD|\s+end"
    rf"|\s+subgraph {_ID}\[{_LABEL}\]|\s+{_ID}{_SHAPE}{_LABEL}{_SHAPE}"
    rf"|\s+{_ID} --> {_ID}|\s+{_ID} -\. \"fallback\" \.-> {_ID}|\s+linkStyle [0-9,]+ stroke-width:4px"
)


def _is_a_flowchart(drawn: str) -> None:
    """Every line is one of ours: what is in a label is plain, or a character's code."""
    for line in drawn.split("\n"):
        if not _LINE.fullmatch(line) or not _is_visible(line):
            raise Broken(f"{line!r:.300} is a line of the diagram")


_TAGS = {"svg", "title", "style", "defs", "marker", "path", "rect", "text", "g"}


def _is_a_picture(drawn: str) -> None:
    """It is XML, of our elements only, none of which does anything."""
    try:
        root = fromstring(drawn)  # noqa: S314 - it is what is judged
    except ParseError as error:
        raise Broken(f"the picture is no XML: {error}") from None
    for element in root.iter():
        if element.tag.removeprefix("{http://www.w3.org/2000/svg}") not in _TAGS:
            raise Broken(f"the picture has a {element.tag}")
        if any(name.startswith("on") or "href" in name for name in element.attrib):
            raise Broken(f"the picture has {element.attrib}")
        if not _is_visible((element.text or "").replace("\n", "")):
            raise Broken(f"the picture says {element.text!r:.300}")
