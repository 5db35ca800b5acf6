"""files.list, files.read, files.search, files.write: inside the given folders only."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from kedge.base.errors import ToolError
from kedge.tools.builtin.rooted import SUPPORTED, UNSUPPORTED_BECAUSE, Rooted
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.tool import Tool

FILE_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 50_000
MATCHES_MAX = 10_000
LINE_CHARACTERS_MAX = 500
_PATTERN_MAX = 255


class FileFacts(msgspec.Struct, frozen=True):
    """One file of a folder."""

    path: str
    name: str
    size: int
    modified_at: str


class FileList(msgspec.Struct, frozen=True):
    """What files.list found, sorted by path, and the files whose names cannot be a plan's path."""

    files: list[FileFacts]
    skipped: list[str]
    """As a name with a line break or a backslash: no other tool would take it."""


class Match(msgspec.Struct, frozen=True):
    """One line that holds the text."""

    path: str
    line: int
    text: str


class Matches(msgspec.Struct, frozen=True):
    """What files.search found, by path and line, and the files it could not read as text."""

    matches: list[Match]
    skipped: list[str]


class Written(msgspec.Struct, frozen=True):
    """The file that files.write wrote."""

    path: str
    size: int


def file_tools(rooted: Rooted) -> list[Tool]:
    """The files.* tools for these roots."""
    available = True if SUPPORTED else UNSUPPORTED_BECAUSE

    @tool(name="files.list", effect="read", available=available)
    def list_files(path: str = ".", pattern: str = "*", *, recursive: bool = False) -> FileList:
        """List the files of a folder, sorted by path, without folders and links.

        path: the folder, relative to the root
        pattern: which names, with * ? and [abc]
        recursive: folders inside it, too
        """
        return _listed(rooted, _matching(rooted, path, pattern, recursive=recursive))

    @tool(name="files.read", effect="read", available=available)
    def read_file(path: str) -> str:
        """Read a text file (UTF-8).

        path: the file, relative to the root
        """
        return _decoded(rooted.read(path, FILE_BYTES_MAX), path)

    @tool(name="files.search", effect="read", available=available)
    def search_files(text: str, ctx: Context, path: str = ".", pattern: str = "*") -> Matches:
        """Find the lines that hold a text, in a file or in a folder and the folders inside it.

        text: what to find, letter by letter (no pattern)
        path: the file or folder, relative to the root
        pattern: which file names, with * ? and [abc]
        """
        if not text or "\n" in text:
            raise ToolError("the text to find must be one line and not empty", "invalid_input")
        found = Matches([], [])
        for name, _ in _matching(rooted, path, pattern, recursive=True):
            if ctx.cancelled:
                raise ToolError(f"cancelled in {name}", "cancelled")
            try:
                content = _decoded(rooted.read(name, FILE_BYTES_MAX), name)
            except ToolError:
                found.skipped.append(name)  # binary, too long or gone: the caller sees which
                continue
            found.matches.extend(_lines_with(text, name, content))
            if len(found.matches) > MATCHES_MAX:
                raise ToolError(
                    f"more than {MATCHES_MAX:,} lines hold {text[:80]!r}",
                    "limit",
                    remedy="search for a longer text, or in fewer files (pattern, path)",
                )
        return found

    @tool(name="files.write", effect="idempotent", available=available)
    def write_file(path: str, text: str) -> Written:
        """Write a text file whole, in one move; folders it lies in are made.

        path: the file, relative to the root
        text: all of its new content
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the text for {path!r} is not valid Unicode: {error}", "invalid_input"
            ) from error
        rooted.write(path, data)
        return Written(path, len(data))

    return [list_files, read_file, search_files, write_file]


def _matching(rooted: Rooted, path: str, pattern: str, *, recursive: bool) -> list[tuple[str, Any]]:
    if "/" in pattern or len(pattern) > _PATTERN_MAX:
        raise ToolError(
            f"the pattern {pattern[:80]!r} must be for names: no '/', at most {_PATTERN_MAX} characters",
            "invalid_input",
            remedy="give the folder as path; recursive takes the folders inside it",
        )
    found: list[tuple[str, Any]] = []
    for name, facts in rooted.files(path, recursive=recursive):
        if not fnmatch.fnmatchcase(name.rpartition("/")[2], pattern):
            continue
        found.append((name, facts))
        if len(found) > FILES_MAX:
            raise ToolError(
                f"{path!r} holds more than {FILES_MAX:,} files that match {pattern!r}",
                "limit",
                remedy="name a folder further inside, or a narrower pattern",
            )
    return sorted(found, key=lambda item: item[0])


def _listed(rooted: Rooted, found: list[tuple[str, Any]]) -> FileList:
    result = FileList([], [])
    for path, facts in found:
        if rooted.can_name(path):
            result.files.append(_facts(path, facts.st_size, facts.st_mtime))
        else:
            result.skipped.append(path)
    return result


def _facts(path: str, size: int, modified_s: float) -> FileFacts:
    when = datetime.fromtimestamp(modified_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return FileFacts(path, path.rpartition("/")[2], size, when)


def _decoded(data: bytes, path: str) -> str:
    position = data.find(b"\0")
    if position < 0:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            position = error.start
    raise ToolError(
        f"{path!r} is not a UTF-8 text file: byte {position:,} is 0x{data[position]:02x}",
        "invalid_input",
        remedy="convert it to UTF-8, or read it with a tool of your own",
    )


def _lines_with(text: str, path: str, content: str) -> Iterator[Match]:
    if text not in content:
        return
    for number, line in enumerate(content.split("\n"), start=1):
        if text in line:
            yield Match(path, number, line.rstrip("\r")[:LINE_CHARACTERS_MAX])
