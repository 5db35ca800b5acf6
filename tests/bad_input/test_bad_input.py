"""Whatever is wrong with a plan is told through every door, with place and remedy, and nothing runs."""

import asyncio
import time

import bad_arguments
import bad_documents
import bad_references
import bad_structure
import bad_tools
import pytest

import kedge
from kedge.checks import STRICTNESS
from kedge.plan.document import to_data
from kedge.plan.expr import parse

CASES = [*bad_documents.CASES, *bad_structure.CASES, *bad_references.CASES, *bad_arguments.CASES]
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])

MAY_BE_LENIENT = frozenset(
    {
        "blank_goal", "compensation_unused", "constant_condition", "doubtful_key",
        "idle_timeout_unused", "missing_argument",
        "no_compensation", "output_unchecked", "pattern_unchecked", "reference_type", "retry_category",
        "retry_unused",
        "shadowed_name", "unavailable_tool", "unknown_argument", "unneeded_fallback", "unreachable",
        "unused_arguments", "unused_input", "wrong_argument",
    }
)  # fmt: skip
"""What a person may wave through. Whatever else is wrong stays an error at every strictness."""


@pytest.fixture(autouse=True)
def nothing_runs():
    bad_tools.LEDGER.clear()
    yield
    assert bad_tools.LEDGER == []


def the_fault(case, findings):
    """The finding of the case, which must be there once."""
    found = [one for one in findings if (one.code, one.path) == (case.code, case.path)]
    assert len(found) == 1, f"wanted {case.code} at {case.path!r}, found\n{findings}"
    return found[0]


@each_case
def test_a_fault_is_told_with_place_and_remedy(case):
    begun = time.process_time()
    findings = kedge.check(case.document, tools=bad_tools.TOOLS)
    assert time.process_time() - begun < 1
    fault = the_fault(case, findings)
    assert fault.step == case.step
    assert fault.severity == case.severity
    assert case.says in fault.remedy
    assert case.allowed in fault.allowed or not case.allowed
    assert fault.message
    assert len(str(fault)) < 2000
    assert findings.ok == (case.severity != "error")


def test_the_character_of_an_expression_is_told():
    for case in bad_references.CASES:
        if case.name in bad_references.CHARACTERS:
            fault = the_fault(case, kedge.check(case.document, tools=bad_tools.TOOLS))
            assert f"(at character {bad_references.CHARACTERS[case.name]})" in fault.message, case.name


@pytest.mark.parametrize("text", [case.document["steps"][-1]["when"] for case in bad_references.EXPRESSIONS])
def test_refusing_an_expression_costs_next_to_nothing(text):
    def cost() -> float:
        begun = time.process_time()
        with pytest.raises(kedge.ExpressionError) as caught:
            parse(text)
        spent = time.process_time() - begun
        assert 0 <= caught.value.position <= len(text)
        return spent

    assert min(cost() for _ in range(3)) < 0.010


@each_case
def test_no_door_lets_a_faulty_plan_run(case):
    """What is no plan is told by `parse`, the rest when a run is to start: the same finding every time."""
    told = the_fault(case, kedge.check(case.document, tools=bad_tools.TOOLS))
    if case.severity != "error":
        return

    async def start():
        async with kedge.Engine(tools=bad_tools.TOOLS) as engine:
            try:
                await engine.start(kedge.Plan.parse(case.document))
            finally:
                assert engine.runs() == []

    with pytest.raises(kedge.BadInput) as caught:
        asyncio.run(start())
    error = caught.value
    assert error.code == case.code or isinstance(error, kedge.InvalidPlan)
    assert told.message in str(error)
    if isinstance(error, kedge.InvalidPlan):
        assert told in tuple(error.findings)


@each_case
def test_strictness_moves_weights_and_never_lets_what_cannot_run_through(case):
    found = {word: kedge.check(case.document, tools=bad_tools.TOOLS, strictness=word) for word in STRICTNESS}
    places = [[(one.code, one.path, one.message) for one in findings] for findings in found.values()]
    assert places[0] == places[1] == places[2]
    ranks = [("note", "warning", "error").index(the_fault(case, found[w]).severity) for w in STRICTNESS]
    assert ranks == sorted(ranks, reverse=True)
    for one in found["lenient"]:
        assert one.severity == "error" or one.code in MAY_BE_LENIENT, one


@each_case
def test_a_mending_mends_what_it_is_offered_for(case):
    if not isinstance(case.document, dict | str):
        return
    for one in (findings := kedge.check(case.document, tools=bad_tools.TOOLS)):
        if one.fix is not None:
            document = kedge.apply_fix(to_data(case.document), one.fix)
            left = [(f.code, f.path, f.message) for f in kedge.check(document, tools=bad_tools.TOOLS)]
            assert (one.code, one.path, one.message) not in left
            assert len(left) < len(findings) + 2, left


@each_case
def test_mending_comes_to_an_end(case):
    document, rounds = case.document, 0
    while fixes := [one.fix for one in kedge.check(document, tools=bad_tools.TOOLS) if one.fix is not None]:
        document = kedge.apply_fix(to_data(document), fixes[0])
        rounds += 1
        assert rounds < 10, fixes


@pytest.mark.parametrize("name", ["broken text", "broken shape", "broken sense"])
def test_all_faults_are_told_at_once_in_document_order(name):
    document, expected = bad_structure.SEVERAL[name]
    findings = kedge.check(document, tools=bad_tools.TOOLS)
    assert [(one.code, one.path) for one in findings.errors] == expected
    assert all(one.remedy for one in findings)


def test_the_table_is_large_enough():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(CASES) >= 250
    assert len({case.code for case in CASES}) >= 100
