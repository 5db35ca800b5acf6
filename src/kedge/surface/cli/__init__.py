"""The command line.

Each command is a small module that is loaded when it is used. What a script can rely on:

    exit code    0 done, 1 failed or nothing done, 2 bad input, 3 waits for an answer, 4 cancelled,
                 5 the store or another driver, 130 and 143 interrupted
    --json       exactly one JSON document on stdout, also for errors: {"error": {…}}
    stdout       what was asked for; remarks and errors for people go to stderr

Errors are shown without a traceback; what is not foreseen says that it is a bug.
"""

from __future__ import annotations


def main() -> None:
    """Run the command of `sys.argv` and exit with its code."""
    from kedge.surface.cli.app import app

    app.main(prog_name="kedge")
