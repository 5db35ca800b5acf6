from hypothesis import given
from hypothesis import strategies as st

from kedge.views.axis import ticks


def test_marks_stand_at_round_times():
    assert ticks(8000) == [(0, "0"), (2000, "2.0 s"), (4000, "4.0 s"), (6000, "6.0 s"), (8000, "8.0 s")]
    assert [label for _, label in ticks(90)] == ["0", "20 ms", "40 ms", "60 ms", "80 ms"]
    assert [label for _, label in ticks(900)] == ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s"]
    assert [label for _, label in ticks(400_000)] == ["0", "2 min", "4 min", "6 min"]


@given(st.integers(1, 10**12))
def test_no_two_marks_read_the_same_and_there_are_a_few(span_ms):
    found = ticks(span_ms)
    labels = [label for _, label in found]
    assert len(set(labels)) == len(labels)
    assert 2 <= len(found) <= 6
    assert all(0 <= at <= span_ms for at, _ in found)
