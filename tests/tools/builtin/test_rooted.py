import contextlib
import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base.errors import BadInput, ToolError
from kedge.tools.builtin import rooted as rooted_module
from kedge.tools.builtin.reserved import Reserved
from kedge.tools.builtin.rooted import Rooted


@pytest.fixture
def root(tmp_path):
    inside = tmp_path / "root"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return inside


HOSTILE = [
    ("../secret.txt", "permission", "upward"),
    ("a/../../secret.txt", "permission", "upward"),
    ("a/..", "permission", "upward"),
    ("/etc/passwd", "permission", "absolute"),
    ("//etc/passwd", "permission", "absolute"),
    ("C:/x", "permission", "absolute"),
    ("c:x", "permission", "absolute"),
    ("~/x", "permission", "home"),
    ("~root/x", "permission", "home"),
    ("a\0b", "invalid_input", "control"),
    ("a\nb", "invalid_input", "control"),
    ("\x1b[2Jx", "invalid_input", "control"),
    ("..\\secret.txt", "invalid_input", "backslash"),
    ("\\\\server\\share", "invalid_input", "backslash"),
    ("", "invalid_input", "empty"),
    ("con", "invalid_input", "device"),
    ("a/NUL.txt", "invalid_input", "device"),
    ("com1 .log", "invalid_input", "device"),
    ("a" * 256, "invalid_input", "255"),
    ("é" * 128, "invalid_input", "255"),
    ("a/" * 2100 + "b", "invalid_input", "4096"),
    ("a" * 1_000_000, "invalid_input", "4096"),
    ("\ud800", "invalid_input", "surrogate"),
]


@pytest.mark.parametrize(("path", "category", "says"), HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("use", ["read", "write", "files", "folder"])
def test_no_hostile_path_gets_anywhere(root, path, category, says, use):
    rooted = Rooted([root])
    uses = {
        "read": lambda: rooted.read(path, 100),
        "write": lambda: rooted.write(path, b"x"),
        "files": lambda: list(rooted.files(path, recursive=True)),
        "folder": lambda: rooted.folder(path),
    }
    with pytest.raises(ToolError, match=says) as caught:
        uses[use]()
    assert caught.value.category == category
    assert str(root) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert list(root.iterdir()) == []


@given(st.text(st.sampled_from("ab./~\\:\0 é"), max_size=12))
def test_whatever_the_path_its_parts_only_lead_down(path):
    rooted = Rooted.__new__(Rooted)
    rooted.roots = ()
    try:
        parts = rooted.parts(path)
    except ToolError:
        return
    assert all(part not in ("", ".", "..") and not set(part) & set("/\\\0") for part in parts)
    assert not path.startswith(("/", "~"))


def links(root):
    """Links of every kind: to a file and a folder outside, inside, to nothing, to themselves."""
    (root / "real").mkdir()
    (root / "real" / "a.txt").write_text("a")
    for name, target in [
        ("file_out", "../secret.txt"),
        ("folder_out", "../outside"),
        ("absolute_out", str(root.parent / "outside")),
        ("folder_in", "real"),
        ("file_in", "real/a.txt"),
        ("nothing", "no/where"),
        ("itself", "itself"),
    ]:
        (root / name).symlink_to(target)


@pytest.mark.parametrize(
    "path",
    [
        "file_out",
        "folder_out/secret.txt",
        "absolute_out/secret.txt",
        "folder_in/a.txt",
        "file_in",
        "nothing",
        "itself",
    ],
)
def test_links_are_never_followed(root, path):
    links(root)
    rooted = Rooted([root])
    for use in (lambda: rooted.read(path, 100), lambda: rooted.write(path, b"x")):
        with pytest.raises(ToolError, match="link") as caught:
            use()
        assert caught.value.category == "permission"
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret"
    assert sorted(p.name for p in (root.parent / "outside").iterdir()) == ["secret.txt"]
    assert (root / "real" / "a.txt").read_text() == "a"


def test_links_are_left_out_of_listings(root):
    links(root)
    rooted = Rooted([root])
    assert [path for path, _ in rooted.files(".", recursive=True)] == ["real/a.txt"]
    with pytest.raises(ToolError, match="link"):
        list(rooted.files("folder_out", recursive=True))


def test_a_root_may_itself_be_reached_through_a_link(root):
    (root.parent / "alias").symlink_to("root")
    (root / "a").write_text("a")
    assert Rooted([root.parent / "alias"]).read("a", 10) == b"a"


def test_a_link_swapped_in_between_never_lets_a_read_or_write_out(root):
    """A folder and a link to the outside trade places all the time: what is read is never the secret."""
    rooted = Rooted([root])
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("inside")
    (root / "link").symlink_to("../outside")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for source, target in (("real", "sub"), ("sub", "real"), ("link", "sub"), ("sub", "link")):
                while True:
                    try:
                        (root / source).rename(root / target)
                        break
                    except OSError:  # a write made a folder of that name while it was free
                        shutil.rmtree(root / target, ignore_errors=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        read = []
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            with contextlib.suppress(ToolError):
                read.append(rooted.read("sub/secret.txt", 100))
            with contextlib.suppress(ToolError):
                rooted.write("sub/new.txt", b"new")
    finally:
        stop.set()
        swapper.join()
    assert set(read) <= {b"inside"}
    assert [p.name for p in (root.parent / "outside").iterdir()] == ["secret.txt"]


@pytest.mark.parametrize(
    ("make", "path", "category", "says"),
    [
        (lambda root: os.mkfifo(root / "pipe"), "pipe", "permission", "pipe"),
        (lambda root: (root / "d").mkdir(), "d", "invalid_input", "folder"),
        (lambda root: None, ".", "invalid_input", "file"),
        (lambda root: (root / "f").write_text(""), "f/x", "invalid_input", "[Nn]ot a directory"),
    ],
    ids=["pipe", "folder", "root", "below a file"],
)
def test_only_files_are_read_or_replaced(root, make, path, category, says):
    make(root)
    rooted = Rooted([root])
    for use in (lambda: rooted.read(path, 100), lambda: rooted.write(path, b"x")):
        with pytest.raises(ToolError, match=says) as caught:
            use()
        assert caught.value.category == category


def test_what_is_missing_is_named_with_the_roots(root):
    rooted = Rooted([root, root.parent / "outside"])
    for use in (
        lambda: rooted.read("no/file", 100),
        lambda: list(rooted.files("no", recursive=False)),
        lambda: rooted.folder("no"),
    ):
        with pytest.raises(ToolError, match=r"there is no 'no.*roots: .*outside") as caught:
            use()
        assert caught.value.category == "invalid_input"


def test_a_file_longer_than_allowed_is_refused_and_one_as_long_is_not(root):
    (root / "f").write_bytes(b"x" * 100)
    rooted = Rooted([root])
    assert rooted.read("f", 100) == b"x" * 100
    with pytest.raises(ToolError, match="longer than 99 bytes") as caught:
        rooted.read("f", 99)
    assert caught.value.category == "limit"


def test_a_write_replaces_the_whole_file_keeps_its_mode_and_makes_folders(root):
    rooted = Rooted([root])
    rooted.write("a/b/c.sh", b"long old content")
    (root / "a/b/c.sh").chmod(0o754)
    rooted.write("a/b/c.sh", b"new")
    assert (root / "a/b/c.sh").read_bytes() == b"new"
    assert (root / "a/b/c.sh").stat().st_mode & 0o777 == 0o754
    assert [p.name for p in (root / "a/b").iterdir()] == ["c.sh"]


@pytest.mark.parametrize("failing", ["write", "fsync", "rename"])
@pytest.mark.parametrize(
    ("error", "category"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "transient"),
        (OSError(errno.EIO, "I/O error"), "permanent"),
        (OSError(errno.EROFS, "Read-only file system"), "permission"),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(root, monkeypatch, failing, error, category):
    rooted = Rooted([root])
    rooted.write("a.txt", b"old")

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(rooted_module.os, failing, fail)
    with pytest.raises(ToolError, match=r"cannot use 'a\.txt'") as caught:
        rooted.write("a.txt", b"new")
    monkeypatch.undo()
    assert caught.value.category == category
    assert [(p.name, p.read_bytes()) for p in root.iterdir()] == [("a.txt", b"old")]


def test_a_reader_sees_the_old_bytes_or_the_new_never_a_part(root):
    rooted = Rooted([root])
    contents = [bytes([65 + i]) * 200_000 for i in range(2)]
    rooted.write("f", contents[0])
    writer = threading.Thread(target=lambda: [rooted.write("f", contents[i % 2]) for i in range(40)])
    writer.start()
    while writer.is_alive():
        assert rooted.read("f", 1_000_000) in contents
    writer.join()


def test_roots_lie_over_each_other_and_writes_go_to_the_first(root):
    second = root.parent / "outside"
    (root / "a").write_text("first")
    (second / "a").write_text("second")
    rooted = Rooted([root, second])
    assert rooted.read("a", 100) == b"first"
    assert rooted.read("secret.txt", 100) == b"secret"
    assert sorted((p, facts.st_size) for p, facts in rooted.files(".", recursive=False)) == [
        ("a", 5),
        ("secret.txt", 6),
    ]
    rooted.write("secret.txt", b"over it")
    assert (second / "secret.txt").read_text() == "secret"
    assert rooted.read("secret.txt", 100) == b"over it"


def test_names_that_are_no_text_are_listed_with_escapes(root):
    (root / os.fsdecode(b"bad\xff.txt")).touch()
    assert [path for path, _ in Rooted([root]).files(".", recursive=False)] == ["bad\\xff.txt"]


@pytest.mark.parametrize("use", ["read", "write", "files", "folder"])
@pytest.mark.parametrize("path", ["own", "own/deep/a", "OWN/a", "e\u0301/a"])
def test_a_hidden_place_is_refused_however_it_is_written_and_used(root, path, use):
    rooted = Rooted([root], Reserved(hidden=[root / "own", root / "\u00e9"]))
    (root / "own" / "deep").mkdir(parents=True)
    (root / "own" / "deep" / "a").touch()
    uses = {
        "read": lambda: rooted.read(path, 100),
        "write": lambda: rooted.write(path, b"x"),
        "files": lambda: list(rooted.files(path, recursive=True)),
        "folder": lambda: rooted.folder(path),
    }
    with pytest.raises(ToolError, match="its own files") as caught:
        uses[use]()
    assert caught.value.category == "permission"
    assert list(rooted.files(".", recursive=True)) == []


def test_a_root_inside_a_hidden_place_is_a_person_s_choice(root):
    (root / "own").mkdir()
    rooted = Rooted([root / "own"], Reserved(hidden=[root / "own"]))
    rooted.write("a", b"1")
    assert [path for path, _ in rooted.files(".", recursive=True)] == ["a"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_no_use_leaves_a_folder_open(root):
    rooted = Rooted([root])
    links(root)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("real/a.txt", "folder_out/x", "no/x", "real/a.txt/b", "real"):
        for use in (lambda p: rooted.read(p, 10), lambda p: rooted.write(p, b"x"), rooted.folder):
            with contextlib.suppress(ToolError):
                use(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("roots", [[], ["no/such"], [__file__]])
def test_roots_must_be_folders(roots):
    with pytest.raises(BadInput) as caught:
        Rooted(roots)
    assert caught.value.code == "root"
