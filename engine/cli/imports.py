"""`import`: import runs of another store, of TensorBoard or of MLflow."""

from pathlib import Path

import click

from engine.cli.answers import print_json
from engine.cli.frame import NumberRange, json_option, owner_option
from engine.home import Home


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@owner_option
@click.option(
    "--max-memory",
    metavar="GB",
    type=NumberRange(0.05, 1_000),
    default=1.0,
    show_default=True,
    help="Memory limit of the import.",
)
@click.option(
    "--max-time",
    metavar="SECONDS",
    type=NumberRange(1, 86_400),
    default=300.0,
    show_default=True,
    help="Time limit of the import.",
)
@json_option
def import_command(path: Path, owner: str, max_memory: float, max_time: float, as_json: bool) -> None:
    """Import the runs of a bundle (export --out runs.zip), of TensorBoard event files, or of MLflow's folder mlruns;
    all or none.

    FILE may be a folder, or a zip of one. Each run records its origin. Runs that are already here are skipped. Runs of
    a bundle bring their sweeps. From TensorBoard and MLflow come scalars, parameters, tags and notes, as runs of the
    experiment "imported" or of MLflow's own.
    """
    from engine.transfer.import_process import Allowance, import_in_child

    found = import_in_child(Home.find(), path, by=owner, allowance=Allowance(int(max_memory * 1e9), max_time))
    if as_json:
        print_json(
            {
                "ids": list(found.ids),
                "sweeps": list(found.sweeps),
                "known": dict(found.known),
                "notes": list(found.notes),
            }
        )
        return
    click.echo(found.sentence)
    for note in found.notes:
        click.echo(note)
