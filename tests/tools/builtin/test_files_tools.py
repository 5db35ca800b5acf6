import os
import time

import pytest

from kedge.base.errors import ToolError
from kedge.tools.builtin import files as files_module
from kedge.tools.builtin.files import file_tools
from kedge.tools.builtin.rooted import Rooted


@pytest.fixture
def files(tmp_path):
    return {t.spec.name: t for t in file_tools(Rooted([tmp_path]))}


def put(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_files_are_listed_sorted_by_path_with_their_facts(files, call, tmp_path):
    put(tmp_path, b_md="bb", a_md="a", c="c", sub__d_md="d")
    os.utime(tmp_path / "a.md", (0, 1_700_000_000))
    assert [f["path"] for f in call(files["files.list"])["files"]] == ["a.md", "b.md", "c"]
    found = call(files["files.list"], pattern="*.md", recursive=True)["files"]
    assert [f["path"] for f in found] == ["a.md", "b.md", "sub/d.md"]
    assert found[0] == {"path": "a.md", "name": "a.md", "size": 1, "modified_at": "2023-11-14T22:13:20Z"}
    assert found[2]["name"] == "d.md"
    assert [f["path"] for f in call(files["files.list"], path="sub")["files"]] == ["sub/d.md"]


def test_names_that_no_tool_takes_are_skipped_so_that_all_listed_files_can_be_read(files, call, tmp_path):
    put(tmp_path, a="a", **{"weird\nname": "", "back\\slash": "", "con.txt": ""})
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    found = call(files["files.list"])
    assert [call(files["files.read"], path=one["path"]) for one in found["files"]] == ["a"]
    assert found["skipped"] == ["back\\slash", "bad\\xff", "con.txt", "weird\nname"]


def test_the_schema_of_the_listing_is_known(files):
    returns = files["files.list"].spec.returns
    properties = returns["$defs"]["FileList"]["properties"]
    assert properties["files"]["items"] == {"$ref": "#/$defs/FileFacts"}
    assert list(returns["$defs"]["FileFacts"]["properties"]) == ["path", "name", "size", "modified_at"]


@pytest.mark.parametrize("pattern", ["a/*", "**/x", "x" * 256])
def test_a_pattern_is_for_names(files, call, pattern):
    with pytest.raises(ToolError, match="pattern") as caught:
        call(files["files.list"], pattern=pattern)
    assert caught.value.category == "invalid_input"


def test_a_hostile_pattern_takes_no_time(files, call, tmp_path):
    put(tmp_path, **{"a" * 200: ""})
    started = time.perf_counter()
    assert call(files["files.list"], pattern="*a" * 120 + "b")["files"] == []
    assert time.perf_counter() - started < 0.5


def test_too_many_files_is_a_limit_not_a_flood(files, call, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "FILES_MAX", 3)
    put(tmp_path, a="", b="", c="", d="")
    assert len(call(files["files.list"], pattern="[abc]")["files"]) == 3
    with pytest.raises(ToolError, match="more than 3 files") as caught:
        call(files["files.list"])
    assert caught.value.category == "limit"


@pytest.mark.parametrize("text", ["", "plain", "zwei Wörter\r\n", "\ufeffbom", "😀"])
def test_what_is_written_is_read_back(files, call, text):
    written = call(files["files.write"], path="new/a.txt", text=text)
    assert written == {"path": "new/a.txt", "size": len(text.encode())}
    assert call(files["files.read"], path="new/a.txt") == text


@pytest.mark.parametrize(
    ("data", "byte"),
    [
        (b"ab\xff", "byte 2 is 0xff"),
        (b"a\0b", "byte 1 is 0x00"),
        ("x".encode("utf-16"), "0x"),
        (b"\xed\xa0\x80", "0xed"),
    ],
)
def test_a_binary_file_is_refused_with_the_byte(files, call, tmp_path, data, byte):
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(ToolError, match=f"not a UTF-8 text file: .*{byte}") as caught:
        call(files["files.read"], path="b")
    assert caught.value.category == "invalid_input"


def test_a_file_over_the_cap_is_refused(files, call, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "FILE_BYTES_MAX", 10)
    put(tmp_path, a="x" * 11)
    with pytest.raises(ToolError, match="longer than 10 bytes"):
        call(files["files.read"], path="a")


def test_a_search_gives_lines_by_path_and_what_it_could_not_read(files, call, tmp_path):
    put(tmp_path, b_md="one\ntwo needle\r\n", a_md="needle", sub__c_md="a needle\nneedle b", x="no")
    (tmp_path / "binary").write_bytes(b"\xff needle")
    found = call(files["files.search"], text="needle")
    assert [(m["path"], m["line"], m["text"]) for m in found["matches"]] == [
        ("a.md", 1, "needle"),
        ("b.md", 2, "two needle"),
        ("sub/c.md", 1, "a needle"),
        ("sub/c.md", 2, "needle b"),
    ]
    assert found["skipped"] == ["binary"]
    assert len(call(files["files.search"], text="needle", path="b.md")["matches"]) == 1
    assert len(call(files["files.search"], text="needle", pattern="c*")["matches"]) == 2
    assert call(files["files.search"], text="(n|e)+", pattern="*.md") == {"matches": [], "skipped": []}


def test_a_search_is_bounded_and_can_be_cancelled(files, call, context, tmp_path, monkeypatch):
    put(tmp_path, a="x" * 10_000, b="x\n" * 20)
    assert len(call(files["files.search"], text="x", path="a")["matches"][0]["text"]) == 500
    monkeypatch.setattr(files_module, "MATCHES_MAX", 10)
    with pytest.raises(ToolError, match="more than 10 lines") as caught:
        call(files["files.search"], text="x")
    assert caught.value.category == "limit"
    context.cancelled = True
    with pytest.raises(ToolError) as caught:
        call(files["files.search"], text="x")
    assert caught.value.category == "cancelled"


@pytest.mark.parametrize("text", ["", "a\nb"])
def test_a_search_needs_one_line_to_look_for(files, call, text):
    with pytest.raises(ToolError, match="one line"):
        call(files["files.search"], text=text)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("files.list", {"path": "../"}),
        ("files.read", {"path": "/etc/passwd"}),
        ("files.search", {"path": "..", "text": "x"}),
        ("files.write", {"path": "../x", "text": "x"}),
    ],
)
def test_no_file_tool_leaves_the_roots(files, call, name, arguments):
    with pytest.raises(ToolError, match="roots: ") as caught:
        call(files[name], **arguments)
    assert caught.value.category == "permission"
