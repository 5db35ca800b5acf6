"""Tools for a process of its own that come to a bad end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import kedge

if os.environ.get("DIE_AT_IMPORT"):
    os._exit(7)


@kedge.tool(effect="read", isolation="process")
def die() -> None:
    os._exit(7)


@kedge.tool(effect="read", isolation="process")
def start_another(note: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        Path(note).write_text(f"{os.getpid()} {other.pid}")
        time.sleep(60)
