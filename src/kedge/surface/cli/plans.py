"""`check`, `diff`, `schema`, `tools`: what can be told without running anything."""

from __future__ import annotations

from typing import Any

import click

import kedge
from kedge import Findings, InvalidPlan, Plan
from kedge.api import unsupported
from kedge.assemble import Settings, build_tools
from kedge.surface.cli.exits import BAD_INPUT, DONE
from kedge.surface.cli.faults import finding_lines, findings_data
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, require_store, settings_of, store_option, tools_option
from kedge.surface.cli.screen import LINE_MAX, Screen, lines_of
from kedge.surface.cli.versions import version_of
from kedge.views.text import clean


@click.command()
@click.argument("plan", type=click.Path())
@click.option(
    "--strictness", type=click.Choice(["strict", "moderate", "lenient"]), default="moderate",
    show_default=True, help="How much minor faults weigh.",
)  # fmt: skip
@tools_option
@json_option
def check(plan: str, strictness: Any, tools: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001
    """Find everything that is wrong with a plan, and run nothing.

    Exits with 0 if nothing stands in the way of running it, else with 2.
    """
    screen = Screen(as_json=as_json)
    settings = settings_of(tools=tools)
    try:
        loaded = kedge.load(plan, settings.bounds)
    except InvalidPlan as error:
        if not isinstance(error.findings, Findings):
            raise
        findings = error.findings
    else:
        findings = kedge.check(loaded, build_tools(settings), strictness=strictness, limits=settings.bounds)
        if findings.ok:
            findings = Findings([*findings, *unsupported(loaded)])
    if as_json:
        screen.data(_findings_data(findings))
    else:
        _tell_findings(screen, plan, findings)
    return DONE if findings.ok else BAD_INPUT


def _findings_data(findings: Findings) -> dict[str, Any]:
    return {
        "ok": findings.ok,
        "errors": len(findings.errors),
        "warnings": len(findings.warnings),
        "findings": findings_data(findings),
        "missing_tools": findings.missing_tools,
        "missing_parameters": findings.missing_parameters,
        "cycles": findings.cycles,
    }


def _tell_findings(screen: Screen, plan: str, findings: Findings) -> None:
    for finding in findings:
        screen.say(finding_lines(screen, finding))
    errors, warnings = len(findings.errors), len(findings.warnings)
    verdict = "can be run" if findings.ok else "cannot be run"
    counts = [f"{errors} error{'' if errors == 1 else 's'}"] if errors else []
    counts += [f"{warnings} warning{'' if warnings == 1 else 's'}"] if warnings else []
    more = f": {', '.join(counts)}" if counts else ""
    screen.say(f"{clean(plan, 300)} {verdict}{more}", "green" if findings.ok else "red")


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="PLAN PLAN | RUN VERSION VERSION")
@store_option
@json_option
def diff(what: tuple[str, ...], store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Tell how two plans differ, or two versions of a run's plan, and which is better.

    Steps are matched by id, never by position, so moving one is no difference.
    """
    screen, settings = Screen(as_json=as_json), settings_of(store)
    limits = settings.bounds
    if len(what) == 2:
        one, other = (kedge.load(file, limits) for file in what)
    elif len(what) == 3:
        one, other = _versions(settings, what[0], what[1:])
    else:
        raise click.UsageError("name two plans, or a run and two versions of its plan")
    comparison = kedge.compare(one, other, limits=limits)
    if as_json:
        screen.data(comparison.to_dict() | {"same": comparison.same})
        return DONE
    changes, _, _ = str(comparison).partition("\n\n")
    screen.say(f"{lines_of(changes)}\n")
    names = comparison.a.__struct_fields__
    rows = [(name, f"{getattr(comparison.a, name):g}", f"{getattr(comparison.b, name):g}") for name in names]
    screen.table(("", "a", "b"), rows)
    verdict = "neither is better" if comparison.better == "neither" else f"{comparison.better} is better"
    screen.say(f"\n{verdict}: {clean(comparison.because, LINE_MAX)}")
    return DONE


def _versions(settings: Settings, run_id: str, numbers: tuple[str, ...]) -> list[Plan]:
    wrong = [number for number in numbers if not (number.isascii() and number.isdigit())]
    if wrong:
        raise click.UsageError(f"{wrong[0][:40]!r} is not the number of a version: kedge show RUN --versions")
    require_store(settings)
    result = in_engine(settings, lambda engine: engine.look(run_id))
    return [version_of(result, int(number)).plan for number in numbers]


@click.command()
@json_option
def schema(as_json: bool) -> int:  # noqa: FBT001
    """Print the JSON Schema of plans.

    Editors that know JSON Schema complete and check plans with it.
    """
    Screen(as_json=as_json).data(Plan.schema())
    return DONE


@click.command()
@tools_option
@json_option
def tools(tools: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001
    """List the tools that plans can call.

    The built-in ones are always there; --tools and the setting `tools` add others. With --json the
    parameters of each are told too.
    """
    screen = Screen(as_json=as_json)
    specs = [tool.spec for tool in build_tools(settings_of(tools=tools))]
    if as_json:
        screen.data(specs)
        return DONE
    rows: list[tuple[str, str, str]] = []
    for spec in specs:
        first = (spec.description.splitlines() or [""])[0]
        missing = "" if spec.available else f"not available: {spec.unavailable_because}. "
        rows.append((spec.name, spec.effect, clean(missing + first, LINE_MAX)))
    screen.table(("tool", "effect", "what it does"), rows)
    return DONE
