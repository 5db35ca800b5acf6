"""The tools that come with kedge: files, data, text, http, shell, sleep, fail.

Contracts: what a plan says can only narrow what the person who made these tools allowed. File tools
stay in the given folders, and there off kedge's own files; `http.get` stays in the public network, and
`shell.run` is off unless allowed. Every one bounds what it reads and returns, and refuses beyond that
with a clear error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kedge.base.errors import BadInput
from kedge.tools.builtin.control import control_tools
from kedge.tools.builtin.data import data_tools
from kedge.tools.builtin.files import file_tools
from kedge.tools.builtin.http import http_tools
from kedge.tools.builtin.reserved import own_files
from kedge.tools.builtin.rooted import Rooted
from kedge.tools.builtin.shell import shell_tools
from kedge.tools.builtin.text import text_tools
from kedge.tools.tool import Tool


def builtin_tools(
    roots: Sequence[Path] | None = None,
    *,
    reserved: Sequence[str | Path] = (),
    allow_shell: bool = False,
    allow_private_addresses: bool = False,
) -> list[Tool]:
    """All built-in tools, kept to the folders `roots` (the current folder, if none are given).

    `reserved` are files and folders in them that plans must not see, an engine's store for instance;
    `kedge.toml`, `.kedge` and loaded Python files are safe without a word.
    """
    if isinstance(roots, str | Path):  # a text is a sequence of letters, and each would be a root
        raise BadInput(
            f"the roots must be a list of folders, not {str(roots)!r}",
            code="root",
            remedy=f"give [{str(roots)!r}]",
        )
    here = Path.cwd()
    folders = [here] if roots is None else roots
    rooted = Rooted(folders, own_files([here, *folders], reserved))
    return [
        *file_tools(rooted),
        *data_tools(),
        *text_tools(),
        *http_tools(allow_private_addresses=allow_private_addresses),
        *shell_tools(rooted, allowed=allow_shell),
        *control_tools(),
    ]
