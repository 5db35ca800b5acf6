import time

import pytest

from kedge.tools.docstring import parse_docstring

GOOGLE = """Find a thing.
It is found fast.

    Longer text, with a: colon.

    Args:
        path (str, optional): where to look,
            also in here
        depth: how deep

    Returns:
        depth of nothing: no
    """
SPHINX = """Find a thing. It is found fast.

    :param str path: where to look,
        also in here
    :param depth: how deep
    :type depth: int
    :returns: nothing
    """
NUMPY = """Find a thing.
    It is found fast.

    Parameters
    ----------
    path : str
        where to look,
        also in here
    depth : int, optional
        how deep
    """
PLAIN = """Find a thing. It is found fast.

    path: where to look, also in here
    - `depth`: how deep
    """


@pytest.mark.parametrize(
    "docstring", [GOOGLE, SPHINX, NUMPY, PLAIN], ids=["google", "sphinx", "numpy", "plain"]
)
def test_every_style_gives_the_same_description_and_parameters(docstring):
    description, texts = parse_docstring(docstring, ["path", "depth"])
    assert description == "Find a thing. It is found fast."
    assert texts == {"path": "where to look, also in here", "depth": "how deep"}


@pytest.mark.parametrize(
    ("docstring", "description", "texts"),
    [
        (None, "", {}),
        ("", "", {}),
        ("   \n  ", "", {}),
        ("Only this.", "Only this.", {}),
        ("Say.\n\nnothing: is a parameter", "Say.", {}),
        ("Say.\nx: right below", "Say.", {"x": "right below"}),
        ("Say.\n\nx:", "Say.", {}),
        ("Say.\n\nx: see http://a.b: yes", "Say.", {"x": "see http://a.b: yes"}),
        ("Say.\n\nExample::\n\n    x::\n", "Say.", {}),
    ],
)
def test_what_is_not_a_description_is_left_out(docstring, description, texts):
    assert parse_docstring(docstring, ["x"]) == (description, texts)


def test_a_hostile_docstring_is_read_in_linear_time():
    started = time.perf_counter()
    parse_docstring("a\n\n" + ":param " * 50_000 + "x" * 100_000 + "(" * 100_000, ["x"])
    assert time.perf_counter() - started < 0.5
