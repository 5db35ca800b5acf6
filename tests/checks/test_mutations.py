"""Plans that were broken at random: nothing makes a check fall over, and every fix mends what it says."""

import copy
import json
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.checks import check
from kedge.plan.findings import apply_fix

GOOD: Any = json.loads("""{
    "goal": "Compare the newest reports",
    "inputs": {"folder": {"type": "string", "default": "reports"}, "count": {"type": "integer"}},
    "context": {"user": {"name": "x"}},
    "steps": [
        {"id": "list", "tool": "files.list", "args": {"path": "${inputs.folder}", "pattern": "*.md"}},
        {"id": "read", "tool": "files.read", "foreach": "${list.files}", "args": {"path": "${item.path}"},
         "retry": {"attempts": 3, "on": ["timeout", "transient"]}, "timeout_s": 30},
        {"id": "work", "steps": [
            {"id": "first", "tool": "double", "args": {"x": "${inputs.count}"}, "expect": "result > 0"},
            {"id": "second", "tool": "double", "args": {"x": "${first}"},
             "loop": {"times": 3, "until": "loop.previous > 9"}}
        ]},
        {"id": "mail", "tool": "send", "args": {"to": "${context.user.name}"}, "when": "work.second > 1",
         "after": ["read"], "compensate": {"tool": "unsend", "args": {"id": "${mail.id}"}}},
        {"id": "spare", "tool": "upload", "fallback_for": "mail",
         "args": {"texts": ["${read}", {"n": "${work.first}"}]}},
        {"id": "shape", "tool": "shapes",
         "args": {"mode": "fast", "names": ["a"], "point": {"lat": 1.5}, "count": 3}}
    ],
    "outputs": {"sum": "work.first + work.second", "id": "mail.id"},
    "answer": "Sent as ${mail.id}",
    "limits": {"parallel": 4}
}""")

ODD = [
    None, True, 0, -1, 2.5, "", "x", "${", "${list", "${lst.files}", "${list.filez}", "${item}", "${read}",
    "${work}", "list.files > 'a'", [], ["x"], {}, {"a": 1}, "goal", 10**30,
    "\u200b", "true", "7", "${secret.K}", "1 / 0",
]  # fmt: skip


def places(value: Any, way=()):
    if way:
        yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*way, key))


WAYS = list(places(GOOD))


@st.composite
def broken_plans(draw):
    document = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 4))):
        way = draw(st.sampled_from(WAYS))
        holder: Any = document
        try:
            for key in way[:-1]:
                holder = holder[key]
            mutate(draw, holder, way[-1])
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier mutation took that place away
    return document


def mutate(draw, holder: Any, key: Any):
    match draw(st.sampled_from(["odd", "remove", "misspell", "rename", "double"])):
        case "odd":
            holder[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        case "remove":
            del holder[key]
        case "misspell" if isinstance(text := holder[key], str) and len(text) > 1:
            holder[key] = misspelt(draw, text)
        case "rename" if isinstance(key, str) and len(key) > 1:
            holder[misspelt(draw, key)] = holder.pop(key)
        case "double" if isinstance(holder, list):
            holder.append(copy.deepcopy(cast(Any, holder)[key]))
        case _:
            pass  # not for this place


def misspelt(draw, text: str):
    at = draw(st.integers(0, len(text) - 2))
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def test_the_plan_that_is_broken_was_good(catalog):
    assert check(GOOD, catalog, "strict").all == ()


@settings(max_examples=300)
@given(broken_plans())
def test_every_fix_mends_what_it_says_and_breaks_no_check(catalog, document):
    findings = check(document, catalog, "strict")
    before = Counter((finding.code, finding.message) for finding in findings)
    for finding in findings:
        assert finding.remedy, finding
        if finding.fix is not None:
            fixed = apply_fix(document, finding.fix)
            after = Counter((one.code, one.message) for one in check(fixed, catalog, "strict"))
            what = (finding.code, finding.message)
            assert after[what] < before[what], finding


@pytest.mark.parametrize(
    ("old", "new"), [("files.list", "files.lst"), ("${list.files}", "${lits.filse}"), ("timeout", "tiemout")]
)
def test_mending_again_and_again_ends_in_a_good_plan(old, new, catalog):
    document = good_but(old, new)
    for _ in range(10):
        fixes = [finding.fix for finding in check(document, catalog) if finding.fix is not None]
        if not fixes:
            break
        document = apply_fix(document, fixes[0])
    assert document == GOOD


def good_but(old, new) -> Any:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [changed(item) for item in value]
        return new if value == old else value

    return changed(GOOD)
