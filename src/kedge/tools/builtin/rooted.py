"""Paths that cannot leave the folders a person gave.

A path is opened component by component, each relative to the folder just opened and never through
a link (`openat` with O_NOFOLLOW). So there is no moment between check and use in which a link could
be swapped in: what was checked is what is open. Resolving the path first and comparing it with the
root, the usual way, has that moment. Links are therefore refused, also those that point inside.

Several roots lie over each other like layers: reading takes the first that has the path, writing
goes to the first.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kedge.base.errors import BadInput, ToolError
from kedge.base.failpoints import armed, reach
from kedge.base.ids import DEVICE_NAMES
from kedge.tools.builtin.reserved import Reserved

SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
UNSUPPORTED_BECAUSE = (
    "this system cannot open a file relative to an open folder, which keeps plans in their roots"
)

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _NOFOLLOW | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# NONBLOCK: opening a pipe must not wait for its other end; `fstat` refuses it a line later.
_FILE = _NOFOLLOW | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)

_PATH_BYTES_MAX = 4096
_NAME_BYTES_MAX = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_CHUNK = 1 << 20

_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP})
_WRONG_PATH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EEXIST})
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EBUSY})


class Rooted:
    """The folders that a plan's paths live in."""

    def __init__(self, roots: Sequence[Path], reserved: Reserved | None = None) -> None:
        if not roots:
            raise BadInput("there is no root folder", code="root", remedy="give at least one")
        for root in roots:
            if not Path(root).is_dir():
                raise BadInput(
                    f"the root {root} is not a folder", code="root", remedy="create it, or give another"
                )
        # A root itself may be a link: that is the choice of the person who gave it.
        self.roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self._reserved = reserved or Reserved()

    def __str__(self) -> str:
        return ", ".join(map(str, self.roots))

    def parts(self, path: str) -> tuple[str, ...]:
        """The names that `path` leads through below a root, or ToolError."""
        fault, category = _fault(path)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        for part in () if fault else parts:
            if part == "..":
                fault, category = "leads upward with '..'", "permission"
            elif part.split(".")[0].rstrip(" ").lower() in DEVICE_NAMES:
                fault, category = f"holds the device name {part!r}", "invalid_input"
            elif len(os.fsencode(part)) > _NAME_BYTES_MAX:
                fault, category = f"has a name longer than {_NAME_BYTES_MAX} bytes", "invalid_input"
        if not fault and any(self._reserved.hides(root, parts) for root in self.roots):
            fault, category = "is where kedge keeps its own files", "permission"
        if fault:
            raise ToolError(
                f"the path {_shown(path)} {fault}",
                "permission" if category == "permission" else "invalid_input",
                remedy=f"give a path below the root, as in 'reports/a.md' (roots: {self})",
            )
        return parts

    def can_name(self, path: str) -> bool:
        """Is a path from the disk one that may be given here? Disks allow more than plans may say."""
        try:
            return bool(self.parts(path))
        except ToolError:
            return False

    def read(self, path: str, max_bytes: int) -> bytes:
        """A file's bytes, from the first root that has it."""
        parts = self.parts(path)
        for root in self.roots:
            try:
                with self._folder(root, parts[:-1]) as folder:
                    return self._read_in(folder, parts[-1] if parts else ".", path, max_bytes)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._failure(error, path) from error
        raise self._missing(path)

    def write(self, path: str, data: bytes) -> None:
        """Replace a file whole, in the first root: readers see the old bytes or the new, never a part."""
        parts = self.parts(path)
        if not parts:
            raise ToolError(f"the path {_shown(path)} names no file (roots: {self})", "invalid_input")
        if self._reserved.fixes(self.roots[0], parts):
            raise ToolError(
                f"the path {_shown(path)} cannot be written: it is a setting or code of the program that "
                f"runs this plan (roots: {self})",
                "permission",
                remedy="write to another path; a person can change that file",
            )
        try:
            with self._folder(self.roots[0], parts[:-1], create=True) as folder:
                _replace(folder, parts[-1], data)
        except OSError as error:
            raise self._failure(error, path) from error

    def files(self, path: str, *, recursive: bool) -> Iterator[tuple[str, os.stat_result]]:
        """Path and facts of each file in a folder (or of one file), links left out, unsorted.

        A path that several roots have is given once, with the facts of the first.
        """
        start = self.parts(path)
        seen: set[str] = set()
        found = False
        for root in self.roots:
            try:
                for parts, facts in self._walk(root, start, recursive=recursive):
                    name = "/".join(parts)
                    if name not in seen:
                        seen.add(name)
                        yield name, facts
                found = True
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._failure(error, path) from error
        if not found:
            raise self._missing(path)

    def folder(self, path: str) -> Path:
        """The place of an existing folder, for programs that take a path and no open folder."""
        parts = self.parts(path)
        for root in self.roots:
            try:
                with self._folder(root, parts):
                    return root.joinpath(*parts)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._failure(error, path) from error
        raise self._missing(path)

    def _walk(
        self, root: Path, start: tuple[str, ...], *, recursive: bool
    ) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
        if start:
            with self._folder(root, start[:-1]) as folder:
                facts = os.stat(start[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode):
                yield start, facts
                return
        todo = [start]
        while todo:
            parts = todo.pop()
            try:
                with self._folder(root, parts) as folder, os.scandir(folder) as entries:
                    # Read it out before yielding: a folder stays open no longer than needed.
                    inside = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
            except FileNotFoundError:
                if parts == start:
                    raise
                continue  # went away after its parent was read
            place = root.joinpath(*parts)
            for name, facts in inside:
                if self._reserved.is_hidden(place / name):
                    continue
                if stat.S_ISREG(facts.st_mode):
                    yield (*parts, _text(name)), facts
                elif recursive and stat.S_ISDIR(facts.st_mode):
                    todo.append((*parts, name))

    @contextmanager
    def _folder(self, root: Path, parts: tuple[str, ...], *, create: bool = False) -> Generator[int]:
        """An open folder below a root, every step checked on the way down."""
        folder = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            for part in parts:
                try:
                    below = _open_folder(folder, part)
                except FileNotFoundError:
                    if not create:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                    below = _open_folder(folder, part)
                folder, above = below, folder  # first: a close that fails has closed it all the same
                os.close(above)
            yield folder
        finally:
            os.close(folder)

    def _read_in(self, folder: int, name: str, path: str, max_bytes: int) -> bytes:
        handle = os.open(name, _FILE, dir_fd=folder)
        try:
            facts = os.fstat(handle)
            if stat.S_ISDIR(facts.st_mode):
                raise ToolError(f"{_shown(path)} is a folder, not a file (roots: {self})", "invalid_input")
            if not stat.S_ISREG(facts.st_mode):
                raise ToolError(
                    f"{_shown(path)} is a device or a pipe, not a file (roots: {self})", "permission"
                )
            data = bytearray()
            # One byte more than allowed tells "as long as allowed" from "longer", and a file may grow.
            while len(data) <= max_bytes and (
                chunk := os.read(handle, min(_CHUNK, max_bytes + 1 - len(data)))
            ):
                data += chunk
        finally:
            os.close(handle)
        if len(data) > max_bytes:
            raise ToolError(
                f"{_shown(path)} is longer than {max_bytes:,} bytes (it has {facts.st_size:,})",
                "limit",
                remedy="split the file, or read it with a tool of your own",
            )
        return bytes(data)

    def _missing(self, path: str) -> ToolError:
        return ToolError(f"there is no {_shown(path)} (roots: {self})", "invalid_input")

    def _failure(self, error: OSError, path: str) -> ToolError:
        """What the system refused, in terms of the path and the roots."""
        number = error.errno
        reason = (
            "it leads through a link, and links are not followed" if number == errno.ELOOP else error.strerror
        )
        message = f"cannot use {_shown(path)}: {reason} (roots: {self})"
        if number in _PERMISSION:
            return ToolError(message, "permission")
        if number in _WRONG_PATH:
            return ToolError(message, "invalid_input")
        return ToolError(message, "transient" if number in _PASSING else "permanent")


def _fault(path: str) -> tuple[str, str]:
    """What is wrong with a path as a text, and the category of that; two empty texts if nothing is."""
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "cannot be a file name: it has half of a surrogate pair", "invalid_input"
    if not path:
        return "is empty; '.' is the root itself", "invalid_input"
    if length > _PATH_BYTES_MAX:
        return f"is longer than {_PATH_BYTES_MAX} bytes", "invalid_input"
    if _CONTROL.search(path):
        return "holds a control character", "invalid_input"
    if "\\" in path:
        return "holds a backslash: folders are separated by '/'", "invalid_input"
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute", "permission"
    if path.startswith("~"):
        return (
            "starts with '~', which stands for a home folder (a name can be written './~name')",
            "permission",
        )
    return "", ""


def _open_folder(folder: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        # Linux says "not a directory" of a link opened as a folder; say what it is.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write beside the file, bring it to the disk, then take the name in one move."""
    if armed:
        reach("files.write.before")
    mode = _mode_of(folder, name)
    draft = f".kedge-{secrets.token_hex(8)}.tmp"
    handle = os.open(draft, _NOFOLLOW | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        try:
            if mode is not None:
                os.fchmod(handle, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        if armed:
            reach("files.write.drafted")
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise
    if armed:
        reach("files.write.renamed")
    os.fsync(folder)  # the new name, too, must outlive a power cut


def _mode_of(folder: int, name: str) -> int | None:
    """Permissions of the file that is to be replaced; None if there is none yet."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(facts.st_mode):
        raise PermissionError(errno.EPERM, "it is a device or a pipe, not a file")
    return stat.S_IMODE(facts.st_mode)


def _text(name: str) -> str:
    """A name from the disk as text that can be stored: bytes that are no UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _shown(path: str) -> str:
    return repr(path) if len(path) <= 200 else f"{path[:200]!r}... ({len(path):,} characters)"
