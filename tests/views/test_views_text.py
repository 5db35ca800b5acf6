import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.flow.words import RunStatus, StepStatus
from kedge.views.text import clean, columns, cut, duration, pack, pad, to_ascii
from kedge.views.words import LOOKS, RUN_SENTENCES, URGENT, why_skipped

ANYTHING = st.text(st.characters(), max_size=300) | st.text(
    "\x1b[]0;m\x07\u202e\u200b\u0301漢e \n", max_size=200
)


@pytest.mark.parametrize(
    ("dirty", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  spaces ", "two lines and spaces"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$tdevice\x1b\\text", "text"),
        ("before\x1b]52;c;never ended", "before"),
        ("bell\x07 back\x08space", "bell backspace"),
        ("abc\u202edcba\u2066x", "abcdcbax"),
        ("zero\u200bwidth\ufeff\u00ad", "zerowidth"),
        ("para\u2029graph", "para graph"),
        ("half \ud800 pair", "half pair"),
        ("\ufffe\uffff not for XML", "not for XML"),
        ("a" + "\u0301" * 50, "a" + "\u0301" * 3),
        ("a" + "\u0301\u200b" * 50, "a" + "\u0301" * 3),  # also with something between that is not seen
        ("❤\ufe0f", "❤"),
        ("", ""),
    ],
)
def test_clean_leaves_one_visible_line(dirty, shown):
    assert clean(dirty) == shown


@given(ANYTHING, st.integers(0, 60))
def test_whatever_comes_in_is_clean_and_narrow_enough(dirty, width):
    shown = clean(dirty, width)
    assert columns(shown) <= width
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert clean(shown, width) == shown


def test_cleaning_a_huge_text_does_not_read_all_of_it():
    class Huge(str):
        __slots__ = ()

        def __getitem__(self, part):
            assert part.stop < 2000
            return super().__getitem__(part)

    assert columns(clean(Huge("\x1b[" * 5_000_000), 40)) <= 40
    assert columns(clean(Huge("e\u0301" * 1_000_000), 40)) == 40


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("한글", 4), ("🙂", 2), ("├─ ✓", 4), ("\uff46", 2)],
)
def test_columns_are_those_of_a_terminal(text, width):
    assert columns(text) == width


def test_cutting_never_splits_a_wide_character():
    assert cut("漢字漢字", 8) == "漢字漢字"
    assert cut("漢字漢字", 7) == "漢字漢…"
    assert cut("漢字漢字", 6) == "漢字…"
    assert cut("abc", 0) == ""
    assert pad("漢", 4) == "漢  "


@given(ANYTHING)
def test_ascii_is_never_wider(text):
    text = clean(text, 80)
    plain = to_ascii(text)
    assert plain.isascii()
    assert len(plain) <= columns(text) + sum(columns(c) == 0 for c in text)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"), (-1, "0 ms"), (0.0123, "12 ms"), (0.0999, "0.1 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (59.4, "59 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"),
        (86_400 * 3 + 3600 * 4, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations_as_people_say_them(seconds, said):
    assert duration(seconds) == said


def test_segments_go_on_as_few_lines_as_hold_them():
    assert pack(["one", "two", "three"], "- ", "  ", 12) == ["- one · two", "  three"]
    assert pack(["a" * 30], "- ", "  ", 12) == ["- " + "a" * 9 + "…"]


def test_every_status_has_a_look_of_its_own():
    assert set(LOOKS) == set(URGENT) == set(StepStatus)
    assert set(RUN_SENTENCES) == set(RunStatus)
    assert len({look.icon for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.letter for look in LOOKS.values()}) == len(LOOKS)
    assert all(
        columns(look.icon) == 1 and look.letter.isalpha() and look.letter.isascii() for look in LOOKS.values()
    )


@pytest.mark.parametrize("reason", ["condition", "absent", "dependency", "not_needed", "empty"])
def test_every_reason_to_skip_is_said_in_words(reason):
    said = why_skipped(reason, ("a\x1b[31m", *"bcdefgh"))
    assert said
    assert "\x1b" not in said
    assert reason == "empty" or ("a, b, c, d, e, f" in said and "and 2 more" in said)
