"""One bad plan and what must be said of it; words to write plans with."""

from typing import Any, NamedTuple


class Bad(NamedTuple):
    """A document with one fault."""

    name: str
    document: Any
    code: str
    path: str
    """Place in the document; in a text that cannot be read, line and column."""
    says: str
    """A word that the remedy must have."""
    step: str = ""
    allowed: str = ""
    """One of what is allowed there, where that is a closed set."""
    severity: str = "error"


def step(name="a", tool="anything", **fields):
    return {"id": name, "tool": tool, **fields}


def group(name, *steps, **fields):
    return {"id": name, "steps": list(steps), **fields}


def plan(*steps, **fields):
    return {"goal": "g", "steps": list(steps), **fields}


def args(tool="anything", **values):
    return step("a", tool, args=values)


LS = step("ls", "listing", args={"path": "x"})
