"""http.get: text from the web, with a cap on size and time and no way into private networks."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

import msgspec

from kedge.base.errors import ToolError
from kedge.tools.builtin.fetch import Request, Response, fetch
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.tool import Tool

BYTES_MAX = 16 * 1024 * 1024
TIMEOUT_S_MAX = 600
REDIRECTS_MAX = 5
_URL_MAX = 8000
_RETRY_AFTER_MAX_S = 24 * 3600.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade"})
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_BAD_URL = re.compile(r"[\x00-\x20\x7f]")
_CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)


class Page(msgspec.Struct, frozen=True):
    """What a URL gave. `url` is where it was in the end, after redirects."""

    status: int
    headers: dict[str, str]
    text: str
    url: str
    truncated: bool = False


def http_tools(*, allow_private_addresses: bool) -> list[Tool]:
    """The http.* tools."""

    @tool(name="http.get", effect="read")
    def get(
        url: str,
        ctx: Context,
        headers: Mapping[str, str] = {},
        max_bytes: Annotated[int, msgspec.Meta(gt=0, le=BYTES_MAX)] = 1024 * 1024,
        timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = 30.0,
    ) -> Page:
        """Get the text behind a web address. Redirects are followed; a status of 400 or more is a failure.

        url: http or https
        headers: further request headers; another site that it redirects to does not get them
        max_bytes: read no more than this; `truncated` says that there was more
        timeout_s: for all of it, redirects included
        """
        deadline_s = time.monotonic() + timeout_s
        sent = _checked_headers(headers)
        for _ in range(REDIRECTS_MAX + 1):
            parts, target = _checked_url(url)
            request = Request(
                parts, target, sent, max_bytes, deadline_s, allow_private_addresses, lambda: ctx.cancelled
            )
            response = fetch(request)
            if response.status not in _REDIRECTS or "location" not in response.headers:
                return _judged(response, url)
            url = _redirected(url, response.headers["location"])
            if _origin(_checked_url(url)[0]) != _origin(parts):
                sent = _checked_headers({})
        raise ToolError(f"more than {REDIRECTS_MAX} redirects, the last to {_shown(url)}", "permanent")

    return [get]


def _checked_url(url: str) -> tuple[SplitResult, str]:
    """The parts of a URL that may be asked for, and what to ask its host for."""
    fault = ""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            fault = "must start with http:// or https://"
        elif not parts.hostname:
            fault = "names no host"
        elif parts.username is not None or parts.password is not None:
            fault = "holds a user name or password; send an Authorization header"
        elif len(url) > _URL_MAX:
            fault = f"is longer than {_URL_MAX} characters"
        elif _BAD_URL.search(url):
            fault = "holds a space or a control character"
        elif parts.port == 0:
            fault = "has port 0"
        else:
            target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
            return parts, quote(target, safe="/%:=&?~#+!$,;'@()*[]")
    except ValueError as error:  # a port or an IPv6 address that is none, half of a surrogate pair
        fault = f"cannot be read: {error}"
    raise ToolError(f"the URL {_shown(url)} {fault}", "invalid_input")


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise ToolError(f"the header {name[:80]!r} cannot be set", "invalid_input")
        if _BAD_VALUE.search(value):
            raise ToolError(
                f"the header {name!r} holds a character that headers cannot have", "invalid_input"
            )
    return {"User-Agent": "kedge", "Accept": "*/*", **headers, "Accept-Encoding": "identity"}


def _redirected(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise ToolError(
            f"{_shown(url)} redirects to {_shown(location)}, which cannot be read", "permanent"
        ) from error


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port


def _judged(response: Response, url: str) -> Page:
    status = response.status
    if status in (429, 503):
        words = "too many requests" if status == 429 else "not available now"
        raise ToolError(
            f"{_shown(url)} answered {status}: {words}",
            "rate_limited",
            retry_after_s=_retry_after_s(response.headers.get("retry-after", "")),
        )
    if status >= 400:
        start = response.body[:200].decode("utf-8", "replace").strip()
        raise ToolError(
            f"{_shown(url)} answered {status}" + (f": {start}" if start else ""),
            "transient" if status >= 500 else "permanent",
        )
    return Page(status, response.headers, _text(response, url), url, response.truncated)


def _retry_after_s(header: str) -> float | None:
    """Seconds, or a date; held to a day, because a server may say anything."""
    if header.isascii() and header.isdigit():
        return min(float(header[:9]), _RETRY_AFTER_MAX_S)
    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max(0.0, (when - datetime.now(UTC)).total_seconds()), _RETRY_AFTER_MAX_S)


def _text(response: Response, url: str) -> str:
    kind = response.headers.get("content-type", "")
    declared = _CHARSET.search(kind)
    # Without a word on it: UTF-8, and for text that is none, what HTTP meant before UTF-8 was common.
    fallback = ["latin-1"] if kind.startswith("text/") else []
    encodings = [declared[1]] if declared else ["utf-8", *fallback]
    body = response.body
    for encoding in encodings:
        try:
            text = _decode(body, encoding, cut=response.truncated)
        except (UnicodeError, LookupError):
            continue
        if "\0" not in text:
            return text
    raise ToolError(
        f"{_shown(url)} is not text ({kind or 'of no stated type'}, read as {encodings[0]})",
        "permanent",
        remedy="get text, or fetch it with a tool of your own",
    )


def _decode(body: bytes, encoding: str, *, cut: bool) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        # The size cap may have split the last character; anything earlier is a real fault.
        if cut and error.start >= len(body) - 4:
            return body[: error.start].decode(encoding)
        raise


def _shown(url: str) -> str:
    return repr(url) if len(url) <= 200 else f"{url[:200]!r}..."
