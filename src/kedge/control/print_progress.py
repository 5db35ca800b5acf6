"""A ready callback: progress as plain lines."""

from __future__ import annotations

import sys

from kedge.views.narrate import RunEvent, wanted


def print_progress(event: RunEvent) -> None:
    """Print one line per event of a run: `start(plan, on_event=kedge.print_progress)`.

    Left out are what tools report while they run, which would flood a log, and the starts and ends of
    groups, which the lines of their steps tell already.
    """
    if not wanted(event, "step") or event.level == "group":
        return
    encoding = sys.stdout.encoding or "utf-8"
    line = str(event).encode(encoding, "replace").decode(encoding)  # a log's encoding must not stop it
    print(line, flush=True)  # noqa: T201
