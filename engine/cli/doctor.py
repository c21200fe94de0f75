"""`doctor`: problems of this machine or a cluster, and how to fix them."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import FAILED, NumberRange, json_option
from engine.doctor import Finding, examine
from engine.doctor.cluster import examine_cluster
from engine.home import Home

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.option("--cluster", metavar="NAME", help="Check a cluster of clusters.toml instead, with a job on its nodes.")
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=NumberRange(min=1, max=86_400),
    default=120,
    show_default=True,
    help="With --cluster: longest wait for the start of that job.",
)
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, cluster: str | None, wait_s: float, as_json: bool) -> None:
    """Check the machine for known problems and suggest fixes.

    Checks Python, packages, torch and its twin torchvision, GPUs, start methods, memory, /dev/shm, open files, the
    home folder, its file system, the clock, the store and the data sets. Exits with 1 if a problem must be fixed before
    runs can work.

    With --cluster: checks Slurm's commands and the shared folder, and by a job of at most two nodes their files,
    clocks, code, cores, GPUs, interfaces, ports and data sets.
    """
    home, findings = Home.find(), []
    for finding in examine_cluster(home, cluster, wait_s) if cluster else examine(home):
        findings.append(finding)
        if not as_json:
            _print(finding)
    healthy = not any(finding.state == "fail" for finding in findings)
    if as_json:
        print_json({"healthy": healthy, "findings": findings})
    else:
        warnings = sum(finding.state == "warn" for finding in findings)
        good = f"Cluster {cluster}: no failure found" if cluster else "This machine can execute runs"
        bad = f"{f'Cluster {cluster}' if cluster else 'This machine'} cannot execute runs yet"
        click.echo(f"\n{good if healthy else bad}{f'; warnings: {warnings}' if warnings else ''}.")
    ctx.exit(0 if healthy else FAILED)


def _print(finding: Finding) -> None:
    click.echo(
        f"{click.style(f'{finding.state:<4}', fg=COLOURS[finding.state])}  {finding.name:<16}  {finding.sentence}"
    )
    if finding.cure:
        click.echo(f"{'':24}{finding.cure}")
