"""What an expression tells about itself before anyone evaluates it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.errors import ExpressionError
from kedge.plan.expr import RESERVED_WORDS, Path, parse


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("n12", ["n12"]),
        ("list.files", ["list.files"]),
        ("list['files'][0].name", ["list.files[0].name"]),
        ("list.files[-1]", ["list.files[-1]"]),
        ("list['odd key']", ["list['odd key']"]),
        ("list.files[:2]", ["list.files"]),
        ("list.files[:n.x][0]", ["list.files", "n.x"]),
        ("a[b.c].d", ["a", "b.c"]),
        ("a.b[c[d.e]].f", ["a.b", "c", "d.e"]),
        ("(a.b).c", ["a.b"]),
        ("len(a.b) + c * -d", ["a.b", "c", "d"]),
        ("x if a.b else y", ["x", "a.b", "y"]),
        ('[a, {"k": b}]', ["a", "b"]),
        ("a == a and not a", ["a"]),
        ("present(a.b) or c", ["a.b", "c"]),
        ("'a.b'", []),
        ("a.in.if.len", ["a.in.if.len"]),
    ],
)
def test_paths_are_read_as_far_as_they_are_written_out(text: str, paths: list[str]) -> None:
    expression = parse(text)
    assert [str(path) for path in expression.paths] == paths
    assert expression.names == {path.split(".")[0].split("[")[0] for path in paths}


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("a", Path("a")),
        (" a ", Path("a")),
        ("a.b.c", Path("a", ("b", "c"))),
        ("a.b[0]", Path("a", ("b", 0))),
        ("a.__typename", Path("a", ("__typename",))),
        ("(a).b", Path("a", ("b",))),
        ("a[b]", None),
        ("a[:1]", None),
        ("-a", None),
        ("present(a)", None),
        ("1", None),
        ("true", None),
    ],
)
def test_a_path_and_nothing_else_is_simple(text: str, simple: Path | None) -> None:
    assert parse(text).simple == simple


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("present(a)", {"a"}),
        ("present(a) and a.b > 1", set()),
        ("present(a.b) and c", {"a"}),
        ("a.b if present(a) else present(c)", {"c"}),
        ("a", set()),
    ],
)
def test_names_only_asked_for_by_present_are_told_apart(text: str, names: set[str]) -> None:
    assert parse(text).present_names == names


def test_the_same_text_gives_the_same_expression() -> None:
    assert parse("a.b > 1") is parse("a.b > 1")


def test_expressions_are_frozen() -> None:
    with pytest.raises(AttributeError):
        parse("a").text = "b"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("word", sorted(RESERVED_WORDS - {"true", "false", "null"}))
def test_reserved_words_are_never_names_and_always_keys(word: str) -> None:
    with pytest.raises(ExpressionError):
        parse(word)
    assert parse(f"a.{word}").simple == Path("a", (word,))


words = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda word: word not in RESERVED_WORDS)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda key: not (key.startswith("__") and key.endswith("__"))
)


@settings(max_examples=200)
@given(words, st.lists(keys, max_size=3))
def test_the_short_way_and_the_long_way_agree(root: str, path: list[str]) -> None:
    text = ".".join([root, *path])
    short, long = parse(text), parse(f"({text})")
    assert short.simple == long.simple == Path(root, tuple(path))
    assert (short.paths, short.names, short.present_names) == (long.paths, long.names, long.present_names)
    data: object = 42
    for key in reversed(path):
        data = {key: data}
    assert short.evaluate({root: data}.__getitem__) == long.evaluate({root: data}.__getitem__) == 42
