"""A function's parameters with their types, annotations as text included.

`typing.get_type_hints` alone is not enough: it is all or nothing (one name imported only for type
checkers spoils the lot, though it may belong to `ctx`, whose type nobody needs), and it does not
see classes made in the function around a tool. So each annotation is resolved by itself, and a
name it does not find is looked up in the functions of that module now running.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from kedge.base.errors import BadInput

EMPTY = inspect.Parameter.empty
_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "func")
"""What other libraries call theirs: pydantic's `Field` and the package annotated-types."""


class _Carrier:
    """One annotation, in the shape `get_type_hints` takes."""

    def __init__(self, annotation: Any, type_params: tuple[Any, ...]) -> None:
        self.__annotations__ = {"it": annotation}
        self.__type_params__ = type_params


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The `def` inside partials, methods, decorators and callable objects."""
    inner: Any = function
    while True:
        if isinstance(inner, functools.partial):
            inner = typing.cast("Any", inner).func
        elif isinstance(inner, types.MethodType):
            inner = inner.__func__
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif not isinstance(inner, type) and not hasattr(inner, "__code__") and _call_of(inner) is not None:
            inner = _call_of(inner)
        else:
            return inner


def _call_of(thing: Any) -> Any:
    kind = typing.cast("Any", type(thing))
    call = getattr(kind, "__call__", None)  # noqa: B004 - the method itself is wanted
    return call if isinstance(call, types.FunctionType) else None


def resolve(function: Callable[..., Any], label: str, annotation: Any) -> Any:
    """The type an annotation stands for. `label` says whose it is."""
    inner = plain_function(function)
    carrier = _Carrier(annotation, getattr(inner, "__type_params__", ()))
    names: dict[str, Any] = getattr(inner, "__globals__", {})
    try:
        return typing.get_type_hints(carrier, names, {}, include_extras=True)["it"]
    except NameError:
        pass
    except Exception as error:
        raise _unreadable(label, annotation, error) from error
    try:
        return typing.get_type_hints(carrier, names, _running_names(names), include_extras=True)["it"]
    except Exception as error:
        raise _unreadable(label, annotation, error) from error


def refuse_foreign_constraints(label: str, hint: Any) -> None:
    """BadInput for a range or pattern in `Annotated` that nobody would check: only msgspec's are."""
    for note in _notes(hint):
        parts = () if isinstance(note, msgspec.Meta) else (note, *_inside(note))
        if any(getattr(part, name, None) is not None for part in parts for name in _CONSTRAINTS):
            raise BadInput(
                f"{label} has a constraint that is not checked here: {note!r}",
                code="tool_annotation",
                remedy="write it as msgspec.Meta, as in Annotated[int, msgspec.Meta(ge=1)], "
                "or take a pydantic model",
            )


def _notes(hint: Any) -> Iterator[Any]:
    """What stands beside the types in a hint's `Annotated`, however deep."""
    if typing.get_origin(hint) is typing.Annotated:
        yield from hint.__metadata__
    for part in typing.get_args(hint):
        yield from _notes(part)


def _inside(note: Any) -> list[Any]:
    held: Any = getattr(note, "metadata", None)
    return cast("list[Any]", held) if isinstance(held, list) else []


def _running_names(names: dict[str, Any]) -> dict[str, Any]:
    """Local names of the functions now running that share these globals, inner ones last."""
    frame = inspect.currentframe()  # inspect.stack() would read source files
    found: list[dict[str, Any]] = []
    while frame is not None:
        if frame.f_globals is names and frame.f_locals is not names:
            found.append(frame.f_locals)
        frame = frame.f_back
    merged: dict[str, Any] = {}
    for local_names in reversed(found):
        merged.update(local_names)
    return merged


def _unreadable(label: str, annotation: Any, error: Exception) -> BadInput:
    return BadInput(
        f"the annotation {annotation!r} of {label} cannot be resolved: {error}",
        code="tool_annotation",
        remedy="import or define the type at the top level of the module, not only for type checkers",
    )
