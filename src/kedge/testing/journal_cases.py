# ruff: noqa: D103 (the name of a case says what it shows)
"""The cases of the conformance kit for journals. Start from `journal_kit`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from kedge.base.codec import digest
from kedge.base.errors import BadInput, InternalError, KedgeError, NotFound, NotOwner, StoreError
from kedge.engine import ports
from kedge.journal.entry import Append, Entry, Head, Lease, chain


class Journal(ports.Journal, Protocol):
    """What a store must have. The contracts stand in the docstring of `kedge.journal`."""

    def has_blob(self, sha: str) -> bool: ...


Open = Callable[[], Journal]
"""Opens the one store of a case."""
Body = Callable[[Open], None]


class Case(NamedTuple):
    """One behaviour, named after it."""

    name: str
    needs_sharing: bool
    run: Body


CASES: list[Case] = []


class Driver:
    """Claims a run and writes to it, as an engine would."""

    def __init__(self, journal: Journal, run_id: str = "run", now_ms: int = 1_000) -> None:
        self.journal = journal
        self.lease = journal.claim(run_id, now_ms)
        head = present(journal.head(run_id))
        self.seq, self.chain, self.at = head.seq, head.chain, now_ms

    def next(
        self, *data: bytes, blobs: Mapping[str, bytes] | None = None, headline: bytes | None = None
    ) -> Append:
        """The next append of this run, one event for each of `data`."""
        after_seq, entries = self.seq, list[Entry]()
        for raw in data:
            self.seq, self.at = self.seq + 1, self.at + 1
            self.chain = chain(self.chain, self.seq, self.lease.epoch, self.at, raw)
            entries.append(Entry(self.seq, self.lease.epoch, self.at, raw, self.chain))
        return Append(self.lease.run_id, self.lease.epoch, after_seq, entries, dict(blobs or {}), headline)

    def write(self, count: int, **more: Any) -> list[Entry]:
        """Commit that many events."""
        append = self.next(*[b'{"n":%d}' % (self.seq + n) for n in range(1, count + 1)], **more)
        self.journal.commit([append])
        return append.entries

    def release(self) -> None:
        self.journal.release(self.lease)


T = TypeVar("T")


def alone(body: Body) -> Body:
    CASES.append(Case(body.__name__, needs_sharing=False, run=body))
    return body


def shared(body: Body) -> Body:
    CASES.append(Case(body.__name__, needs_sharing=True, run=body))
    return body


def same(found: T, wanted: T, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: found {_short(found)}, wanted {_short(wanted)}")


def refused(kind: type[KedgeError], call: Callable[..., object], *args: object) -> KedgeError:
    try:
        result = call(*args)
    except kind as error:
        return error
    raise AssertionError(
        f"{getattr(call, '__name__', call)} must raise {kind.__name__}, gave {_short(result)}"
    )


def names(error: KedgeError, *words: str) -> None:
    for word in words:
        if word not in str(error):
            raise AssertionError(f"the error must name {word}: {error}")


def present(value: T | None) -> T:
    if value is None:
        raise AssertionError("a value is missing")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


# ---- events


@alone
def a_new_run_is_empty(open_journal: Open) -> None:
    journal = open_journal()
    journal.claim("run", 7_000)
    head = present(journal.head("run"))
    same(head, Head("run", epoch=1, created_at=7_000, updated_at=7_000), "the head of a new run")
    same(journal.read("run"), [], "its events")


@alone
def an_unknown_run_is_named(open_journal: Open) -> None:
    journal = open_journal()
    same(journal.head("nobody"), None, "the head of an unknown run")
    for call in (journal.read, journal.good_prefix):
        names(refused(NotFound, call, "nobody"), "nobody")


@alone
def events_come_back_byte_for_byte(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    append = driver.next(b"", b"\0", b"{}", bytes(range(256)), "ü\u2028".encode(), os.urandom(1_000_000))
    journal.commit([append])
    same(journal.read("run"), append.entries, "the events")
    same(journal.good_prefix("run"), append.entries, "the good part of a run without damage")
    if type(journal.read("run")[0]) is not Entry:
        raise AssertionError("read gives entries")


@alone
def reading_starts_and_stops_anywhere(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    entries = driver.write(3) + driver.write(1) + driver.write(6)
    for after in range(12):
        for limit in (0, 1, 3, 20, None):
            same(journal.read("run", after, limit), entries[after:][:limit], f"{limit} after {after}")


@alone
def the_head_follows_the_events(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal, now_ms=50)
    first = driver.write(2, headline=b"one")
    last = driver.write(1)[-1]
    size = sum(len(entry.data) for entry in [*first, last])
    same(
        journal.head("run"),
        Head("run", 3, last.chain, 1, b"one", created_at=50, updated_at=last.at, bytes=size),
        "the head (a headline that is not given stays)",
    )
    journal.commit([driver.next(headline=b"two")])
    same(present(journal.head("run")).headline, b"two", "a headline without events")
    same(present(journal.head("run")).seq, 3, "the last event")


@alone
def runs_do_not_mix(open_journal: Open) -> None:
    journal = open_journal()
    drivers = [Driver(journal, name) for name in ("a", "b", "a-b", "c")]
    wanted: dict[str, list[Entry]] = {driver.lease.run_id: [] for driver in drivers}
    for turn in range(1, 5):
        for driver in drivers:
            wanted[driver.lease.run_id] += driver.write(turn)
    for run_id, entries in wanted.items():
        same(journal.read(run_id), entries, f"events of {run_id}")


@alone
def a_batch_holds_many_runs_and_many_turns(open_journal: Open) -> None:
    journal = open_journal()
    a, b = Driver(journal, "a"), Driver(journal, "b")
    batch = [a.next(b"1", b"2"), b.next(b"1"), a.next(b"3", headline=b"later"), b.next(), a.next(b"4")]
    journal.commit(batch)
    journal.commit([])
    for driver, count in ((a, 4), (b, 1)):
        head = present(journal.head(driver.lease.run_id))
        same((head.seq, head.chain, head.bytes), (count, driver.chain, count), f"head of {head.run_id}")
        same(len(journal.read(head.run_id)), count, f"events of {head.run_id}")
    same(present(journal.head("a")).headline, b"later", "headline of a")


@alone
def one_misfit_and_nothing_of_the_batch_is_written(open_journal: Open) -> None:
    journal = open_journal()
    good, bad = Driver(journal, "good"), Driver(journal, "bad")
    good.write(1)
    bad.write(2)
    before = [journal.head(run_id) for run_id in ("good", "bad")]
    sha = digest(b"value")
    fits = good.next(b"x", blobs={sha: b"value"}, headline=b"new")
    error = refused(NotOwner, journal.commit, [fits, bad.next(b"y")._replace(after_seq=1)])
    names(error, "bad")
    same([journal.head(run_id) for run_id in ("good", "bad")], before, "the heads")
    same(len(journal.read("good")), 1, "events of the other run")
    same(int(journal.has_blob(sha)), 0, "its blob")
    journal.commit([fits])
    same(len(journal.read("good")), 2, "events after it was tried again alone")


@alone
def events_that_do_not_continue_the_chain_are_refused(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    driver.write(2)
    append = driver.next(b"3", b"4")
    third, fourth = append.entries
    for entries in (
        [replace(third, chain=third.chain ^ 1), fourth],
        [replace(third, data=b"other"), fourth],
        [fourth],
        [third, replace(fourth, seq=5)],
        [replace(third, epoch=9), fourth],
    ):
        refused(InternalError, journal.commit, [append._replace(entries=entries)])
    same(present(journal.head("run")).seq, 2, "the last event")


# ---- ownership


@alone
def a_run_has_one_driver(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    error = refused(NotOwner, journal.claim, "run", 2_000)
    names(error, "run", str(os.getpid()))
    driver.write(1)
    driver.release()
    same(journal.claim("run", 3_000), Lease("run", 2), "the next lease")


@alone
def a_lease_that_ended_writes_nothing(open_journal: Open) -> None:
    journal = open_journal()
    old = Driver(journal)
    old.write(1)
    old.release()
    late = old.next(b"late")
    refused(NotOwner, journal.commit, [late])
    new = Driver(journal)
    refused(NotOwner, journal.commit, [late])  # it would fit, but for its epoch
    refused(NotOwner, journal.commit, [old.next(b"later")])
    old.release()
    refused(NotOwner, journal.claim, "run", 4_000)
    new.write(1)
    same([entry.epoch for entry in journal.read("run")], [1, 2], "epochs")


@alone
def a_run_must_be_claimed_before_it_is_written(open_journal: Open) -> None:
    journal = open_journal()
    refused(NotOwner, journal.commit, [Append("run", 1, 0, [], {}, b"x")])
    same(journal.runs(), [], "runs")


@alone
def events_must_follow_the_last_one(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    driver.write(5)
    append = driver.next(b"6")
    for after_seq in (0, 4, 6):
        refused(NotOwner, journal.commit, [append._replace(after_seq=after_seq)])
    journal.commit([append])
    refused(NotOwner, journal.commit, [append])
    same(present(journal.head("run")).seq, 6, "the last event")


@alone
def a_run_id_keeps_to_its_alphabet(open_journal: Open) -> None:
    journal = open_journal()
    for bad in ("", "../run", "Run", "a b", "nul", "a" * 65, "a\0", "ü", "'; drop table run"):
        refused(BadInput, journal.claim, bad, 1)
    same(journal.runs(), [], "runs")


# ---- blobs


@alone
def a_blob_comes_back_by_its_hash(open_journal: Open) -> None:
    journal = open_journal()
    content = os.urandom(300_000)
    sha = digest(content)
    same(int(journal.has_blob(sha)), 0, "has_blob before")
    Driver(journal).write(1, blobs={sha: content, digest(b""): b""})
    same(int(journal.has_blob(sha)), 1, "has_blob after")
    same(journal.blob(sha), content, "the blob")
    same(journal.blob(digest(b"")), b"", "the empty blob")
    for name in (digest(b"other"), "", "xyz", "../x"):
        same(int(journal.has_blob(name)), 0, f"has_blob({name!r})")
        refused(NotFound, journal.blob, name)


@alone
def a_blob_counts_once_for_its_run(open_journal: Open) -> None:
    journal = open_journal()
    blobs = {digest(b"v" * 100): b"v" * 100}
    a, b = Driver(journal, "a"), Driver(journal, "b")
    journal.commit([a.next(b"1", blobs=blobs), a.next(b"2", blobs=blobs)])
    a.write(0, blobs=blobs)
    journal.commit([b.next(b"1", blobs=blobs)])
    same([present(journal.head(run)).bytes for run in ("a", "b")], [102, 101], "bytes of a and b")


@alone
def a_blob_goes_with_the_last_run_that_refers_to_it(open_journal: Open) -> None:
    journal = open_journal()
    both, mine = digest(b"both"), digest(b"mine")
    a, b = Driver(journal, "a"), Driver(journal, "b")
    a.write(1, blobs={both: b"both", mine: b"mine"})
    b.write(1, blobs={both: b"both"})
    a.release()
    b.release()
    journal.delete(["a"])
    same((journal.has_blob(both), journal.has_blob(mine)), (True, False), "blobs after the first")
    journal.delete(["b"])
    same(int(journal.has_blob(both)), 0, "blobs after the second")


# ---- lists and housekeeping


@alone
def runs_are_listed_newest_first(open_journal: Open) -> None:
    journal = open_journal()
    for at, run_id in enumerate(("c", "a", "b")):
        Driver(journal, run_id, now_ms=at).write(at, headline=run_id.encode())
    same([head.headline for head in journal.runs()], [b"b", b"a", b"c"], "headlines")
    same(journal.runs(), [journal.head(run_id) for run_id in "bac"], "heads")


@alone
def deleting_is_all_or_nothing(open_journal: Open) -> None:
    journal = open_journal()
    for run_id in ("a", "b", "live"):
        driver = Driver(journal, run_id)
        driver.write(2)
        if run_id != "live":
            driver.release()
    refused(NotOwner, journal.delete, ["a", "live"])
    refused(NotFound, journal.delete, ["a", "nobody"])
    same(len(journal.runs()), 3, "runs after refusals")
    journal.delete(["a", "b", "a"])
    same([head.run_id for head in journal.runs()], ["live"], "runs left")
    same(journal.head("a"), None, "the head of a deleted run")
    again = Driver(journal, "a")
    same((again.seq, again.lease.epoch), (0, 1), "a deleted run begins anew")
    same(len(again.write(3)), len(journal.read("a")), "its events")


@alone
def vacuum_loses_nothing(open_journal: Open) -> None:
    journal = open_journal()
    sha = digest(b"kept" * 5_000)
    keep, drop = Driver(journal, "keep"), Driver(journal, "drop")
    entries = keep.write(5, blobs={sha: b"kept" * 5_000}, headline=b"h")
    for _ in range(20):
        drop.write(200)
    drop.release()
    head = journal.head("keep")
    journal.delete(["drop"])
    if journal.vacuum() < 0:
        raise AssertionError("vacuum gives the bytes that were freed")
    same(
        (journal.head("keep"), journal.read("keep"), journal.blob(sha)),
        (head, entries, b"kept" * 5_000),
        "kept",
    )
    keep.write(1)


@alone
def a_closed_journal_says_so(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    append = driver.next(b"1")
    if not journal.stats():
        raise AssertionError("stats has facts")
    journal.close()
    journal.close()
    same(refused(StoreError, journal.head, "run").code, "store_closed", "code")
    same(refused(StoreError, journal.claim, "other", 1).code, "store_closed", "code")
    refused(KedgeError, journal.commit, [append])


# ---- two objects, one store


@shared
def what_was_committed_outlives_the_object(open_journal: Open) -> None:
    first = open_journal()
    sha = digest(b"value")
    entries = Driver(first, now_ms=5).write(3, headline=b"h", blobs={sha: b"value"})
    head = first.head("run")
    first.close()
    second = open_journal()
    same((second.head("run"), second.read("run"), second.blob(sha)), (head, entries, b"value"), "the run")
    driver = Driver(second)
    same(driver.lease.epoch, 2, "the epoch after the first was closed without a release")
    entries += driver.write(2)
    same(second.read("run"), entries, "events of both")


@shared
def two_objects_exclude_each_other(open_journal: Open) -> None:
    first, second = open_journal(), open_journal()
    driver = Driver(first)
    driver.write(1)
    refused(NotOwner, second.claim, "run", 1)
    refused(NotOwner, second.delete, ["run"])
    refused(NotOwner, second.commit, [driver.next(b"x")])
    driver.release()
    taken = Driver(second)
    refused(NotOwner, first.claim, "run", 1)
    refused(NotOwner, first.commit, [driver.next(b"x")])
    taken.write(1)
    same(len(first.read("run")), 2, "events seen by the first")


@shared
def a_change_by_another_is_noticed(open_journal: Open) -> None:
    first, second = open_journal(), open_journal()
    driver = Driver(first)
    seen = second.data_version()
    same(second.data_version(), seen, "the version when nothing has happened")
    driver.write(1)
    if second.data_version() == seen:
        raise AssertionError("data_version must change when another has committed")
    same(len(second.read("run")), 1, "events that the other sees")
    mine = first.data_version()
    driver.write(1)
    same(first.data_version(), mine, "the version after a commit of one's own")
