"""`make fuzz`: input that is turned and twisted by what code it reaches.

A seed only knows the grammar; libFuzzer (atheris) sees which branches an input took, keeps what went
somewhere new, and goes on from there. The same targets and judges as in `fuzz.py`; the known attacks
are where it starts. What breaks something is a line for `tests/attacks/NAME.txt`. It is no part of the
test suite: the package has no wheels for some systems, and it never ends by itself.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

try:
    atheris: Any = importlib.import_module("atheris")
except ImportError:
    sys.exit("atheris is missing: `make fuzz` installs it, where it has a wheel (Linux on x86-64)")

USUAL = 20_000
LENGTH_MAX = 4_200
"""Bytes of an input: a little more than an expression may have."""

_ALONE = "KEDGE_FUZZ_ALONE"

with atheris.instrument_imports(include=["kedge"]) if _ALONE in os.environ else nullcontext():
    from hostile.corpus import attacks
    from hostile.guard import Broken, be_patient
    from hostile.targets import TARGETS, ready


def main() -> int:
    """Each target in a process of its own: libFuzzer ends the one it is in."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"one or several of {', '.join(TARGETS)}"
    )
    parser.add_argument("--count", type=int, default=USUAL, metavar="N", help="inputs of each target")
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there is {', '.join(TARGETS)}")
    found = 0
    for name in options.targets or TARGETS:
        print(f"{name}: {options.count:,} inputs …", flush=True)
        command = [sys.executable, __file__, "--count", str(options.count), name]
        env = {**os.environ, _ALONE: "1"}
        ended = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
        said = ended.stderr.splitlines()
        print("\n".join(line for line in said if line.startswith("stat::")))
        if ended.returncode:
            print("\n".join(said[-30:]))
            found += 1
    print(f"{found} targets were broken" if found else "nothing was broken")
    return 1 if found else 0


def _alone() -> None:
    """One target, until so many inputs were tried or one breaks it."""
    _, _, count, name = sys.argv
    target = TARGETS[name]
    ready()
    be_patient(20)

    def try_one(data: bytes) -> None:
        try:
            target.judge(target.of_bytes(data))
        except Broken as broken:
            shown = f"PYTHONPATH=src .venv/bin/python proof/fuzz.py {name} 0x{data.hex()}"
            print(f"\n{name}: {broken}\n{shown}", flush=True)
            os._exit(1)

    folder = Path(tempfile.mkdtemp(prefix="kedge-guided-"))
    try:
        for number, (_, text) in enumerate(attacks(name) if target.is_text else ()):
            raw = text.encode("utf-8", "surrogatepass")
            if len(raw) <= LENGTH_MAX:
                (folder / str(number)).write_bytes(raw)
        flags = [
            f"-runs={count}",
            f"-max_len={LENGTH_MAX}",
            "-timeout=60",
            "-rss_limit_mb=2048",
            "-verbosity=0",
        ]
        atheris.Setup([sys.argv[0], *flags, "-print_final_stats=1", str(folder)], try_one)
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if _ALONE in os.environ:
        _alone()
    else:
        sys.exit(main())
