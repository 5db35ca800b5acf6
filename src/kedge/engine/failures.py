"""From whatever a tool raised to a Failure: what it was, and how sure we are."""

from __future__ import annotations

import asyncio
import traceback

import msgspec

from kedge.base.errors import Category, KedgeError, NotDone, NotSerializable, ToolError
from kedge.flow.words import Failure

MESSAGE_CHARACTERS = 2_000
TRACE_LINES = 6

# First match wins, so subclasses stand before their bases.
_CATEGORIES: tuple[tuple[type[BaseException], Category], ...] = (
    (TimeoutError, "timeout"),
    (asyncio.CancelledError, "cancelled"),
    (PermissionError, "permission"),
    (FileNotFoundError, "invalid_input"),
    (ConnectionError, "transient"),
    (OSError, "transient"),
    (MemoryError, "limit"),
    (RecursionError, "limit"),
    (NotImplementedError, "permanent"),
)


class ToolFailed(Exception):
    """What a tool raised in another process: exceptions do not cross, their failures do."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: BaseException) -> Failure:
    """`error` as the run records it. Never raises, whatever the exception does."""
    if isinstance(error, ToolFailed):
        return error.failure
    if isinstance(error, ToolError):
        return Failure(
            category=error.category,
            code=error.code,
            message=_short(error.message),
            classified=True,
            not_done=isinstance(error, NotDone),
            retry_after_s=error.retry_after_s,
            remedy=_short(error.remedy),
        )
    if isinstance(error, NotSerializable):
        return Failure(
            category="not_serializable",
            code=error.code,
            message=_short(f"result{error.path.removeprefix('$')}: {error.message}"),
            classified=True,
            remedy=_short(error.remedy),
        )
    if isinstance(error, KedgeError):
        return Failure(category="bug", code=error.code, message=_short(str(error)), trace=_trace(error))
    category: Category = next((c for kind, c in _CATEGORIES if isinstance(error, kind)), "bug")
    return Failure(
        category=category,
        code=type(error).__name__,
        message=_short(f"{type(error).__name__}: {_text(error)}"),
        trace=_trace(error),
    )


def not_called(error: ToolError) -> Failure:
    """The arguments did not fit: the call was never made."""
    return msgspec.structs.replace(failure_of(error), not_done=False, classified=True)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception whose __str__ raises is still that step's failure
        return "(its message cannot be shown)"


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return text[:MESSAGE_CHARACTERS] + f" … ({len(text):,} characters)"


def _trace(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/kedge/engine/" not in f.filename and "/kedge/tools/" not in f.filename]
    return "\n".join(f"{f.filename}:{f.lineno} in {f.name}" for f in own[-TRACE_LINES:])
