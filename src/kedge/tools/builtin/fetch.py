"""One GET over a connection whose address was judged first, held to a deadline and a size.

The standard library's client reads with a timeout for each read, so a server that sends a byte now and
then holds it for ever. A watchdog beside it shuts the connection at the deadline, or when the run
does not want the answer any more.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import SplitResult

import msgspec

from kedge.base.errors import ToolError
from kedge.tools.builtin.address import resolve

_CHUNK = 64 * 1024
_LOOK_S = 0.1


class Response(msgspec.Struct):
    """What came back, before anyone judges it. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool


class Request(msgspec.Struct, frozen=True):
    """What is asked for, and what it may take."""

    url: SplitResult
    target: str
    headers: Mapping[str, str]
    max_bytes: int
    deadline_s: float
    """On the monotonic clock."""
    allow_private: bool
    cancelled: Callable[[], bool]

    @property
    def host(self) -> str:
        return self.url.hostname or ""

    @property
    def port(self) -> int:
        return self.url.port or (443 if self.url.scheme == "https" else 80)


def fetch(request: Request) -> Response:
    """The response to one GET, redirects not followed. ToolError if there is none."""
    place = f"{request.host}:{request.port}"
    addresses = resolve(request.host, request.port, allow_private=request.allow_private)
    try:
        with _connected(request, addresses) as raw, _watched(raw, request):
            return _exchange(request, raw)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The watchdog shows up as whatever the broken read raised: look at the cause, not at that.
        if request.cancelled():
            raise ToolError(f"cancelled while reading from {place}", "cancelled") from error
        if time.monotonic() >= request.deadline_s or isinstance(error, TimeoutError):
            raise ToolError(f"{place} did not answer in time", "timeout") from error
        raise _failure(error, place) from error


def _connected(request: Request, addresses: list[tuple[socket.AddressFamily, str]]) -> socket.socket:
    error: OSError | None = None
    for family, address in addresses:
        raw = socket.socket(family, socket.SOCK_STREAM)
        try:
            raw.settimeout(max(0.001, request.deadline_s - time.monotonic()))
            raw.connect((address, request.port))
            return raw
        except OSError as failed:
            raw.close()
            error = failed
    raise error or OSError("it has no address")


def _exchange(request: Request, raw: socket.socket) -> Response:
    if request.url.scheme == "https":
        context = ssl.create_default_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            request.host, request.port, context=context
        )
        connection.sock = context.wrap_socket(raw, server_hostname=request.host)
    else:
        connection = http.client.HTTPConnection(request.host, request.port)
        connection.sock = raw
    try:
        connection.request("GET", request.target, headers=dict(request.headers))
        with connection.getresponse() as answer:
            return _read(request, answer)
    finally:
        connection.close()


def _read(request: Request, answer: http.client.HTTPResponse) -> Response:
    body = bytearray()
    while len(body) <= request.max_bytes and (chunk := answer.read1(_CHUNK)):
        body += chunk
    if time.monotonic() >= request.deadline_s or request.cancelled():
        raise TimeoutError  # a shut connection can look like the end of the body
    expected = answer.length
    if len(body) <= request.max_bytes and expected:
        raise http.client.IncompleteRead(bytes(body), expected)
    headers: dict[str, str] = {}
    for name, value in answer.getheaders():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Response(answer.status, headers, bytes(body[: request.max_bytes]), len(body) > request.max_bytes)


@contextmanager
def _watched(raw: socket.socket, request: Request) -> Generator[None]:
    """Shuts the connection when its time is over or nobody wants it any more."""
    done = threading.Event()
    # A handle of its own: TLS takes the socket's, and the number may be reused once that is closed.
    handle = raw.dup()

    def watch() -> None:
        while not done.wait(min(_LOOK_S, max(0.0, request.deadline_s - time.monotonic()))):
            if request.cancelled() or time.monotonic() >= request.deadline_s:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name=f"kedge-http-{request.host}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        handle.close()


def _failure(error: Exception, place: str) -> ToolError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ToolError(f"{place} has no valid certificate: {error.verify_message}", "permanent")
    if isinstance(error, http.client.RemoteDisconnected | http.client.BadStatusLine):
        return ToolError(f"{place} gave no HTTP answer", "transient")
    if isinstance(error, OSError):
        return ToolError(f"{place} cannot be reached: {error.strerror or error}", "transient")
    if isinstance(error, http.client.IncompleteRead):
        return ToolError(f"{place} broke off its answer after {len(error.partial):,} bytes", "transient")
    return ToolError(f"{place} gave an answer that cannot be read: {str(error)[:200]}", "permanent")
