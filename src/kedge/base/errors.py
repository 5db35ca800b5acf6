"""Every error a person can get from kedge, one class per different reaction of the caller.

    KedgeError                 catch-all: everything below
    ├── BadInput               you gave something that cannot be used: mend it (exit code 2)
    │   ├── InvalidPlan        the plan has faults; `.findings` lists all of them
    │   ├── ExpressionError    one expression is wrong; `.position` says where
    │   ├── NotFound           no such run, step, question or file; `.allowed` lists the known
    │   └── NotSerializable    a value cannot be stored; `.path` says which part of it
    ├── RunConflict            that run id belongs to another plan or other inputs
    ├── NotOwner               another driver has the run: stop, never retry
    ├── Refused                a command that this run cannot take now; `.allowed` says what it can
    ├── StoreError             the store cannot be used as it is (exit code 5)
    │   ├── StoreFull          no room: free some, the run goes on where it was
    │   ├── StoreDamaged       bytes are not what was written; `.run_id` and `.seq` say where
    │   └── StoreVersion       written by a newer kedge: upgrade
    ├── ToolError              raised *by a tool*: it failed, and says how (`category`)
    │   └── NotDone            raised *by a tool*: nothing happened outside, so it may be tried again
    └── InternalError          our bug: please report it

Each carries a stable `code`, and a message that says what happened, on which id or path, what is
allowed and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

Category = Literal[
    "transient",
    "timeout",
    "rate_limited",
    "invalid_input",
    "permission",
    "missing_tool",
    "not_serializable",
    "limit",
    "permanent",
    "cancelled",
    "in_doubt",
    "bug",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)


class KedgeError(Exception):
    """Catch-all for what kedge raises."""

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: str = "",
        allowed: Iterable[str] = (),
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.where = where
        self.allowed = tuple(allowed)
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        if self.allowed:
            text += f" (allowed: {', '.join(self.allowed)})"
        if self.remedy:
            text += f"; {self.remedy}"
        return text


class BadInput(KedgeError):
    """You gave something that cannot be used."""

    code = "bad_input"


class InvalidPlan(BadInput):
    """The plan has faults. `findings` holds all of them."""

    code = "invalid_plan"

    def __init__(self, message: str, findings: Any = None, **more: object) -> None:
        super().__init__(message, **more)  # type: ignore[arg-type]
        self.findings = findings


class ExpressionError(BadInput):
    """One expression is wrong. `position` is the offset of the first wrong character.

    `suggestion` is the whole text as it should be, when a machine can tell.
    """

    code = "expression"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        position: int = 0,
        where: str = "",
        allowed: Iterable[str] = (),
        remedy: str = "",
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message, code=code, where=where, allowed=allowed, remedy=remedy)
        self.position = position
        self.suggestion = suggestion


class NotFound(BadInput):
    """Nothing has that name."""

    code = "not_found"


class NotSerializable(BadInput):
    """A value that cannot be stored as it is. `path` says which part, `type_name` what it is."""

    code = "not_serializable"

    def __init__(self, path: str, type_name: str, message: str, remedy: str) -> None:
        super().__init__(message, where=path, remedy=remedy)
        self.path = path
        self.type_name = type_name


class RunConflict(KedgeError):
    """That run id belongs to another plan or other inputs."""

    code = "run_conflict"


class NotOwner(KedgeError):
    """Another driver has the run. Stop: a retry can only do harm."""

    code = "not_owner"


class Refused(KedgeError):
    """A command that this run cannot take now."""

    code = "refused"


class StoreError(KedgeError):
    """The store cannot be used as it is."""

    code = "store"


class StoreFull(StoreError):
    """The store has no room left."""

    code = "store_full"


class StoreDamaged(StoreError):
    """Stored bytes are not what was written."""

    code = "store_damaged"

    def __init__(self, message: str, *, run_id: str = "", seq: int = 0, remedy: str = "") -> None:
        where = f"run {run_id}" + (f" event {seq}" if seq else "") if run_id else ""
        super().__init__(message, where=where, remedy=remedy)
        self.run_id = run_id
        self.seq = seq


class StoreVersion(StoreError):
    """The store was written by a newer kedge."""

    code = "store_version"


class ToolError(KedgeError):
    """Raise it in a tool: a failure the tool understands.

    The category picks the reaction: `transient`, `timeout` and `rate_limited` may be tried again
    (never for a tool whose effect is `effect`), everything else goes on to the fallback.

    A repair can use what the tool knows: `try_args` are arguments with which it may work, beside the others
    of the call; `at_most` says of list arguments how many items it takes at once.
    """

    code = "tool_error"

    def __init__(
        self,
        message: str,
        category: Category = "permanent",
        *,
        retry_after_s: float | None = None,
        remedy: str = "",
        try_args: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
    ) -> None:
        if category not in CATEGORIES:
            raise BadInput(f"unknown failure category {category!r}", allowed=CATEGORIES)
        super().__init__(message, remedy=remedy)
        self.category: Category = category
        self.retry_after_s = retry_after_s
        self.try_args = dict(try_args or {})
        self.at_most = dict(at_most or {})


class NotDone(ToolError):
    """Raise it in a tool with effects: nothing happened outside, so the call may be tried again."""

    code = "not_done"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        try_args: Mapping[str, Any] | None = None,
        at_most: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(
            message, "transient", retry_after_s=retry_after_s, try_args=try_args, at_most=at_most
        )


class InternalError(KedgeError):
    """Our bug."""

    code = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="this is a bug in kedge: please report it with the run's log")
