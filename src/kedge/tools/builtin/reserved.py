"""Files that no plan may touch, though they lie in its roots.

A plan that can write the settings gives itself what its person withheld, one that can write the
store ends every run, and one that can write the code of this program is that program from the next
command on. The root is the current folder unless set, and all three usually lie there.

Places are compared by their real path in one spelling: case and accents may be written in several
ways, and on some disks all of them name the same file. Refusing one too many on the others is no loss.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

SETTINGS_FILE = "kedge.toml"
DATA_FOLDER = ".kedge"


class Reserved:
    """What a plan cannot see (`hidden`), and what it can read and not write (`fixed` and loaded code)."""

    def __init__(self, hidden: Iterable[str | Path] = (), fixed: Iterable[str | Path] = ()) -> None:
        self._hidden = frozenset(_key(os.path.realpath(place)) for place in hidden)
        self._fixed = frozenset(_key(os.path.realpath(place)) for place in fixed)

    def is_hidden(self, place: Path) -> bool:
        """Is it one of the hidden places itself? For a walk, which does not go on below one."""
        return bool(self._hidden) and _key(place) in self._hidden

    def hides(self, root: Path, parts: tuple[str, ...]) -> bool:
        """Does the way down from a root lead to a hidden place? A root itself is a person's choice."""
        return any(_key(place) in self._hidden for place in _on_the_way(root, parts))

    def fixes(self, root: Path, parts: tuple[str, ...]) -> bool:
        """Writing there would change the settings, or code that this program runs."""
        way = _on_the_way(root, parts)
        return any(_key(place) in self._fixed for place in way) or _is_loaded(way[-1])


def own_files(folders: Iterable[Path], hidden: Iterable[str | Path]) -> Reserved:
    """The reserved files of kedge in these folders, and the hidden ones besides."""
    places = [Path(folder) for folder in folders]
    return Reserved(
        [*(place / DATA_FOLDER for place in places), *hidden], [place / SETTINGS_FILE for place in places]
    )


def _on_the_way(root: Path, parts: tuple[str, ...]) -> list[Path]:
    return [root.joinpath(*parts[: count + 1]) for count in range(len(parts))]


def _is_loaded(place: Path) -> bool:
    """A file that Python loaded, or one that it would load in its stead: a package goes first."""
    keys = {_key(place)}
    if place.name == "__init__.py":
        keys.add(f"{_key(place.parent)}.py")
    names = {Path(key).name for key in keys}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # The name first: finding the real path of every module would take longer than the writing.
        if file and _key(Path(file).name) in names and _key(os.path.realpath(file)) in keys:
            return True
    return False


def _key(place: str | Path) -> str:
    return unicodedata.normalize("NFC", str(place)).casefold()
