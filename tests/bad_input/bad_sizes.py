"""Plans that are far too large, and what checking one of them costs."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import kedge
from kedge.base.limits import DEFAULT_LIMITS

_MB = 1024 * 1024
_ROOMY = kedge.Limits(document_bytes=100 * _MB)
_WIDE = kedge.Limits(steps=200_000)


class Large(NamedTuple):
    """How to make it, and the fault that must be found; no code: it can be run."""

    make: Any
    code: str
    path: str
    says: str
    limits: kedge.Limits = DEFAULT_LIMITS


def _steps_json() -> str:
    steps = ",".join(f'{{"id": "s{n}", "tool": "t"}}' for n in range(1_000_000))
    return f'{{"goal": "g", "steps": [{steps}]}}'


def _steps_yaml() -> str:
    return "goal: g\nsteps:\n" + "".join(f"- {{id: s{n}, tool: t}}\n" for n in range(1_000_000))


def _plan(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"goal": "g", "steps": list(steps), **fields}


def _step(n: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"s{n}", "tool": "t", **fields}


def _args(value: Any) -> kedge.Plan:
    return kedge.Plan(goal="g", steps=(kedge.Step(id="a", tool="t", args={"x": value}),))


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _composites(depth: int) -> dict[str, Any]:
    inner = _step(0)
    for n in range(depth):
        inner = {"id": f"g{n}", "steps": [inner]}
    return _plan(inner)


def _misspelt() -> dict[str, Any]:
    known = [_step(n) for n in range(5_000)]
    return _plan(*known, *({"id": f"x{n}", "tool": "t", "args": {"v": f"${{ss{n}}}"}} for n in range(4_999)))


def _edges() -> dict[str, Any]:
    layer = [f"s{n}" for n in range(316)]
    joins = [_step(1000 + n, after=layer) for n in range(316)]
    return _plan(*(_step(n) for n in range(316)), *joins)


CASES = {
    "a million steps, JSON": Large(_steps_json, "document_too_big", "", "document_bytes"),
    "a million steps, JSON, let in": Large(_steps_json, "too_many_steps", "steps", "split the plan", _ROOMY),
    "a million steps, YAML, let in": Large(
        _steps_yaml, "too_many_steps", "line 10003", "split the plan", _ROOMY
    ),
    "a million steps, data": Large(
        lambda: _plan(*[_step(0)] * 1_000_000), "too_many_steps", "steps", "foreach"
    ),
    "a million steps, objects": Large(
        lambda: kedge.Plan(goal="g", steps=(kedge.Step(id="a", tool="t"),) * 1_000_000),
        "too_many_steps", "steps", "raise the limit",
    ),
    "a chain of 10,000": Large(
        lambda: _plan(_step(0), *(_step(n, args={"x": f"${{s{n - 1}}}"}) for n in range(1, 10_000))),
        "chain_too_long", "steps[9999]", "side by side",
    ),
    "a ring of 10,000": Large(
        lambda: _plan(*(_step(n, args={"x": f"${{s{(n + 1) % 10_000}}}"}) for n in range(10_000))),
        "cycle", "steps[0]", "remove one",
    ),
    "100,000 steps into one": Large(
        lambda: _plan(
            *(_step(n) for n in range(100_000)), _step(100_000, after=[f"s{n}" for n in range(100_000)])
        ),
        "too_many_steps", "steps", "raise the limit",
    ),
    "100,000 edges": Large(_edges, "", "", ""),
    "50 MB of text": Large(lambda: '{"goal": "' + "g" * 50 * _MB + '"}', "document_too_big", "", "files"),
    "50 MB of bytes": Large(lambda: b"goal: " + b"g" * 50 * _MB, "document_too_big", "", "files"),
    "50 MB in one argument": Large(
        lambda: _plan(_step(0, args={"x": "y" * 50 * _MB})), "document_too_big", "", "paths"
    ),
    "65 MB in one argument, an object": Large(
        lambda: _args(["y" * 65 * _MB]), "args_too_big", "steps[0].args.x", "file"
    ),
    "100,000 lists inside each other": Large(
        lambda: _plan(_step(0, args={"x": _deep(100_000)})), "not_serializable",
        "steps[0].args.x" + "[0]" * 60, "flatten",
    ),
    "500 lists inside each other, an object": Large(
        lambda: _args(_deep(500)), "too_deep", "steps[0].args.x", "flatten"
    ),
    "100,000 brackets in JSON": Large(
        lambda: json.dumps(_plan(_step(0, args={"x": "@"}))).replace('"@"', "[" * 100_000 + "]" * 100_000),
        "too_deep", "line 1, column 1", "flatten",
    ),
    "200 composites inside each other": Large(
        lambda: json.dumps(_composites(200)), "nesting_too_deep", "steps[0]" + ".steps[0]" * 8 + ".steps",
        "flatten",
    ),
    "9,999 steps, half of them misspelt": Large(_misspelt, "unknown_reference", "steps[5000].args.v", "'s0'"),
    "10,000 steps of the wrong shape": Large(
        lambda: _plan(*({"id": f"S {n}", "tol": 1, "zzz": 2} for n in range(10_000))), "more_faults", "",
        "mend these",
    ),
}  # fmt: skip


def _peak_mb() -> float:
    """The most memory of this process. Linux counts its parent's in `ru_maxrss` too, so not from there."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    unit = _MB if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main(name: str) -> None:
    """Check one plan; print what was found, the CPU time and the memory it took besides the plan."""
    case = CASES[name]
    document = case.make()
    kedge.check(_plan(_step(0, tol=1)))  # what is imported on use is not what the plan costs
    gc.collect()
    before = _peak_mb()
    begun = time.process_time()
    findings = kedge.check(document, limits=case.limits)
    seconds = time.process_time() - begun
    after = _peak_mb()
    found = [(one.code, one.path, one.remedy) for one in findings if one.code == case.code]
    told = {
        "seconds": seconds, "mb": after - before, "peak_mb": after, "found": found[:3],
        "errors": len(findings.errors), "length": len(str(findings.all[0])) if len(findings) else 0,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told))
