import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base import codec
from kedge.base.errors import ToolError
from kedge.tools.builtin import data as data_module
from kedge.tools.builtin.csv_text import CELL_CHARACTERS_MAX
from kedge.tools.builtin.data import data_tools
from kedge.tools.builtin.query import query

DATA = {t.spec.name: t for t in data_tools()}
TREE = {"a": {"b": [{"c": 1}, {"c": 2}]}, "a key": {"x.y": 3}, "": 4, 'q"\\': 5, "n": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", TREE),
        ("a.b[0].c", 1),
        ("a.b[-1].c", 2),
        ("a.b", [{"c": 1}, {"c": 2}]),
        ('["a key"]["x.y"]', 3),
        ('[""]', 4),
        (r'["q\"\\"]', 5),
        ("n", None),
    ],
)
def test_a_query_picks_one_part(path, found):
    assert query(TREE, path) == found


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (".a", "character 1"),
        ("a..b", "character 2"),
        ("a.", "character 2"),
        ("a[", "character 2"),
        ("a[b]", "character 2"),
        ("a[1:2]", "character 2"),
        ("a b", "character 2"),
        ('["a', "character 1"),
        ("a.b[0]c", "character 7"),
        ("a" * 1001, "longer than 1000"),
        ("zzz", "the top has no 'zzz'; it has: a, a key"),
        ('["a key"].x', r"it has: x\.y"),
        ("akey", "did you mean 'a key'"),
        ("a.bb", "a has no 'bb'"),
        ("a.b.c", "a.b is a list, so it has no 'c'"),
        ("a[0]", r"a is a map, so it has no \[0\]"),
        ("a.b[2]", r"a.b has 2 items, so there is no \[2\]"),
        ("a.b[-3]", "2 items"),
        ("n.x", "n is null"),
        ("a.b[0].c.d", "is a number"),
    ],
)
def test_a_query_that_finds_nothing_says_where_it_stopped(path, says):
    with pytest.raises(ToolError, match=says) as caught:
        query(TREE, path)
    assert caught.value.category == "invalid_input"


@given(st.text(max_size=30))
def test_any_query_ends_in_a_part_or_a_clear_refusal(path):
    with contextlib.suppress(ToolError):
        query(TREE, path)


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("data.json", {"text": '{"a": [1, 2.5, null, "é"]}'}, {"a": [1, 2.5, None, "é"]}),
        ("data.json", {"text": '{"a": [1, 2]}', "query": "a[1]"}, 2),
        ("data.yaml", {"text": "a: [on, 12:30, 1]", "query": "a"}, ["on", "12:30", 1]),
        ("data.csv", {"text": "a,b\n1,x\n2,\n"}, [{"a": "1", "b": "x"}, {"a": "2", "b": ""}]),
        ("data.csv", {"text": 'a;b\r\n"1;2";"x\ny"\r\n', "delimiter": ";"}, [{"a": "1;2", "b": "x\ny"}]),
        ("data.csv", {"text": "\ufeffa\n1\n\n2", "query": "[1].a"}, "2"),
        ("data.csv", {"text": "a\none\u2028line\n"}, [{"a": "one\u2028line"}]),
        ("data.csv", {"text": ""}, []),
        (
            "data.csv",
            {"text": "a,b,c,d,e,f\n1,1.5,true,,007,1e999\n", "typed": True},
            [{"a": 1, "b": 1.5, "c": True, "d": None, "e": "007", "f": "1e999"}],
        ),
        (
            "data.xml",
            {"text": '<?xml version="1.0" encoding="latin-1"?><r a="1"> é <x:c>1</x:c><c/> t</r>'},
            {
                "tag": "r",
                "attributes": {"a": "1"},
                "text": "é  t",
                "children": [
                    {"tag": "x:c", "attributes": {}, "text": "1", "children": []},
                    {"tag": "c", "attributes": {}, "text": "", "children": []},
                ],
            },
        ),
        ("data.xml", {"text": "<r>&lt;<![CDATA[<b>]]>&#65;</r>", "query": "text"}, "<<b>A"),
    ],
)
def test_text_becomes_data(call, name, arguments, found):
    assert call(DATA[name], **arguments) == found


BOMB = '<!DOCTYPE l [<!ENTITY a "lol">' + "".join(
    f'<!ENTITY {n} "{f"&{p};" * 10}">' for p, n in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML_BOMB = "a: &a [x, x]\n" + "".join(
    f"{n}: &{n} [*{p}, *{p}]\n" for p, n in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("data.json", "{", "not JSON: .*line 1"),
        ("data.json", "", "not JSON"),
        ("data.json", '{"a": NaN}', "not JSON"),
        ("data.json", '{"a": 1, "a": 2}', "not JSON"),
        ("data.json", "[" * 100_000, "not JSON"),
        ("data.json", "1" * 10_000, "not JSON"),
        ("data.yaml", "a: [", "not YAML"),
        ("data.yaml", YAML_BOMB, "not YAML"),
        ("data.yaml", "!!python/object/apply:os.system ['true']", "not YAML"),
        ("data.yaml", "a: 1\na: 2", "not YAML"),
        ("data.yaml", "[" * 10_000, "not YAML"),
        ("data.csv", "a,b\n1\n", "line 2 has 1 cell, the first row has 2 cells"),
        ("data.csv", "a\n1,2,3\n", "line 2 has 3 cells, the first row has 1 cell;"),
        ("data.csv", "a,b\n1,2,3\n", "line 2 has 3 cells"),
        ("data.csv", "a,a\n1,2\n", "the name 'a' twice"),
        ("data.csv", "a,\n1,2\n", "a column without a name"),
        ("data.csv", 'a\n"open', "not CSV at line"),
        ("data.csv", 'a\n"x"y\n', "not CSV at line 2"),
        ("data.csv", "a\n" + "x" * 200_000, "not CSV at line 2: field larger"),
        ("data.xml", "", "not XML at line 1"),
        ("data.xml", "<a><b></a>", "not XML at line 1, column"),
        ("data.xml", "<a/><b/>", "not XML"),
        ("data.xml", "<a>&nope;</a>", "not XML"),
        ("data.xml", "<!DOCTYPE a><a/>", "document type"),
        ("data.xml", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type"),
        ("data.xml", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "document type"),
        ("data.xml", f"{BOMB}]><l>&i;</l>", "document type"),
        ("data.xml", "<a>" * 100_000, "30 elements inside each other"),
    ],
)
def test_text_that_is_not_what_it_should_be_is_refused_quickly(call, name, text, says):
    started = time.perf_counter()
    with pytest.raises(ToolError, match=says) as caught:
        call(DATA[name], text=text)
    assert time.perf_counter() - started < 1.0
    assert caught.value.category in ("invalid_input", "limit")
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n"])
def test_a_csv_delimiter_is_one_character(call, delimiter):
    with pytest.raises(ToolError, match="one character"):
        call(DATA["data.csv"], text="a", delimiter=delimiter)


@pytest.mark.parametrize("name", sorted(DATA))
def test_text_over_the_cap_is_refused_before_it_is_read(call, name, monkeypatch):
    monkeypatch.setattr(data_module, "TEXT_MAX", 5)
    with pytest.raises(ToolError, match="at most 5") as caught:
        call(DATA[name], text="[1, 2]")
    assert caught.value.category == "limit"


def test_the_deepest_xml_that_is_read_can_be_stored(call):
    found = call(DATA["data.xml"], text="<a>" * 30 + "</a>" * 30)
    assert codec.encode(found)


@pytest.mark.parametrize("name", sorted(DATA))
def test_a_byte_order_mark_before_the_text_is_no_part_of_it(call, name):
    text = {"data.csv": "a\n1\n", "data.xml": "<a/>"}.get(name, '{"a": 1}')
    assert call(DATA[name], text=f"\ufeff{text}") == call(DATA[name], text=text)


@pytest.mark.parametrize(
    ("name", "text", "says", "remedy"),
    [
        ("data.yaml", "", "not YAML: line 1: there is nothing in the document", "give text with data in it"),
        ("data.yaml", "[" * 100, "not YAML: line 1, column 65: lists and maps are", "or read it with a tool"),
        ("data.yaml", "a: [\n b", "not YAML: line 3, column 1: did not find", "mend that line"),
        ("data.yaml", "a: 1\na: 2\nb: &x 1\n", "is here twice (and 1 more fault)", "keep one of them"),
        ("data.yaml", "a: 1\na: 2\nb: &x 1\nc: *x", "(and 2 more faults)", "keep one of them"),
        ("data.json", "[1, x]", "not JSON: line 1, column 5: expecting value", "mend it there"),
        ("data.json", "{// x\n}", "JSON has no comments", "remove it"),
    ],
)
def test_unreadable_data_is_told_in_words_about_data(call, name, text, says, remedy):
    with pytest.raises(ToolError) as caught:
        call(DATA[name], text=text)
    assert says in str(caught.value)
    assert remedy in caught.value.remedy
    assert "plan" not in str(caught.value) + caught.value.remedy
    assert "limit" not in str(caught.value) + caught.value.remedy


def test_a_list_named_steps_may_be_longer_than_a_plan(call):
    assert len(call(DATA["data.yaml"], text="steps:\n" + "- {}\n" * 10_001, query="steps")) == 10_001


def test_a_csv_cell_over_the_cap_says_what_to_do(call):
    with pytest.raises(ToolError, match="field larger") as caught:
        call(DATA["data.csv"], text="a\n" + "x" * (CELL_CHARACTERS_MAX + 1))
    assert (caught.value.category, caught.value.remedy) == ("limit", "read it with a tool of your own")


def test_data_tools_are_pure():
    assert {t.spec.effect for t in DATA.values()} == {"pure"}
