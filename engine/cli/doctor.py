"""`doctor`: what is wrong on this machine, and how to mend it."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import FAILED, json_option
from engine.doctor import Finding, examine
from engine.home import Home

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor", short_help="Check the machine, and say how to mend it.")
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Check what a machine could have wrong, and say how to mend it.

    Looks at Python, packages, torch and its twin torchvision, GPUs, start methods, memory, /dev/shm, open files, the
    home folder, its file system, the clock, the store and the data sets. Exits with 1 where something must be mended
    before runs can work.
    """
    findings = []
    for finding in examine(Home.find()):
        findings.append(finding)
        if not as_json:
            _print(finding)
    healthy = not any(finding.state == "fail" for finding in findings)
    if as_json:
        print_json({"healthy": healthy, "findings": findings})
    else:
        warnings = sum(finding.state == "warn" for finding in findings)
        click.echo(
            "\n"
            f"{'Runs can work here' if healthy else 'Runs can not work here yet'}{f'; {warnings} to look at' if warnings else ''}."  # noqa: E501
        )
    ctx.exit(0 if healthy else FAILED)


def _print(finding: Finding) -> None:
    click.echo(
        f"{click.style(f'{finding.state:<4}', fg=COLOURS[finding.state])}  {finding.name:<16}  {finding.sentence}"
    )
    if finding.cure:
        click.echo(f"{'':24}{finding.cure}")
