"""`kedge salvage`: what it prints, and that the run goes on elsewhere."""

import apsw
import pytest


@pytest.fixture
def damaged(kedge, folder):
    """A run with one effect, whose log is damaged where that began."""
    (folder / "pay.yaml").write_text(
        "goal: Pay\nsteps:\n  - {id: a, tool: double, args: {x: 1}}\n"
        '  - {id: pay, tool: pay, args: {x: "${a}"}}\n'
    )
    (folder / "tools.py").write_text(
        (folder / "tools.py").read_text()
        + '\n\n@kedge.tool(effect="effect")\nasync def pay(x: int) -> int:\n    """Pays."""\n    return x\n'
    )
    kedge("run", "pay.yaml", "--run", "r", "--no-live")
    db = apsw.Connection(str(folder / ".kedge" / "kedge.db"))
    db.execute("update event set at = at + 1 where id & 0xffffffff = 5")
    db.close()
    return folder


def test_without_a_target_it_tells_what_is_intact(kedge, damaged):
    said = kedge("salvage", "r").stdout
    assert "run r: 4 events are intact, 3 more are lost" in said
    assert "event 5: its bytes are not what was written" in said
    assert "running, 1 of 2 steps done" in said
    assert "behind the damage it says: pay succeeded" in said
    assert "kedge salvage r --to FILE" in said
    assert [line for line in kedge("log", "r", code=5).stdout.splitlines() if "step_succeeded" in line]


def test_the_salvaged_run_is_shown_asks_and_is_resumed(kedge, damaged):
    said = kedge("salvage", "r", "--to", "other.db").stdout
    assert "written to other.db; go on with: kedge resume r --store other.db" in said
    assert "salvaged" in kedge("log", "r", "--store", "other.db").stdout
    said = kedge("resume", "r", "--store", "other.db", code=3).stdout
    assert "kedge answer r q1 ask" in said
    assert "(ask: about each call before it is made" in said
    kedge("answer", "r", "q1", "ask", "--store", "other.db", code=3)
    kedge("answer", "r", "q2", "done", "--value", "2", "--store", "other.db")
    assert kedge.data("runs", "--store", "other.db")[0]["status"] == "done"


def test_json_tells_the_same(kedge, damaged):
    found = kedge.data("salvage", "r", "--to", "other.db")
    assert (found["intact"], found["lost"], found["store"]) == (4, 3, "other.db")
    assert found["behind"] == {"pay": "succeeded"}


def test_what_cannot_be_salvaged_says_why(kedge, damaged):
    kedge("salvage", "nobody", code=2)
    kedge("run", "good.yaml", "--run", "fine", "--no-live")
    assert "no damage to be seen" in kedge("salvage", "fine").stdout
    assert kedge.data("salvage", "fine", "--to", "other.db", code=2)["error"]["code"] == "not_damaged"


def test_a_row_that_is_damaged_hides_how_much_followed(kedge, damaged):
    db = apsw.Connection(".kedge/kedge.db")
    db.execute("update run set seq = 5")
    db.close()
    assert "nobody can tell how many followed" in kedge("salvage", "r").stdout
