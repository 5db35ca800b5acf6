"""Scanners that find numbers, addresses and marked parts in one pass."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TypeAlias

from kedge.base.errors import ToolError

Parts: TypeAlias = Iterator[str | int | float]

# One digit begins a match and nothing after it can undo it (`++` gives nothing back), so no text makes
# this go back. What goes on with a dot and a digit is a version or a date, 0x begins another kind.
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?!0[xX][0-9a-fA-F])[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+(?!\.[0-9])", re.ASCII
)
_NUMBER_MAX = 4000  # digits: Python refuses to read longer ones

_LOCAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!#$%&'*+/=?^_`{|}~-")
_DOMAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
_LOCAL_MAX, _DOMAIN_MAX = 64, 253

_URL_START = re.compile(r"https?://", re.IGNORECASE)
_URL_END = re.compile(r"[\s<>\"'`{}|\\^]")
_PAIRS = {")": "(", "]": "["}
_URL_MAX = 8000


def between(text: str, start: str, end: str) -> Parts:
    """What stands between each `start` and the next `end`."""
    position = 0
    while (begin := text.find(start, position)) >= 0:
        begin += len(start)
        stop = text.find(end, begin)
        if stop < 0:
            return
        yield text[begin:stop]
        position = stop + len(end)


def numbers(text: str) -> Parts:
    """Numbers that begin by themselves: not in a word, nor a dotted version, nor 0x1f.

    A unit may follow, as in 5kg. A comma ends a number, because it may be one between two: 1,000 is 1 and 0.
    """
    for match in _NUMBER.finditer(text):
        word = match[0]
        is_whole = word.lstrip("+-").isdigit()
        if is_whole and len(word) <= 19:
            yield int(word)
            continue
        number = float(word) if len(word) <= _NUMBER_MAX else math.inf
        if not math.isfinite(number):
            raise ToolError(f"the number at character {match.start() + 1:,} is too large", "invalid_input")
        yield number


def emails(text: str) -> Parts:
    """Mail addresses: what fits on both sides of an @, with a dot in the domain."""
    position = text.find("@")
    while position >= 0:
        begin = position
        while begin > 0 and position - begin <= _LOCAL_MAX and text[begin - 1] in _LOCAL:
            begin -= 1
        end = position + 1
        while end < len(text) and end - position <= _DOMAIN_MAX and text[end] in _DOMAIN:
            end += 1
        local = text[begin:position].lstrip(".'`{|")
        domain = text[position + 1 : end].rstrip(".-")
        if 0 < len(local) <= _LOCAL_MAX and "." in domain.strip(".") and ".." not in domain:
            yield f"{local}@{domain}"
        position = text.find("@", position + 1)


def urls(text: str) -> Parts:
    """Web addresses, without the punctuation of the sentence around them."""
    position = 0
    while match := _URL_START.search(text, position):
        stop = _URL_END.search(text, match.end(), match.end() + _URL_MAX)
        end = stop.start() if stop else min(len(text), match.end() + _URL_MAX)
        url = _trimmed(text[match.start() : end])
        if len(url) > len(match[0]):
            yield url
        position = end


def _trimmed(url: str) -> str:
    """Without what closes the sentence; a bracket stays if it was opened inside."""
    unopened = {close: url.count(close) - url.count(open_) for close, open_ in _PAIRS.items()}
    end = len(url)
    while end and (url[end - 1] in ".,;:!?" or unopened.get(url[end - 1], 0) > 0):
        end -= 1
        if url[end] in unopened:
            unopened[url[end]] -= 1
    return url[:end]
