"""What a signature means for a call: the type of its arguments, their schema, and how to call.

The arguments of a function become one msgspec struct, so that one pass over the bytes parses,
checks and fills in defaults (about 0.1 µs; a dict checked against a JSON Schema takes 50 times that).
A function that takes `**more` cannot have that, and pays a little for it.
"""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from kedge.base import codec
from kedge.base.errors import BadInput, NotSerializable
from kedge.tools import schema
from kedge.tools.annotations import EMPTY, plain_function, refuse_foreign_constraints, resolve
from kedge.tools.context import Context
from kedge.tools.explain import explained

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_RECEIVERS = ("self", "cls")


class Arguments:
    """The arguments a function takes, read once off its signature."""

    def __init__(self, function: Callable[..., Any], tool_name: str) -> None:
        self.function = function
        self.is_async = _is_async(function, tool_name)
        self.context_name: str | None = None
        self.more_type: Any = EMPTY
        """Type of the values of `**more`, if it takes any."""
        self._parameters: list[inspect.Parameter] = []
        fields: list[tuple[str, Any, Any]] = []
        try:
            signature = inspect.signature(function)
        except (ValueError, TypeError) as error:
            raise BadInput(
                f"tool {tool_name!r} has no readable signature: {error}",
                code="tool_signature",
                remedy="wrap it in a function with named parameters",
            ) from error
        _refuse_method(function, signature, tool_name)
        self.returns = signature.return_annotation
        for parameter in signature.parameters.values():
            label = f"parameter {parameter.name!r} of tool {tool_name!r}"
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise BadInput(
                    f"tool {tool_name!r} takes *{parameter.name}: a plan gives arguments by name",
                    code="tool_signature",
                    remedy=f"make it one parameter, as in {parameter.name}: list[str]",
                )
            if parameter.kind is parameter.VAR_KEYWORD:
                self.more_type = self._hint(parameter, label)
                continue
            self._parameters.append(parameter)
            # By name alone first: its type is often imported for type checkers only.
            if parameter.name == "ctx" or _is_context(hint := self._hint(parameter, label)):
                self.context_name = parameter.name
                continue
            fields.append((parameter.name, hint, _default(parameter)))
        self.names = tuple(name for name, _, _ in fields)
        self.struct = _struct(tool_name, fields)

    def _hint(self, parameter: inspect.Parameter, label: str) -> Any:
        if parameter.annotation is EMPTY:
            return Any
        hint = resolve(self.function, label, parameter.annotation)
        if hint is object:
            return Any
        refuse_foreign_constraints(label, hint)
        # `x: int = None` is an old habit that means: an int, or nothing.
        return typing.Optional[hint] if parameter.default is None else hint  # noqa: UP045 - hint is a value

    def schema(self, tool_name: str, descriptions: dict[str, str]) -> dict[str, Any]:
        """JSON Schema of the arguments as one object."""
        more = None if self.more_type is EMPTY else self.more_type
        found = schema.of_arguments(self.struct, tool_name, descriptions, more)
        for parameter in self._parameters:
            if parameter.name in self.names and (default := _written(parameter.default)) is not EMPTY:
                found["properties"][parameter.name].setdefault("default", default)
        return found

    def returns_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the result, or None where the annotation does not tell."""
        if self.returns is EMPTY:
            return None
        return schema.of_result(resolve(self.function, "the result", self.returns))

    def decoder(self, tool_name: str) -> Callable[[bytes], Any]:
        """Canonical bytes -> prepared call."""
        struct, more_type, names = self.struct, self.more_type, frozenset(self.names)
        decode_struct = msgspec.json.Decoder(struct, dec_hook=schema.build).decode

        def decode(raw: bytes) -> Any:
            try:
                return decode_struct(raw)
            except msgspec.MsgspecError as error:
                raise explained(error, tool_name, struct) from None

        def decode_with_more(raw: bytes) -> Any:
            given = codec.decode(raw)
            known = {name: value for name, value in given.items() if name in names}
            more = {name: value for name, value in given.items() if name not in names}
            reading = ""
            try:
                prepared = msgspec.convert(known, struct, dec_hook=schema.build)
                for reading, value in more.items():
                    more[reading] = msgspec.convert(value, more_type, dec_hook=schema.build)
            except msgspec.MsgspecError as error:
                raise explained(error, tool_name, struct, reading) from None
            return prepared, more

        return decode if more_type is EMPTY else decode_with_more

    def invoker(self) -> Callable[[Any, Any], Any]:
        """Prepared call, context -> the call. The common shapes cost one C call more than calling it."""
        function = self.function
        values = msgspec.structs.astuple
        order = [p.name for p in self._parameters]
        by_position = all(p.kind in _POSITIONAL for p in self._parameters)
        if self.more_type is EMPTY and by_position:
            if self.context_name is None:
                return lambda prepared, _context: function(*values(prepared))
            if order[-1] == self.context_name:
                return lambda prepared, context: function(*values(prepared), context)
            if order[0] == self.context_name:
                return lambda prepared, context: function(context, *values(prepared))
        return self._general_invoker()

    def _general_invoker(self) -> Callable[[Any, Any], Any]:
        function, context_name = self.function, self.context_name
        positional = [p.name for p in self._parameters if p.kind is p.POSITIONAL_ONLY]
        has_more = self.more_type is not EMPTY

        def invoke(prepared: Any, context: Any) -> Any:
            if has_more:
                known, more = prepared
                keywords = msgspec.structs.asdict(known) | more
            else:
                keywords = msgspec.structs.asdict(prepared)
            if context_name is not None:
                keywords[context_name] = context
            return function(*[keywords.pop(name) for name in positional], **keywords)

        return invoke


def _struct(tool_name: str, fields: list[tuple[str, Any, Any]]) -> type[msgspec.Struct]:
    try:
        return msgspec.defstruct(
            "Arguments",
            [(name, hint) if default is EMPTY else (name, hint, default) for name, hint, default in fields],
            # Of its own: a schema names types that share a name after their modules.
            module=f"kedge.tool:{tool_name}",
            kw_only=True,
            forbid_unknown_fields=True,
        )
    except (TypeError, ValueError, NameError) as error:
        raise schema.unusable(tool_name, error) from error


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is EMPTY or default is None or type(default) in (bool, int, float, str):
        return default
    # A call gets its own copy: what one call does to it must not be seen by the next.
    if type(default) in (list, dict, set):
        return msgspec.field(default_factory=lambda: copy.deepcopy(default))
    return msgspec.field(default_factory=lambda: default)


def _written(default: Any) -> Any:
    """A default as JSON has it; EMPTY where there is none, or where JSON has no form for it."""
    try:
        return codec.decode(codec.encode(msgspec.to_builtins(default)))
    except (TypeError, NotSerializable):
        return EMPTY


def _is_context(hint: Any) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, Context)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(hint))
    return False


def _refuse_method(function: Callable[..., Any], signature: inspect.Signature, tool_name: str) -> None:
    """A method in its class is a function still, and `self` would be an argument that plans give."""
    holder = getattr(function, "__qualname__", "").rpartition(".")[0]
    first = next(iter(signature.parameters), "")
    if inspect.isfunction(function) and holder and not holder.endswith("<locals>") and first in _RECEIVERS:
        raise BadInput(
            f"tool {tool_name!r} is a method of {holder}, and a plan cannot give {first!r}",
            code="tool_signature",
            remedy="make the tool of an object's method, as in kedge.tool(thing.method), or write a function",
        )


def _is_async(function: Callable[..., Any], tool_name: str) -> bool:
    inner = plain_function(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise BadInput(
            f"tool {tool_name!r} is a generator: a step has one result",
            code="tool_signature",
            remedy="collect what it yields into a list and return that",
        )
    return inspect.iscoroutinefunction(inner)
