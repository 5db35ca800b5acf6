"""Names that others choose: of runs, of steps, and of files below a root that nothing may leave."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from hostile.corpus import texts_of
from hostile.guard import Broken, watched
from hostile.luck import Luck, changed
from kedge.base.errors import BadInput, ToolError
from kedge.base.ids import run_id
from kedge.plan.names import id_fault, is_id, suggested_id
from kedge.tools.builtin.rooted import Rooted

NAME_S = 0.010
CONTENT = b"inside"
SECRET = b"outside"
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_PIECES = (
    "a.txt", "sub", "deep", "b.txt", "..", ".", "", "...", ". .", "link", "up", "loop", "pipe", "~",
    "~root", "C:",
    "c:a.txt", "con", "CON", "nul.txt", "aux ", "com1", "lpt9.a", "COM\u00b9", "%2e%2e", "%2f",
    "\uff0e\uff0e", "\u2024\u2024", "\uff0f",
    "\\", "..\\", "\x00", "a.txt\x00.md", "\n", "\x7f", "\x85", "\ud800", "\udcff", "\u202e", "é", "é",
    "$HOME", "*",
    "a" * 255, "a" * 256, "ß" * 128, "-rf", "file:", "etc", "passwd", "proc", "self", "environ", "dev",
    "null", "'",
    '"', ";", "--", "kedge.db", ".kedge", "KEDGE.DB", ".env", "pyproject.toml", "<b>", "${a}", "{{a}}",
)  # fmt: skip
_GOOD = ("a.txt", "./a.txt", "sub/b.txt", "sub//deep/a.txt", "sub/./b.txt", "sub/", "a.txt/")
_JOINTS = ("/", "/", "/", "/", "//", "\\", "", "/./", "/../", "\u2044", "\uff0f")
_WORDS = (*_PIECES, "../", "/..", "/etc/passwd", "../outside.txt", "link/outside.txt", "up/outside.txt")


@cache
def _rooted() -> Rooted:
    """A folder with files, links out of it, a ring of links and a pipe; beside it, what may not be read."""
    place = Path(tempfile.mkdtemp(prefix="kedge-fuzz-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    root, outside = place / "root", place / "outside"
    (root / "sub" / "deep").mkdir(parents=True)
    outside.mkdir()
    for file in (root / "a.txt", root / "sub" / "b.txt", root / "sub" / "deep" / "a.txt"):
        file.write_bytes(CONTENT)
    for file in (place / "outside.txt", outside / "outside.txt"):
        file.write_bytes(SECRET)
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "leak.txt").symlink_to(place / "outside.txt")
    os.mkfifo(root / "pipe")
    return Rooted([root])


def name(luck: Luck) -> str:
    """A path, an id, or something that would like to be one."""
    if luck.percent(15):
        return "".join(changed(luck, list(luck.pick(texts_of("names"))[:300]), _WORDS, luck.below(3)))[:6_000]
    out = [luck.pick(_GOOD)] if luck.percent(30) else []
    for _ in range(luck.below(4) if out else 1 + luck.below(4)):
        out += [luck.pick(_PIECES), luck.pick(_JOINTS)]
    if luck.percent(60):
        out.pop()
    if luck.percent(40):
        changed(luck, out, _WORDS, 1 + luck.below(2))
    return "".join(out)[:6_000]


def _may_open(event: str, arguments: tuple[Any, ...]) -> bool:
    """Only what looking below a root takes: the root, and names in open folders, never through a link."""
    if event == "os.scandir":
        return isinstance(arguments[0], int)
    if event != "open":
        return False
    path, _, flags = arguments
    if str(path) == str(_rooted().roots[0]):
        return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return (
        isinstance(path, str)
        and "/" not in path
        and path != ".."
        and bool(flags & os.O_NOFOLLOW)
        and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    )


def judge(text: str) -> str:
    """As a run's id, a step's id, and a path to read and to list."""
    _judge_ids(text)
    rooted = _rooted()
    read, error = watched(lambda: rooted.read(text, 1_000), (ToolError,), NAME_S, _may_open)
    if error is None and read != CONTENT:
        raise Broken(f"read {read!r:.100}, which no path below the root leads to")
    listed, _ = watched(lambda: list(rooted.files(text, recursive=True)), (ToolError,), NAME_S, _may_open)
    for path, facts in listed or ():
        if facts.st_size != len(CONTENT) or path.startswith(("/", "..")) or "link" in path:
            raise Broken(f"listed {path!r}")
    watched(lambda: rooted.folder(text), (ToolError,), NAME_S, _may_open)
    if watched(lambda: rooted.can_name(text), (), NAME_S)[0] and ".." in text.split("/"):
        raise Broken("leads upward, and may be named")
    return "value" if error is None else str(getattr(error, "category", ""))


def _judge_ids(text: str) -> None:
    run, _ = watched(lambda: run_id(text), (BadInput,), NAME_S)
    if run is not None and (run != text or not 1 <= len(run) <= 64 or not set(run) <= _ALPHABET):
        raise Broken(f"is a run id: {run!r:.100}")
    fault, _ = watched(lambda: id_fault(text), (), NAME_S)
    if is_id(text) is not (fault is None):
        raise Broken("is an id, and has a fault")
    if is_id(text) and not set(text) <= _ALPHABET - {"-"}:
        raise Broken("is a step's id")
    better, _ = watched(lambda: suggested_id(text, {"step", "a"}), (), NAME_S)
    if better is None or not is_id(better) or better in ("step", "a"):
        raise Broken(f"{better!r:.100} is suggested for an id")
