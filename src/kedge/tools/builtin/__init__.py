"""The tools that come with kedge: files, data, text, http, shell, sleep, fail.

Contracts: what a plan says can only narrow what the person who made these tools allowed. File tools
stay in the given folders, `http.get` in the public network, and `shell.run` is off unless allowed.
Every one bounds what it reads and returns, and refuses beyond that with a clear error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kedge.tools.builtin.control import control_tools
from kedge.tools.builtin.data import data_tools
from kedge.tools.builtin.files import file_tools
from kedge.tools.builtin.http import http_tools
from kedge.tools.builtin.rooted import Rooted
from kedge.tools.builtin.shell import shell_tools
from kedge.tools.builtin.text import text_tools
from kedge.tools.tool import Tool


def builtin_tools(
    roots: Sequence[Path] | None = None, *, allow_shell: bool = False, allow_private_addresses: bool = False
) -> list[Tool]:
    """All built-in tools, kept to the folders `roots` (the current folder, if none are given)."""
    rooted = Rooted([Path.cwd()] if roots is None else roots)
    return [
        *file_tools(rooted),
        *data_tools(),
        *text_tools(),
        *http_tools(allow_private_addresses=allow_private_addresses),
        *shell_tools(rooted, allowed=allow_shell),
        *control_tools(),
    ]
