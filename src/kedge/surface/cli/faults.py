"""Errors as a person or a program gets them: what happened, where, what is allowed, what to do next."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from typing import Any

import click
import msgspec

from kedge import Finding, Findings, InternalError, InvalidPlan, KedgeError, __version__
from kedge.surface.cli import exits
from kedge.surface.cli.screen import LINE_MAX, Screen, lines_of
from kedge.views.text import clean

_SHOWN_MAX = 40
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def finding_lines(screen: Screen, finding: Finding) -> str:
    """A finding in two to four lines."""
    place = finding.path + (f" (step {finding.step})" if finding.step else "")
    head = screen.coloured(finding.severity, _COLOURS[finding.severity])
    lines = [f"{head} {clean(place, LINE_MAX)}: {clean(finding.message, LINE_MAX)} [{finding.code}]"]
    return "\n".join([*lines, *_advice(finding.allowed, finding.remedy)])


def findings_data(findings: Findings) -> list[dict[str, Any]]:
    """Findings as plain data, the severity always there: programs filter by it."""
    plain = (msgspec.to_builtins(finding, enc_hook=str) for finding in findings)
    return [{"severity": finding.severity, **data} for finding, data in zip(findings, plain, strict=True)]


def report_error(error: KedgeError, *, as_json: bool) -> int:
    """Tell it; the exit code."""
    if as_json:
        Screen(as_json=True).data({"error": _plain(error)})
        return exits.of_error(error)
    screen = _errors()
    if isinstance(error, InvalidPlan) and isinstance(error.findings, Findings) and len(error.findings) > 0:
        findings = error.findings
        where = f"{clean(error.where, 300)}: " if error.where else ""
        count = len(findings.errors)
        screen.say(f"{where}the plan cannot be run: {count} error{'' if count == 1 else 's'}", "bold")
        for finding in findings.errors[:_SHOWN_MAX]:
            screen.say(finding_lines(screen, finding))
        if count > _SHOWN_MAX:
            screen.say(f"and {count - _SHOWN_MAX} more: kedge check lists all")
    else:
        head = screen.coloured("error", "red")
        where = f"{clean(error.where, 300)}: " if error.where else ""
        screen.say(f"{head} {where}{lines_of(error.message).strip()} [{error.code}]")
        for line in _advice(error.allowed, error.remedy):
            screen.say(line)
    return exits.of_error(error)


def report_usage(error: click.ClickException, *, as_json: bool) -> int:
    """What was typed is no command."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        _errors().say(message)  # it is the help, laid out already
        return exits.BAD_INPUT
    if as_json:
        Screen(as_json=True).data({"error": _fields("usage", message)})
    else:
        screen = _errors()
        screen.say(f"{screen.coloured('error', 'red')} {lines_of(message)}")
        if context is not None:
            screen.say(f"  try: {context.command_path} --help")
    return exits.BAD_INPUT


def report_bug(error: BaseException, *, as_json: bool) -> int:
    """Nobody foresaw this: keep the details where they can be sent from."""
    details = "".join(traceback.format_exception(error))
    fd, name = tempfile.mkstemp(prefix="kedge-bug-", suffix=".txt")
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"kedge {__version__}, Python {sys.version}, {sys.platform}\n{sys.argv}\n\n{details}")
    message = f"{type(error).__name__}: {error}"
    remedy = f"this is a bug in kedge: please report it with the details in {name}"
    if as_json:
        Screen(as_json=True).data({"error": _fields(InternalError.code, message, remedy=remedy)})
    else:
        screen = _errors()
        screen.say(f"{screen.coloured('error', 'red')} {clean(message, LINE_MAX)} [{InternalError.code}]")
        screen.say(f"  do: {remedy}")
    return exits.FAILED


def _errors() -> Screen:
    """A screen on stderr."""
    screen = Screen()
    screen.out = sys.stderr
    screen.colour = screen.colour and sys.stderr.isatty()
    return screen


def _advice(allowed: tuple[str, ...], remedy: str) -> list[str]:
    lines: list[str] = []
    if allowed:
        more = f" and {len(allowed) - _SHOWN_MAX} more" if len(allowed) > _SHOWN_MAX else ""
        lines.append(f"  allowed: {clean(', '.join(allowed[:_SHOWN_MAX]), LINE_MAX)}{more}")
    if remedy:
        lines.append(f"  do: {clean(remedy, LINE_MAX)}")
    return lines


def _plain(error: KedgeError) -> dict[str, Any]:
    fields = _fields(error.code, error.message, error.where, list(error.allowed), error.remedy)
    if isinstance(error, InvalidPlan) and isinstance(error.findings, Findings):
        fields["findings"] = findings_data(error.findings)
    return fields


def _fields(
    code: str, message: str, where: str = "", allowed: list[str] | None = None, remedy: str = ""
) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "where": where,
        "allowed": allowed or [],
        "remedy": remedy,
        "findings": [],
    }
