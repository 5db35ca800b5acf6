# ruff: noqa: D103 (the name of a case says what it shows)
"""The cases of the conformance kit for commands that a journal keeps. Start from `journal_kit`."""

from __future__ import annotations

from kedge.base.errors import KedgeError, NotFound
from kedge.journal.entry import Posted, Sent
from kedge.testing.journal_cases import Driver, Journal, Open, alone, present, refused, same, shared


def _post(journal: Journal, *ids: str, run_id: str = "run", data: bytes = b"{}") -> list[Posted]:
    return journal.post([Sent(run_id, id_, 7, 50, data) for id_ in ids])


def _ids(posted: list[Posted]) -> list[str]:
    return [one.id for one in posted]


@alone
def commands_come_back_byte_for_byte_in_the_order_of_arrival(open_journal: Open) -> None:
    journal = open_journal()
    Driver(journal).write(1)
    first = _post(journal, "b", data=bytes(range(256)))[0]
    same((first.run_id, first.id, first.port, first.at), ("run", "b", 7, 50), "the command")
    _post(journal, "c", "a")
    found = journal.posted("run")
    same(_ids(found), ["b", "c", "a"], "the order")
    same(found[0], first, "what was posted")
    same(_ids(journal.posted("run", first.position)), ["c", "a"], "those after the first")
    same(_ids(journal.posted("run", first.position, 1)), ["c"], "one after the first")
    same(len(journal.read("run")), 1, "events: a command is none")


@alone
def a_command_of_one_id_is_kept_once(open_journal: Open) -> None:
    journal = open_journal()
    Driver(journal).write(1)
    first = _post(journal, "k", data=b"one")[0]
    same(_post(journal, "k", data=b"two"), [first], "the same id again")
    same(_post(journal, "x", "x")[0].id, "x", "the same id twice in one batch")
    same(_ids(journal.posted("run")), ["k", "x"], "commands")
    same(journal.find_posted("run", "k"), first, "by its id")
    same(journal.find_posted("run", "nobody"), None, "by an unknown id")


@alone
def ids_of_runs_do_not_mix(open_journal: Open) -> None:
    journal = open_journal()
    for run_id in ("a", "b"):
        Driver(journal, run_id).write(1)
        _post(journal, "k", run_id=run_id, data=run_id.encode())
    same([journal.posted(run_id)[0].data for run_id in "ab"], [b"a", b"b"], "the command of each")


@alone
def nothing_is_kept_for_a_run_that_is_not_there(open_journal: Open) -> None:
    journal = open_journal()
    Driver(journal).write(1)
    refused(NotFound, journal.post, [Sent("run", "k", 0, 1, b""), Sent("nobody", "k", 0, 1, b"")])
    same(journal.posted("run"), [], "the other command of the batch")
    refused(NotFound, journal.posted, "nobody")
    refused(NotFound, journal.find_posted, "nobody", "k")
    same(journal.post([]), [], "nothing posted")


@alone
def decisions_are_written_with_the_events_or_not_at_all(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    driver.write(1)
    one, two = _post(journal, "one", "two")
    same(journal.decisions([one.position, two.position, 999]), {}, "decisions before")
    misfit = driver.next(b"x")._replace(after_seq=9, decisions=((one.position, b"lost"),))
    refused(KedgeError, journal.commit, [misfit])
    same(_ids(journal.posted("run")), ["one", "two"], "undecided after a commit that failed")
    driver.seq, driver.chain = 1, present(journal.head("run")).chain
    journal.commit([driver.next(b"y")._replace(decisions=((one.position, b"yes"),))])
    same(journal.decisions([one.position, two.position]), {one.position: b"yes"}, "decisions")
    same(_ids(journal.posted("run")), ["two"], "undecided")
    same(present(journal.find_posted("run", "one")).decision, b"yes", "the command's decision")
    same(_post(journal, "one")[0].decision, b"yes", "what whoever sends it again is told")
    journal.commit([driver.next()._replace(decisions=((two.position, b"no"),))])
    same(journal.posted("run"), [], "undecided after a decision without events")


@alone
def what_has_arrived_is_told_by_run(open_journal: Open) -> None:
    journal = open_journal()
    for run_id in ("a", "b", "c"):
        Driver(journal, run_id).write(1)
    same(journal.arrived(0), (0, []), "arrivals at first")
    first = _post(journal, "1", "2", run_id="a")[-1]
    last = _post(journal, "1", run_id="b")[0]
    same(journal.arrived(0)[0], last.position, "the newest position")
    same(sorted(journal.arrived(0)[1]), ["a", "b"], "runs")
    same(journal.arrived(first.position), (last.position, ["b"]), "runs after the first")
    same(journal.arrived(last.position), (last.position, []), "nothing new")
    same(journal.undecided(), ["a", "b"], "runs with something to decide")


@alone
def commands_go_with_their_run_and_positions_do_not_come_back(open_journal: Open) -> None:
    journal = open_journal()
    driver = Driver(journal)
    driver.write(1)
    before = _post(journal, "k")[0]
    driver.release()
    journal.delete(["run"])
    same(journal.undecided(), [], "undecided")
    Driver(journal).write(1)
    same(journal.posted("run"), [], "commands of the new run of that name")
    if _post(journal, "k")[0].position <= before.position:
        raise AssertionError("a position is never given twice: whoever reads on from it would miss one")


@alone
def the_driver_says_where_it_listens(open_journal: Open) -> None:
    journal = open_journal()
    lease = journal.claim("run", 1, 4_711)
    same(journal.port("run"), 4_711, "the port")
    journal.release(lease)
    same(journal.port("run"), 0, "the port when nobody drives")
    same(journal.port("nobody"), 0, "the port of no run")


@alone
def runs_are_chosen_by_their_line(open_journal: Open) -> None:
    journal = open_journal()
    for run_id, line in (("a", b"one two"), ("b", b"two"), ("c", b"three")):
        Driver(journal, run_id).write(1, headline=line)
    same([head.run_id for head in journal.runs(holding=b"two")], ["b", "a"], "with two")
    same([head.run_id for head in journal.runs(lacking=b"two")], ["c"], "without two")
    same([head.run_id for head in journal.runs(holding=b"two", lacking=b"one")], ["b"], "both")


@shared
def another_object_sends_and_is_told(open_journal: Open) -> None:
    first, second = open_journal(), open_journal()
    driver = Driver(first)
    driver.write(1)
    seen = first.data_version()
    posted = _post(second, "k")[0]
    if first.data_version() == seen:
        raise AssertionError("data_version must change when another has sent something")
    same(first.posted("run"), [posted], "what the driver finds")
    first.commit([driver.next(b"x")._replace(decisions=((posted.position, b"yes"),))])
    same(second.decisions([posted.position]), {posted.position: b"yes"}, "what the sender finds")
