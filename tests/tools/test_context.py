import math
import threading

import pytest

from kedge.base.errors import ToolError
from kedge.tools.context import Context


@pytest.mark.parametrize(
    ("given", "reported"),
    [(0.25, 0.25), (None, None), (0, 0.0), (1, 1.0), (7, 1.0), (-1, 0.0), (math.inf, 1.0), (math.nan, None)],
)
def test_progress_is_held_between_0_and_1(context, sink, given, reported):
    context.progress(given, "at it")
    assert sink.reports == [("progress", {"fraction": reported, "message": "at it"})]


def test_heartbeats_and_discoveries_are_reported(context, sink):
    context.heartbeat()
    context.discover("xml files found", need="parse xml")
    assert sink.reports == [
        ("heartbeat", {}),
        ("discovery", {"what": "xml files found", "need": "parse xml"}),
    ]


def test_what_a_call_used_is_reported(context, sink):
    context.usage(tokens=900, cost=0.02)
    context.usage(tokens=7)
    assert sink.reports == [
        ("usage", {"tokens": 900, "cost": 0.02}),
        ("usage", {"tokens": 7, "cost": 0.0}),
    ]


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, 1e13, "7", None, True])
@pytest.mark.parametrize("name", ["tokens", "cost"])
def test_what_no_call_can_have_used_is_a_clear_refusal(context, sink, name, amount):
    with pytest.raises(ToolError, match=f"a call cannot have used {name}") as caught:
        context.usage(**{name: amount})
    assert (caught.value.category, sink.reports) == ("bug", [])


def test_the_idempotency_key_is_computed_only_when_asked_for(sink):
    asked = []
    context = Context(sink, "run1", "a[3]/b", 2, lambda: asked.append(1) or "the key")
    assert (context.run_id, context.step, context.attempt, asked) == ("run1", "a[3]/b", 2, [])
    assert context.idempotency_key == "the key"
    assert asked == [1]


def test_a_secret_is_a_clear_refusal(context):
    with pytest.raises(ToolError, match="secret 'WIKI_TOKEN' is not available") as caught:
        context.secret("WIKI_TOKEN")
    assert caught.value.category == "permission"
    assert caught.value.remedy


def test_reports_come_through_from_many_threads(context, sink):
    def work():
        for _ in range(100):
            context.heartbeat()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sink.reports) == 800


def test_a_context_takes_no_other_names(context):
    with pytest.raises(AttributeError):
        context.anything = 1
