import io
import sys

from kedge.control.print_progress import print_progress
from kedge.views.narrate import Narrator


def test_one_line_for_each_event_of_a_step_or_the_run(story, capsys):
    run = story()
    narrator = Narrator("run1", run.plan)
    for row in run.journal:
        for event in narrator.tell(*row):
            print_progress(event)
    print_progress(narrator.progress("list", 0.5, "not printed", 0))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(run.journal)
    assert lines[0] == "  0 %  Run run1 started: Compare the tone of the two newest reports"
    assert lines[-1] == "100 %  The run is done in 8.5 s"


def test_a_log_that_knows_no_umlauts_stops_nothing(play, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    run = play({"goal": "Grüße 漢", "steps": [{"id": "a", "tool": "t"}]}, until_s=0)
    print_progress(Narrator("run1", run.plan).tell(*run.journal[0])[0])
    assert raw.getvalue() == b"  0 %  Run run1 started: Gr??e ?\n"
