# pyright: reportOptionalMemberAccess=false
"""Bytes change behind our back: the first bad event is named, and every other run still reads."""

from contextlib import closing, suppress

import apsw
import pytest
from msgspec.structs import replace

from kedge.base.codec import digest
from kedge.base.errors import NotFound, StoreDamaged, StoreError
from kedge.journal.entry import Head, chain
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

RUNS = ("before", "hurt", "after")
EVENTS = 60


@pytest.fixture
def store(path):
    """Three runs, one after the other in the file, and nothing left in the log."""
    journal = SqliteJournal(path)
    for run_id in RUNS:
        driver = Driver(journal, run_id)
        for n in range(1, EVENTS + 1):
            content = f"{run_id} {n} ".encode() * 40
            blobs = {digest(run_id.encode()): run_id.encode()} if n == 1 else {}
            journal.commit([driver.next(content, blobs=blobs, headline=f"headline of {run_id}".encode())])
    journal.close()
    return path


def change(path, old, new):
    raw = path.read_bytes()
    assert raw.count(old) == 1, raw.count(old)
    path.write_bytes(raw.replace(old, new))


def sql(path, statement, *values):
    db = apsw.Connection(str(path))
    db.execute(statement, values)
    assert db.changes()
    db.close()


def pages_of(path, table):
    db = apsw.Connection(str(path))
    found = [
        row
        for (row,) in db.execute(
            "select pageno from dbstat where name = ? and pagetype = 'leaf' order by path", (table,)
        )
    ]
    db.close()
    return found


def zero_page(path, number):
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))


def damage_of(journal, run_id):
    with pytest.raises(StoreDamaged) as caught:
        journal.read(run_id)
    assert caught.value.run_id == run_id
    assert run_id in str(caught.value)
    return caught.value.seq


def others_are_intact(journal):
    for run_id in ("before", "after"):
        assert len(journal.read(run_id)) == EVENTS
        assert journal.head(run_id).damaged == ""
        assert journal.blob(digest(run_id.encode())) == run_id.encode()


@pytest.mark.parametrize("seq", [1, 2, 31, EVENTS])
def test_a_flipped_byte_in_an_event(store, seq):
    text = f"hurt {seq} ".encode() * 40
    change(store, text, text[:100] + bytes([text[100] ^ 1]) + text[101:])
    journal = SqliteJournal(store)
    db = apsw.Connection(str(store))
    assert db.pragma("integrity_check") == "ok"  # what SQLite knows of it
    db.close()
    assert journal.head("hurt").damaged == ""
    assert damage_of(journal, "hurt") == seq
    assert [entry.seq for entry in journal.good_prefix("hurt")] == list(range(1, seq))
    others_are_intact(journal)
    assert [(head.run_id, bool(head.damaged)) for head in journal.runs()] == [
        ("after", False), ("hurt", True), ("before", False)
    ]  # fmt: skip
    if seq > 2:
        assert len(journal.read("hurt", limit=seq - 1)) == seq - 1
        assert len(journal.read("hurt", after_seq=seq)) == EVENTS - seq
    journal.close()


def test_the_flag_stays_for_other_processes_and_goes_when_the_run_reads_well(store):
    text = b"hurt 5 " * 40
    change(store, text, b"HURT 5 " + text[7:])
    journal = SqliteJournal(store)
    damage_of(journal, "hurt")
    journal.close()
    journal = SqliteJournal(store)
    assert "not what was written" in journal.head("hurt").damaged
    journal.close()
    change(store, b"HURT 5 ", b"hurt 5 ")
    journal = SqliteJournal(store)
    assert len(journal.read("hurt")) == EVENTS
    assert journal.head("hurt").damaged == ""
    journal.delete(["hurt"])
    journal.close()


@pytest.mark.parametrize("column", ["epoch", "at", "chain"])
def test_a_changed_number_in_an_event(store, column):
    sql(store, f"update event set {column} = {column} + 1 where id = (2 << 32) + 9")
    journal = SqliteJournal(store)
    assert damage_of(journal, "hurt") == 9
    others_are_intact(journal)
    journal.close()


@pytest.mark.parametrize(("condition", "seq"), [("= 20", 20), (">= 50", 50), ("= 60", 60), (">= 1", 1)])
def test_missing_events(store, condition, seq):
    sql(store, f"delete from event where id >> 32 = 2 and id & 0xffffffff {condition}")
    journal = SqliteJournal(store)
    assert damage_of(journal, "hurt") == seq
    assert len(journal.good_prefix("hurt")) == seq - 1
    if seq > 1:
        with pytest.raises(StoreDamaged) as caught:
            journal.read("hurt", after_seq=seq - 1)
        assert caught.value.seq == seq
    if seq < EVENTS:
        with pytest.raises(StoreDamaged) as caught:
            journal.read("hurt", after_seq=seq)
        assert caught.value.seq == seq
    others_are_intact(journal)
    journal.close()


def test_another_last_event_with_a_chain_of_its_own(store):
    journal = SqliteJournal(store)
    real = journal.read("hurt")[-2:]
    journal.close()
    forged = replace(real[1], data=b"forged")

    link = chain(real[0].chain, forged.seq, forged.epoch, forged.at, forged.data)
    sql(store, "update event set data = ?, chain = ? where id = (2 << 32) + 60", b"forged", link)
    journal = SqliteJournal(store)
    assert damage_of(journal, "hurt") == EVENTS
    assert len(journal.good_prefix("hurt")) == EVENTS - 1
    journal.close()


def test_an_event_after_the_last_one(store):
    sql(store, "insert into event values ((2 << 32) + 61, 1, 1, x'00', 5)")
    journal = SqliteJournal(store)
    driver = Driver(journal, "hurt")
    with pytest.raises(StoreDamaged) as caught:
        driver.write(1)
    assert (caught.value.run_id, caught.value.seq) == ("hurt", EVENTS + 1)
    assert len(journal.read("hurt")) == EVENTS
    journal.close()


@pytest.mark.parametrize(
    "change_to",
    ["headline = x'00'", "seq = 59", "seq = 'x'", "epoch = 0", "headline = null || 'a'", "chain = -1"],
)
def test_a_changed_row_of_a_run(store, change_to):
    if "null" in change_to:
        change_to = "headline = 7"
    sql(store, f"update run set {change_to} where run_id = 'hurt'")
    journal = SqliteJournal(store)
    assert journal.runs()[1] == journal.head("hurt")
    assert journal.head("hurt") == Head("hurt", damaged="its row is not what was written")
    assert damage_of(journal, "hurt") == 0
    assert len(journal.good_prefix("hurt")) == EVENTS
    with pytest.raises(StoreDamaged):
        journal.claim("hurt", 1)
    others_are_intact(journal)
    journal.delete(["hurt"])
    assert len(journal.runs()) == 2
    journal.close()


def test_a_changed_blob(store):
    sql(store, "update blob set data = x'00' where data = cast('hurt' as blob)")
    journal = SqliteJournal(store)
    sha = digest(b"hurt")
    assert journal.has_blob(sha)
    with pytest.raises(StoreDamaged, match=sha):
        journal.blob(sha)
    others_are_intact(journal)
    journal.close()


def test_a_zeroed_page_of_events(store):
    pages = pages_of(store, "event")
    zero_page(store, pages[len(pages) // 2])
    journal = SqliteJournal(store)
    seq = damage_of(journal, "hurt")
    assert 1 < seq <= EVENTS
    assert [entry.seq for entry in journal.good_prefix("hurt")] == list(range(1, seq))
    others_are_intact(journal)
    for run_id in ("before", "after"):
        Driver(journal, run_id).write(1)
    journal.close()


@pytest.fixture
def many_runs(path):
    """Runs on several pages of their table."""
    journal = SqliteJournal(path)
    for n in range(40):
        driver = Driver(journal, f"r{n:02}", now_ms=n)
        driver.write(1, headline=b"h" * 500)
    journal.close()
    return path


def test_a_zeroed_page_of_runs_hides_none_of_them(many_runs):
    pages = pages_of(many_runs, "run")
    assert len(pages) > 3
    zero_page(many_runs, pages[1])
    journal = SqliteJournal(many_runs)
    heads = journal.runs()
    assert sorted(head.run_id for head in heads) == [f"r{n:02}" for n in range(40)]
    damaged = [head.run_id for head in heads if head.damaged]
    assert 1 <= len(damaged) < 20
    for head in heads:
        if not head.damaged:
            assert len(journal.read(head.run_id)) == 1
    for run_id in damaged:
        for call in (journal.head, journal.read):
            with pytest.raises(StoreDamaged, match=run_id) as caught:
                call(run_id)
            assert caught.value.run_id == run_id
    journal.close()


def test_a_truncated_file(store):
    size = store.stat().st_size
    with store.open("r+b") as file:
        file.truncate(size - size // 3)
    journal = SqliteJournal(store)
    damaged = set()
    for run_id in RUNS:
        if len(journal.good_prefix(run_id)) < EVENTS:
            seq = damage_of(journal, run_id)
            assert [entry.seq for entry in journal.good_prefix(run_id)] == list(range(1, seq))
            damaged.add(run_id)
        else:
            assert len(journal.read(run_id)) == EVENTS
    assert "after" in damaged
    assert "before" not in damaged
    assert {head.run_id for head in journal.runs()} == set(RUNS)
    for write in (lambda: journal.claim("before", 1), lambda: journal.delete(["before"]), journal.vacuum):
        with pytest.raises(StoreDamaged, match="malformed"):
            write()
    journal.close()


def test_a_damaged_first_page_is_refused(store):
    zero_page(store, 1)
    with pytest.raises(StoreError) as caught:
        SqliteJournal(store)
    assert str(store) in str(caught.value)


def test_a_torn_log_loses_only_what_was_not_acknowledged(store, tmp_path):
    """The log of a killed process, cut anywhere: whole commits are there, from the first on."""
    journal = SqliteJournal(store)
    driver = Driver(journal, "hurt")
    sizes = []
    for _ in range(5):
        driver.write(2)
        sizes.append(journal.stats()["wal_bytes"])
    main, log = store.read_bytes(), store.with_name("kedge.db-wal").read_bytes()
    journal.close()
    for cut in (*sizes, *(size - 1 for size in sizes), sizes[0] + 100, 10):
        copy = tmp_path / f"cut{cut}" / "kedge.db"
        copy.parent.mkdir()
        copy.write_bytes(main)
        copy.with_name("kedge.db-wal").write_bytes(log[:cut])
        journal = SqliteJournal(copy)
        whole = sum(1 for size in sizes if size <= cut)
        assert len(journal.read("hurt")) == EVENTS + 2 * whole
        journal.close()


def test_the_log_of_another_database_is_not_taken_for_ours(store, tmp_path):
    other = SqliteJournal(tmp_path / "other.db")
    Driver(other, "strange").write(50)
    log = (tmp_path / "other.db-wal").read_bytes()
    other.close()
    store.with_name("kedge.db-wal").write_bytes(log)
    # SQLite takes any whole log for its own. What it makes of ours must not pass for our events.
    readable = 0
    with suppress(StoreError, NotFound), closing(SqliteJournal(store)) as journal:
        for run_id in RUNS:
            readable += len(journal.read(run_id)) == EVENTS
        assert readable == len(RUNS)


def test_a_damaged_page_takes_no_events(store):
    zero_page(store, pages_of(store, "event")[-1])
    journal = SqliteJournal(store)
    driver = Driver(journal, "after")
    with pytest.raises(StoreDamaged, match="no event can be added") as caught:
        driver.write(1)
    assert (caught.value.run_id, caught.value.seq) == ("after", EVENTS + 1)
    assert len(journal.read("before")) == EVENTS
    journal.close()


# ---- bits that change what a value, a table or a name is


@pytest.mark.parametrize(
    "becomes",
    ["data = cast(data as text)", "data = cast(x'c328' as text)", "chain = 'x'", "at = 'now'", "epoch = 1.5"],
)
def test_a_value_of_another_kind_in_an_event(store, becomes):
    sql(store, f"update event set {becomes} where id = (2 << 32) + 9")
    journal = SqliteJournal(store)
    assert damage_of(journal, "hurt") == 9
    assert len(journal.good_prefix("hurt")) == 8
    others_are_intact(journal)
    journal.close()


def test_a_name_that_is_no_text(store):
    sql(store, "update run set run_id = cast(x'c328' as text) where run_id = 'hurt'")
    journal = SqliteJournal(store)
    with pytest.raises(StoreDamaged):
        journal.runs()
    others_are_intact(journal)
    journal.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update sqlite_master set sql = replace(sql, 'headline', 'heedline') where name = 'run'",
        "update sqlite_master set name = 'evens', tbl_name = 'evens' where name = 'event'",
        "update sqlite_master set sql = cast(x'c328' as text) where name = 'blob'",
    ],
)
def test_tables_that_are_not_what_they_were_made_as(store, statement):
    db = apsw.Connection(str(store))
    db.pragma("writable_schema", "on")
    db.execute(statement)
    db.close()
    with pytest.raises(StoreDamaged, match=str(store)):
        SqliteJournal(store)


@pytest.mark.parametrize("version", [0, -1])
def test_tables_without_a_version(store, version):
    db = apsw.Connection(str(store))
    db.pragma("user_version", version)
    db.close()
    with pytest.raises(StoreDamaged, match="no version"):
        SqliteJournal(store)


class Index:
    """The page with the index of names, to change by hand."""

    def __init__(self, path):
        db = apsw.Connection(str(path))
        ((page,),) = db.execute("select rootpage from sqlite_master where name = 'sqlite_autoindex_run_1'")
        self.page = int(str(page))
        db.close()
        self.path = path

    def change(self, old, new):
        raw = bytearray(self.path.read_bytes())
        start = (self.page - 1) * 4096
        page = raw[start : start + 4096]
        assert page.count(old) == 1
        raw[start : start + 4096] = page.replace(old, new)
        self.path.write_bytes(raw)


def test_an_index_that_leads_to_another_run(store):
    Index(store).change(b"hurt\x02", b"hurt\x03")
    journal = SqliteJournal(store)
    assert len(journal.read("hurt")) == EVENTS  # found in the table itself
    assert journal.read("hurt")[0].data.startswith(b"hurt")
    assert journal.head("hurt").damaged == ""
    others_are_intact(journal)
    journal.close()


def test_an_index_that_leads_nowhere(store):
    Index(store).change(b"hurt\x02", b"hurt\x63")
    journal = SqliteJournal(store)
    with pytest.raises(StoreDamaged, match="its row is missing"):
        journal.head("hurt")
    with pytest.raises(StoreDamaged, match="its row is missing"):
        journal.claim("hurt", 1)
    others_are_intact(journal)
    journal.close()


def test_a_name_that_the_index_has_lost_is_not_taken_for_a_new_one(store):
    Index(store).change(b"hurt\x02", b"hurd\x02")
    journal = SqliteJournal(store)
    with pytest.raises(StoreDamaged, match="lost it"):
        journal.head("hurt")
    assert len(journal.read("hurt")) == EVENTS
    assert journal.head("nobody") is None
    others_are_intact(journal)
    journal.close()


def test_a_row_whose_name_has_changed_loses_no_event(store):
    sql(store, "update run set crc = crc + 1 where run_id = 'hurt'")
    raw = bytearray(store.read_bytes())
    start = (int(str(pages_of(store, "run")[0])) - 1) * 4096
    raw[start : start + 4096] = raw[start : start + 4096].replace(b"hurt", b"hurd", 1)
    store.write_bytes(raw)
    journal = SqliteJournal(store)
    assert damage_of(journal, "hurt") == 0
    assert len(journal.good_prefix("hurt")) == EVENTS
    others_are_intact(journal)
    journal.close()


def test_a_row_that_is_another_runs_gives_none_of_its_events(store):
    sql(store, "delete from run where run_id = 'after'")
    Index(store).change(b"hurt\x02", b"gone\x02")
    journal = SqliteJournal(store)
    for call in (journal.read, journal.good_prefix, journal.head):
        with pytest.raises(StoreDamaged, match="run hurt is in its place"):
            call("gone")
    journal.close()


def test_a_row_that_cannot_be_read_loses_no_event(many_runs):
    zero_page(many_runs, pages_of(many_runs, "run")[1])
    journal = SqliteJournal(many_runs)
    (name, *_) = [head.run_id for head in journal.runs() if head.damaged]
    assert damage_of(journal, name) == 0
    assert len(journal.good_prefix(name)) == 1
    journal.close()
