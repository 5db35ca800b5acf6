"""Many questions over restarts: each has an id of its own, is answered once, in any order, for one call."""

import random

import kedge
from kedge import commands

COUNT = 100


async def test_a_hundred_approvals_over_three_restarts_are_each_consumed_once(tmp_path):
    sent = []

    @kedge.tool(effect="effect")
    async def send(n: int) -> int:
        sent.append(n)
        return n

    plan = kedge.Plan.parse(
        {
            "goal": "Ask a hundred times",
            "steps": [
                {"id": "each", "tool": "send", "foreach": list(range(COUNT)), "args": {"n": "${item}"},
                 "approval": {"ask": "Send ${item}?"}},
            ],
        }
    )  # fmt: skip
    luck = random.Random(7)
    asked: dict[str, str] = {}
    refused: set[int] = set()
    result = None
    for life in range(4):
        async with kedge.Engine([send], tmp_path / "k.db") as engine:
            run = await (engine.start(plan, run_id="r") if not life else engine.resume("r"))
            result = await run.result()
            open_ones = result.questions
            assert len(open_ones) == COUNT - len(asked)
            assert not asked.keys() & open_ones.keys(), "answered, and asked again"
            if not life:
                assert len({question.path for question in open_ones.values()}) == COUNT
            chosen = luck.sample(sorted(open_ones), len(open_ones) if life == 3 else COUNT // 4)
            for question in chosen:
                answer = luck.choice(["approve", "approve", "refuse"])
                path = open_ones[question].path
                if answer == "refuse":
                    refused.add(int(path[5:-1]))
                await run.answer(question, answer, by="anna")
                asked[question] = answer
            for question in luck.sample(sorted(asked), 5):  # answered before, in this life or another
                again = await run.send(commands.Answer(question=question, answer="approve"))
                assert not again.taken
                assert again.code in ("already_answered", "run_ended")
            result = await run.result()
    assert result is not None
    assert str(result.status) == "failed", "some were refused"
    assert sorted(sent) == sorted(set(range(COUNT)) - refused), "each approved one once, and no other"
