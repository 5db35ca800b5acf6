"""A run that everything happens to: a tool that is gone, a discovery, two kills, and second thoughts.

    python story.py

It types what you could type yourself, each command a process of its own, and tells what came of it. At
the end it looks at the ledger, where the tools wrote down what they did outside: each of it once.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).parent
BOOKS = HERE / ".kedge"
KEDGE = (sys.executable, "-m", "kedge")
RUN = "october"
EFFECTS = ("reserve", "invoice", "pay", "ship", "letter", "voucher", "revoke", "close")
PATIENCE_S = 50.0


def say(text: str) -> None:
    """A part of the story."""
    print(f"\n{text}", flush=True)


def shown(words: Sequence[str]) -> None:
    """The command that is typed, so that the reader can type it, too."""
    print(f"  $ kedge {shlex.join(words)}", flush=True)


def kedge(*words: str) -> None:
    """One command, from a terminal of its own: it is shown with what it says."""
    shown(words)
    done = subprocess.run(  # noqa: S603
        [*KEDGE, *words], cwd=HERE, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"it ended with {done.returncode}: {done.stderr or done.stdout}")
    for line in done.stdout.splitlines():
        print(f"  {line}".rstrip(), flush=True)


@contextmanager
def process(*words: str, out: int) -> Generator[subprocess.Popen[str]]:
    """A command that goes on until it is killed."""
    started = subprocess.Popen(  # noqa: S603
        [*KEDGE, *words], cwd=HERE, stdout=out, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def driver(stack: ExitStack, *words: str) -> subprocess.Popen[str]:
    """A process that drives the run. Nobody looks at its screen: others ask the store."""
    shown(words)
    return stack.enter_context(process(*words, out=subprocess.DEVNULL))


def until(what: str, so: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not so():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.02)


def ledger() -> list[list[str]]:
    """What was done outside: for each effect its key, its name and what it was about."""
    file = BOOKS / "ledger.txt"
    return [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []


def killed_after(effect: str, driving: subprocess.Popen[str]) -> None:
    """Kill the driver when that has happened outside, and before the tool has said so."""
    until(effect, lambda: effect in [what for _, what, _ in ledger()])
    driving.kill()
    driving.wait()
    hold("")
    print(f"  kill -9: `{effect}` is in the ledger, and nobody was told", flush=True)


def hold(effect: str) -> None:
    """The tool does not come back from that effect."""
    (BOOKS / "hold").write_text(effect)


class Reader:
    """Follows the run's log, whoever drives it: nothing here depends on how fast anything is."""

    def __init__(self, stack: ExitStack) -> None:
        self._lines = stack.enter_context(process("log", RUN, "--follow", out=subprocess.PIPE)).stdout

    def until(self, kind: str, path: str = "") -> None:
        """Go on to the next event of that kind."""
        for line in self._lines or ():
            event = json.loads(line)
            if event["kind"] == kind and path in ("", event["path"]):
                return
        raise SystemExit(f"the run has ended without {kind} {path}")


def main() -> None:
    """The story, from the first order to the closed books."""
    shutil.rmtree(BOOKS, ignore_errors=True)
    BOOKS.mkdir()
    with ExitStack() as stack:
        begin(stack)
        reader = approve(stack)
        think_twice(reader)
    look_back()


def begin(stack: ExitStack) -> None:
    """Repaired twice, and killed."""
    say("1. The run begins. A file turns up that nobody planned for, and the rate feed is gone for good.")
    hold("invoice")
    killed_after("invoice", driver(stack, "run", "plan.yaml", "--run", RUN))
    kedge("show", RUN, "--versions")


def approve(stack: ExitStack) -> Reader:
    """A person approves other arguments, the driver is killed again, a person settles the doubt."""
    say("2. Another process drives the run on. The invoice has a key: asking for it again changes nothing.")
    hold("ship")
    second = driver(stack, "drive", "--forever")
    reader = Reader(stack)
    reader.until("question_asked", "pay")
    say("3. In a second terminal, Anna approves the payment: less than was asked for.")
    kedge("inbox")
    kedge("answer", RUN, "q1", "approve", "--value", '{"amount": 90, "to": "supplier"}', "--by", "anna")
    killed_after("ship", second)
    say("4. Was the parcel sent? Whoever drives the run on asks, and does not send it a second time.")
    driver(stack, "drive", "--forever")
    reader.until("question_asked", "ship")
    kedge("inbox")
    kedge("answer", RUN, "q2", "done", "--value", '"parcel 4711"', "--by", "anna")
    return reader


def think_twice(reader: Reader) -> None:
    """Two steps are added to the live plan, and taken back with what one of them did."""
    reader.until("step_waiting", "audit")
    say("5. All waits for the auditor. Ben adds two steps to the plan, and thinks better of it.")
    kedge("edit", RUN, "voucher.yaml", "--by", "ben")
    reader.until("step_succeeded", "voucher")
    kedge("rollback", RUN, "3", "--undo", "--why", "too dear", "--by", "ben")
    reader.until("compensation_ended")
    say("6. The auditor comes.")
    kedge("signal", RUN, "audited", '"Dora"')
    reader.until("run_ended")


def look_back() -> None:
    """What the run says of itself, and what the ledger says of the run."""
    say("7. What has become of the plan, and of the world.")
    kedge("show", RUN)
    kedge("show", RUN, "--versions")
    lines = ledger()
    print("  the ledger:")
    for key, what, about in lines:
        print(f"    {key[:8]}  {what:8}  {about}")
    happened = Counter(what for _, what, _ in lines)
    if happened != Counter(EFFECTS) or len({key for key, *_ in lines}) != len(lines):
        raise SystemExit(f"not each effect once: {dict(happened)}")
    say(f"{len(lines)} effects, each of them once, over two kills; the voucher is taken back, once.")


if __name__ == "__main__":
    main()
