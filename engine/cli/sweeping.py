"""`sweep`: put a grid of runs into the queue."""

from collections.abc import Sequence

import click

from engine.cli.answers import print_json
from engine.cli.frame import json_option, limits_options, owner_option
from engine.cli.launching import STORE_TIMEOUT_S
from engine.config import Config, read_settings
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.limits import Limits
from engine.registry import experiment
from engine.runtime.runner import ensure_running
from engine.store import Reader
from engine.sweep import launch_sweep, read_values, told


@click.command("sweep", short_help="Launch one experiment over values of one or two settings.")
@click.argument("experiment_name", metavar="EXPERIMENT")
@click.option("--preset", help="Start from a named config; the experiments command lists them.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change one setting of every run; may be given often.")
@click.option("--over", metavar="KEY=VALUES", multiple=True, help="Vary one setting: splits=1,2,4,8 or splits=1..10. May be given twice.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Runs of each combination; seeds count up from the setting seed.")
@click.option("--name", "title", default="", help="A name that tells the sweep from its like.")
@limits_options
@owner_option
@json_option
@click.option("--no-runner", is_flag=True, help="Leave the runs in the queue until someone starts a runner.")
def sweep_command(
    experiment_name: str,
    preset: str | None,
    settings: Sequence[str],
    over: Sequence[str],
    seeds: int,
    title: str,
    limits: Limits,
    owner: str,
    as_json: bool,
    no_runner: bool,
) -> None:
    """Put the runs of a sweep into the queue, all or none, and return at once; start a runner where none is alive.

    The first seed's runs come first, so that a whole curve is there early.
    """
    home, found = Home.find(), experiment(experiment_name)
    base = {**(found.preset(preset).settings if preset else {}), **read_settings(settings)}
    grid = _grid(found.config, over)
    sweep_id = launch_sweep(home, experiment_name, base, grid, seeds, owner=owner, preset=preset, title=title, timeout_s=STORE_TIMEOUT_S, limits=limits)
    if not no_runner:
        ensure_running(home)
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        runs = reader.sweep_runs(sweep_id)
        fields = reader.sweep(sweep_id).fields
    if as_json:
        print_json({"id": sweep_id, "runs": [run.id for run in runs]})
        return
    click.echo(f"Sweep {sweep_id}: {len(runs)} {'run is' if len(runs) == 1 else 'runs are'} queued.")
    for run in runs:
        click.echo(f"  run {run.id}: {told({name: run.config[name] for name in (*fields, 'seed')})}")
    click.echo(f"Follow it: python -m engine list --sweep {sweep_id}")


def _grid(config: type[Config], over: Sequence[str]) -> dict[str, Sequence[object]]:
    """Return the values of each setting that varies; raises ConfigError where one is named twice."""
    grid: dict[str, Sequence[object]] = {}
    for text in over:
        field, found, values = text.partition("=")
        field = field.strip()
        if not found:
            raise ConfigError([Problem("", f"What varies is written name=values, such as trainers=1,2,4, got '{text}'.")])
        if field in grid:
            raise ConfigError([Problem(field, f"{field} is varied twice. Give all of its values in one --over.")])
        grid[field] = read_values(config, field, values)
    return grid
