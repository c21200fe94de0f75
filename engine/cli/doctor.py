"""`doctor`: problems of this machine, and how to fix them."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import FAILED, json_option
from engine.doctor import Finding, examine
from engine.home import Home

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Check the machine for known problems and suggest fixes.

    Checks Python, packages, torch and its twin torchvision, GPUs, start methods, memory, /dev/shm, open files, the
    home folder, its file system, the clock, the store and the data sets. Exits with 1 if a problem must be fixed before
    runs can work.
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
            f"{'This machine can execute runs' if healthy else 'This machine cannot execute runs yet'}{f'; warnings: {warnings}' if warnings else ''}."  # noqa: E501
        )
    ctx.exit(0 if healthy else FAILED)


def _print(finding: Finding) -> None:
    click.echo(
        f"{click.style(f'{finding.state:<4}', fg=COLOURS[finding.state])}  {finding.name:<16}  {finding.sentence}"
    )
    if finding.cure:
        click.echo(f"{'':24}{finding.cure}")
