"""The chain finds every change."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kedge.base.errors import StoreDamaged
from kedge.journal.entry import Entry, chain, verify

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**63 - 1)
RAWS = st.lists(st.tuples(st.integers(1, 9), U64, st.binary(max_size=40)), min_size=1, max_size=8)


def chained(raws, first_seq=1, previous=0):
    entries = []
    for seq, (epoch, at, data) in enumerate(raws, first_seq):
        previous = chain(previous, seq, epoch, at, data)
        entries.append(Entry(seq, epoch, at, data, previous))
    return entries


@given(U32, U64, U64, U64, st.binary(max_size=200))
def test_a_link_is_the_crc_of_everything_before_it(previous, seq, epoch, at, data):
    packed = b"".join(number.to_bytes(8, "big") for number in (seq, epoch, at))
    assert chain(previous, seq, epoch, at, data) == zlib.crc32(packed + data, previous)


@given(RAWS, st.integers(1, 1_000), U32)
def test_what_was_chained_verifies_from_anywhere(raws, first_seq, previous):
    entries = chained(raws, first_seq, previous)
    assert verify(entries, previous, first_seq, "run") == entries[-1].chain


def test_nothing_verifies_to_the_chain_before_it():
    assert verify([], 77, 5, "run") == 77


@settings(max_examples=300)
@given(RAWS, st.data())
def test_a_changed_bit_is_found_where_it_is(raws, data):
    entries = chained(raws)
    at = data.draw(st.integers(0, len(entries) - 1))
    field = data.draw(st.sampled_from(["epoch", "at", "chain", "data"]))
    old = getattr(entries[at], field)
    if field == "data":
        raw = bytearray(old or b"\0")
        bit = data.draw(st.integers(0, len(raw) * 8 - 1))
        raw[bit // 8] ^= 1 << bit % 8
        new = bytes(raw)
    else:
        new = old ^ 1 << data.draw(st.integers(0, 31))
    entries[at] = replace(entries[at], **{field: new})
    with pytest.raises(StoreDamaged) as caught:
        verify(entries, 0, 1, "run")
    assert (caught.value.run_id, caught.value.seq) == ("run", at + 1)


@given(RAWS, st.data())
def test_a_missing_or_repeated_event_is_found_where_it_is(raws, data):
    entries = chained(raws)
    at = data.draw(st.integers(0, len(entries) - 1))
    if data.draw(st.booleans()):
        entries.insert(at, entries[at])
        where = at + 2
    else:
        del entries[at]
        where = at + 1
    if where > len(entries):
        return  # the last one is missing: the store knows where a run ends, not its entries
    with pytest.raises(StoreDamaged) as caught:
        verify(entries, 0, 1, "run")
    assert caught.value.seq == where


def test_the_error_says_what_is_left():
    entries = chained([(1, 5, b"a"), (1, 6, b"b"), (1, 7, b"c")])
    entries[2] = replace(entries[2], data=b"d")
    with pytest.raises(StoreDamaged, match=r"run r7 event 3: .*the 2 events before it are intact"):
        verify(entries, 0, 1, "r7")
