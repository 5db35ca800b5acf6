"""The judge's tools: nothing may be executed, opened or imported, nothing may take long, errors are ours.

The audit hook is Python's own: the interpreter itself tells it of every `exec`, `compile`, `import`,
`open`, socket, process and system call before it happens, whoever asks for it and however.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kedge.base.errors import KedgeError

T = TypeVar("T")

HARMLESS = frozenset({"builtins.id", "gc.get_objects"})
"""Events that reach nothing: an object's number, with which the codec finds a value inside itself."""
MESSAGE_MAX = 4_000
_CONTROL = frozenset(map(chr, range(0x20))) - {"\n"} | {"\x7f"}


class Broken(Exception):
    """Something happened that must not, whatever the input."""


class _Watch:
    patience = 1
    kept = False
    armed = False
    seen: list[str]
    may: Callable[[str, tuple[Any, ...]], bool] | None = None


_watch = _Watch()
_watch.seen = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watch.armed or event in HARMLESS:
        return
    if _watch.may is None or not _watch.may(event, arguments):
        _watch.seen.append(f"{event}{arguments!r:.300}")


def keep_watch() -> None:
    """From now on the interpreter tells of what it is asked to do. There is no way back in a process."""
    if not _watch.kept:
        _watch.kept = True
        sys.addaudithook(_hook)
    _watch.armed = True
    try:
        sys.audit("kedge.control")
    finally:
        _watch.armed = False
    if not any(seen.startswith("kedge.control") for seen in _watch.seen):
        raise Broken("the hook does not see what it is shown")
    _watch.seen.clear()


def be_patient(times: int) -> None:
    """For code that is watched at every branch, and takes that much longer."""
    _watch.patience = times


def watched(
    call: Callable[[], T],
    errors: tuple[type[Exception], ...],
    cpu_s: float,
    may: Callable[[str, tuple[Any, ...]], bool] | None = None,
) -> tuple[T | None, Exception | None]:
    """What the call gave, or the error it is allowed. Broken for everything else, and for what takes long.

    A breach of the time is looked at three times: other work on the machine is nobody's fault.
    """
    spent_s = 60.0
    for _ in range(3):
        value, error, took_s = _once(call, errors, may)
        spent_s = min(spent_s, took_s)
        if spent_s <= cpu_s * _watch.patience:
            return value, error
    raise Broken(f"took {spent_s * 1000:.1f} ms of CPU, {cpu_s * 1000:g} ms is the most")


def _once(
    call: Callable[[], T],
    errors: tuple[type[Exception], ...],
    may: Callable[[str, tuple[Any, ...]], bool] | None,
) -> tuple[T | None, Exception | None, float]:
    value: T | None = None
    found: Exception | None = None
    _watch.may = may
    began_s = time.thread_time()
    _watch.armed = True
    try:
        value = call()
    except errors as error:
        found = error.with_traceback(None)  # else it holds this frame, which holds it
    except Exception as error:
        _watch.armed = False
        raise Broken(f"raised {type(error).__name__}: {error!s:.300}") from error
    finally:
        _watch.armed = False
    took_s = time.thread_time() - began_s
    if _watch.seen:
        seen = list(_watch.seen)
        _watch.seen.clear()
        raise Broken(f"did what no text may do: {', '.join(seen[:5])}")
    if isinstance(found, KedgeError):
        _is_told_well(found)
    return value, found, took_s


def _is_told_well(error: KedgeError) -> None:
    told = str(error)
    if not error.message or not error.code:
        raise Broken(f"an error without words: {error!r}")
    if len(told) > MESSAGE_MAX:
        raise Broken(f"an error of {len(told):,} characters: {told[:200]}")


def is_plain(value: Any) -> bool:
    """Whether it is data as JSON has it, and nothing else. Written anew, not the one that is judged."""
    todo = [value]
    while todo:
        item = todo.pop()
        if type(item) is list:
            todo.extend(item)
        elif type(item) is dict:
            if any(type(key) is not str for key in item):
                return False
            todo.extend(item.values())
        elif type(item) is int:
            if not -(1 << 63) <= item < 1 << 64:
                return False
        elif type(item) is float:
            if not math.isfinite(item):
                return False
        elif item is not None and type(item) not in (bool, str):
            return False
    return True


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same and of the same types: Python takes `1`, `1.0` and `True` for equal."""
    todo = [(left, right)]
    while todo:
        one, other = todo.pop()
        if type(one) is not type(other):
            return False
        if type(one) is dict:
            if one.keys() != other.keys():
                return False
            todo.extend((one[key], other[key]) for key in one)
        elif type(one) is list:
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True
