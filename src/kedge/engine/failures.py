"""From whatever a tool raised to a Failure: what it was, and how sure we are."""

from __future__ import annotations

import asyncio
import math
import traceback

import msgspec

from kedge.base.codec import decode, encode
from kedge.base.errors import CATEGORIES, Category, KedgeError, NotDone, NotSerializable, ToolError
from kedge.flow.words import Failure

MESSAGE_CHARACTERS = 2_000
TRACE_LINES = 6
OFFERED_BYTES = 4_096
_OUR_FRAMES = ("/kedge/engine/", "/kedge/tools/", "/kedge/testing/")
"""Between whoever called the tool and the tool: nothing that its author could mend."""

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
    try:
        return _failure_of(error)
    except BaseException:  # its attributes are the tool's too: any of them may be missing, or raise
        name = type(error).__name__
        return Failure(category="bug", code=short(name), message=short(f"{name}: (it cannot be described)"))


def _failure_of(error: BaseException) -> Failure:
    if isinstance(error, ToolFailed):
        return error.failure
    if isinstance(error, ToolError):
        failure = Failure(
            category=_category(error.category),
            code=short(error.code),
            message=short(error.message),
            classified=True,
            not_done=isinstance(error, NotDone),
            retry_after_s=_wait_s(error.retry_after_s),
            remedy=short(error.remedy),
        )
        return _with_offers(failure, error)
    if isinstance(error, NotSerializable):
        return Failure(
            category="not_serializable",
            code=short(error.code),
            message=short(f"result{error.path.removeprefix('$')}: {error.message}"),
            classified=True,
            remedy=short(error.remedy),
        )
    if isinstance(error, KedgeError):
        return Failure(category="bug", code=short(error.code), message=short(str(error)), trace=_trace(error))
    category = _category(next((c for kind, c in _CATEGORIES if isinstance(error, kind)), "bug"))
    return Failure(
        category=category,
        code=short(type(error).__name__),
        message=short(f"{type(error).__name__}: {_text(error)}"),
        trace=_trace(error),
    )


def _with_offers(failure: Failure, error: ToolError) -> Failure:
    """With what the tool says would work. It is kept in the log: what is large or no data is left out."""
    if not (error.try_args or error.at_most):
        return failure
    why = "is too large to be stored"
    try:
        args = encode(dict(error.try_args))
        most = encode({str(name): int(count) for name, count in dict(error.at_most).items()})
    except Exception as wrong:
        why = f"cannot be stored: {_text(wrong)}"
    else:
        if len(args) + len(most) <= OFFERED_BYTES:
            return msgspec.structs.replace(failure, try_args=decode(args), at_most=decode(most))
    return msgspec.structs.replace(failure, remedy=short(f"{failure.remedy} (what it offers {why})".strip()))


def not_called(error: BaseException) -> Failure:
    """The arguments did not fit: the call was never made."""
    return msgspec.structs.replace(failure_of(error), not_done=False, classified=True)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # an exception whose __str__ raises is still that step's failure
        return "(its message cannot be shown)"


def short(said: object) -> str:
    """What a tool said, as text that can be stored: a tool may hand over anything, of any length."""
    text = said if isinstance(said, str) else str(said)
    length = len(text)
    text = text[:MESSAGE_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return text if length <= MESSAGE_CHARACTERS else text + f" … ({length:,} characters)"


def _category(said: object) -> Category:
    for category in CATEGORIES:
        if category == said:
            return category
    return "bug"


def _wait_s(asked: object) -> float | None:
    if isinstance(asked, bool) or not isinstance(asked, int | float) or math.isnan(asked):
        return None
    return max(0.0, float(min(asked, 1e9)))


def _trace(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(room in f.filename for room in _OUR_FRAMES)]
    return short("\n".join(f"{f.filename}:{f.lineno} in {f.name}" for f in own[-TRACE_LINES:]))


def not_begun(error: BaseException) -> BaseException:
    """What ended a call that no process was free for."""
    if isinstance(error, asyncio.CancelledError):
        return NotDone("it was told to stop before a process was free for it")
    return error


def too_large(size: int, limit: int) -> ToolError:
    """A result that is longer than a step's may be."""
    return ToolError(
        f"the result is {size:,} bytes, the limit result_bytes is {limit:,}",
        "limit",
        remedy="return less, or write a file and return its path",
    )
