"""What an engine and a tool's process say to each other, and how it looks on the pipe.

A frame is two lengths, a message as JSON, and a payload: the canonical bytes of arguments or of a
result, which cross as they are. Everything is plain data, read into declared types: what comes out
of a process that ran a tool is never code, whatever the tool did there.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import msgspec

from kedge.base.errors import KedgeError
from kedge.flow.words import Failure
from kedge.tools.source import ToolSource

MESSAGE_BYTES_MAX = 1024 * 1024
_lengths = Struct(">IQ")
LENGTHS_SIZE = _lengths.size


class Call(msgspec.Struct, frozen=True, tag="call"):
    """To the tool's process: run this with the arguments in the payload."""

    source: ToolSource
    tool: str
    run_id: str
    step: str
    attempt: int
    key: str
    folder: str
    """The engine's current one. Empty: it has none."""
    result_bytes_max: int


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The function is being called: from here on something may have been done."""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """The tool said something by its context."""

    kind: str
    data: dict[str, msgspec.Raw | float | str | None]


class Usage(msgspec.Struct, frozen=True):
    """What a call took."""

    cpu_s: float
    """Its own and that of the processes it waited for."""
    rss_bytes: int
    """The peak of its own memory."""


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """The result is in the payload."""

    usage: Usage
    clean: bool
    """It left no process running."""


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """There is no result."""

    usage: Usage
    failure: Failure


Message = Call | Started | Report | Returned | Raised
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def frame(message: Message, payload_size: int = 0) -> bytes:
    """The frame of a message up to its payload, which is written after it."""
    head = _encode(message)
    return _lengths.pack(len(head), payload_size) + head


def message_of(head: bytes | bytearray | memoryview) -> Message:
    """The message in a frame, or BrokenPipe-like KedgeError where it is none of ours."""
    try:
        return _decode(head)
    except msgspec.MsgspecError as error:
        raise KedgeError(f"what came over the pipe is no message: {error}", code="broken_frame") from None


def sizes_of(lengths: bytes | bytearray, payload_bytes_max: int) -> tuple[int, int]:
    """Bytes of message and payload."""
    head, payload = _lengths.unpack(lengths)
    if head > MESSAGE_BYTES_MAX or payload > payload_bytes_max:
        raise KedgeError(
            f"a message of {head:,} + {payload:,} bytes came over the pipe; "
            f"{MESSAGE_BYTES_MAX:,} + {payload_bytes_max:,} are allowed",
            code="broken_frame",
        )
    return head, payload


class Deframer:
    """Frames out of a stream that comes in pieces of any size."""

    def __init__(self, payload_bytes_max: int) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._buffer = bytearray()
        self._sizes: tuple[int, int] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[Message, bytes]]:
        """The messages that are complete now, with their payloads."""
        buffer = self._buffer
        buffer += data
        while True:
            if self._sizes is None:
                if len(buffer) < LENGTHS_SIZE:
                    return
                self._sizes = sizes_of(buffer[:LENGTHS_SIZE], self._payload_bytes_max)
            end = LENGTHS_SIZE + self._sizes[0]
            if len(buffer) < end + self._sizes[1]:
                return
            with memoryview(buffer) as view:
                message = message_of(view[LENGTHS_SIZE:end])
                payload = bytes(view[end : end + self._sizes[1]])
            del buffer[: end + self._sizes[1]]
            self._sizes = None
            yield message, payload
