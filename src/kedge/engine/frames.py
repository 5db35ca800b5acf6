"""What an engine and a tool's process say to each other, and how it looks on the pipe.

A frame is two lengths, a message as JSON, and a payload: the canonical bytes of arguments or of a
result, which cross as they are. Everything is plain data, read into declared types: what comes out
of a process that ran a tool is never code, whatever the tool did there.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

import msgspec

from kedge.base.codec import UNREADABLE
from kedge.base.errors import KedgeError
from kedge.flow.words import Failure
from kedge.tools.source import ToolSource

MESSAGE_BYTES_MAX = 1024 * 1024
_lengths = Struct(">IQ")
LENGTHS_BYTES = _lengths.size


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
    result_bytes: int
    """The most a result may take."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The function is being called: from here on something may have been done."""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """The tool said something by its context."""

    kind: str
    data: dict[str, Any]


class Usage(msgspec.Struct, frozen=True):
    """What a call took."""

    cpu_s: float
    """Processor time, that of the processes it waited for included."""
    rss_bytes: int
    """The peak of its process's own memory."""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The call is over. Without a failure its result is in the payload."""

    usage: Usage
    alone: bool
    """No process that the call started is left."""
    failure: Failure | None = None


Message = Call | Started | Report | Ended
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def frame(message: Message, payload_size: int = 0) -> bytes:
    """A frame up to its payload, which is written right after."""
    head = _encode(message)
    if len(head) > MESSAGE_BYTES_MAX:
        raise KedgeError(
            f"a {type(message).__name__} of {len(head):,} bytes is too long; at most {MESSAGE_BYTES_MAX:,}",
            code="long_message",
            remedy="return long texts, do not report them",
        )
    return _lengths.pack(len(head), payload_size) + head


def sizes_of(lengths: bytes | bytearray, payload_bytes_max: int) -> tuple[int, int]:
    """Bytes of message and payload, from a frame's first bytes."""
    head, payload = _lengths.unpack(lengths)
    if head > MESSAGE_BYTES_MAX or payload > payload_bytes_max:
        raise KedgeError(
            f"a frame of {head:,} + {payload:,} bytes is not ours: at most "
            f"{MESSAGE_BYTES_MAX:,} + {payload_bytes_max:,} are sent",
            code="broken_frame",
        )
    return head, payload


def message_of(head: bytes | memoryview) -> Message:
    """The message in a frame."""
    try:
        return _decode(head)
    except UNREADABLE as error:
        raise KedgeError(f"a frame holds no message of ours: {error}", code="broken_frame") from None


class Deframer:
    """Frames out of a stream that comes in pieces of any size."""

    def __init__(self, payload_bytes_max: int) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._buffer = bytearray()
        self._sizes: tuple[int, int] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[Message, bytes]]:
        """The messages that are complete now, each with its payload."""
        buffer = self._buffer
        buffer += data
        while True:
            if self._sizes is None:
                if len(buffer) < LENGTHS_BYTES:
                    return
                self._sizes = sizes_of(buffer[:LENGTHS_BYTES], self._payload_bytes_max)
            middle = LENGTHS_BYTES + self._sizes[0]
            end = middle + self._sizes[1]
            if len(buffer) < end:
                return
            with memoryview(buffer) as view, view[LENGTHS_BYTES:middle] as head, view[middle:end] as payload:
                complete = message_of(head), bytes(payload)
            del buffer[:end]
            self._sizes = None
            yield complete
