"""`limits`: the quota of each person, and their usage."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from engine.access.confusables import sort_key
from engine.access.quotas import BOUNDS, GB, Limits, Value, limits, read_value
from engine.cli.answers import duration, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.commands.quotas import change_limits
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Held, Reader

USUAL = "usual"
OPTIONS = {
    "running": "max_running_per_person",
    "queued": "max_queued_per_person",
    "cores": "max_cores_per_person",
    "gpus": "max_gpus_per_person",
    "run_time": "max_run_time_s",
    "disk": "max_disk_gb",
}
"""Option name to limit."""


@click.group("limits", invoke_without_command=True)
@json_option
@click.pass_context
def limits_command(ctx: click.Context, as_json: bool) -> None:
    """Show each person's quota and usage; `limits set` changes quotas."""
    if ctx.invoked_subcommand is None:
        _show(Home.find(), as_json)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option, name in reversed(OPTIONS.items()):
        bounds = BOUNDS[name]
        words = f"{bounds.words[:1].upper()}{bounds.words[1:]}{f' ({bounds.unit})' if bounds.unit else ''}."
        function = click.option(f"--{option.replace('_', '-')}", option, metavar="NUMBER", help=words)(function)
    return function


@limits_command.command("set", short_help="Set quotas, for everyone or for one person.")
@click.option("--person", help="Only for this person; default: for everyone.")
@click.option(
    "--host-network",
    type=click.Choice(["yes", "no"]),
    help=(
        "Whether ranks may listen on the machine's network where they can't have a network namespace. Other "
        "users of the machine could then act as the runner's user."
    ),
)
@click.option(
    "--disturbed-above",
    metavar="PERCENT",
    type=float,
    help="Share of a run's CPU time that others may take before the run counts as disturbed; usual is 5.",
)
@_options
@owner_option
@json_option
def set_command(
    person: str | None,
    host_network: str | None,
    disturbed_above: float | None,
    owner: str,
    as_json: bool,
    **given: str | None,
) -> None:
    """Set quotas for everyone, or with --person for one: 'none' for no limit, 'usual' to reset a person's limit to
    everyone's.

    Quotas also apply to admins, who can change their own with --person. A change doesn't affect runs that are already
    queued or running.
    """
    asked = {OPTIONS[option]: text.strip().lower() for option, text in given.items() if text is not None}
    of_lab = {"host_network": host_network, "disturbed_above": disturbed_above}
    if not asked and all(value is None for value in of_lab.values()):
        options = ", ".join("--" + option.replace("_", "-") for option in (*OPTIONS, *of_lab))
        raise ConfigError([Problem("", f"limits set needs at least one of {options}.")])
    for name, value in of_lab.items():
        if value is not None and person is not None:
            option = "--" + name.replace("_", "-")
            raise ConfigError([Problem(name, f"{option} applies to the whole lab. Omit --person.")])
    usual = frozenset(name for name, text in asked.items() if text == USUAL)
    if usual and person is None:
        raise ConfigError(
            [
                Problem(
                    "person",
                    ("'usual' needs --person: it resets a person's limit to everyone's. Use 'none' to remove a limit."),
                )
            ]
        )
    changes = {name: read_value(name, text) for name, text in asked.items() if name not in usual}
    home = Home.find()
    change_limits(
        home,
        changes,
        by=owner,
        person=person,
        usual=usual,
        replace_unreadable=True,
        host_network=None if host_network is None else host_network == "yes",
        disturbed_above_percent=disturbed_above,
    )
    _show(home, as_json)


def _show(home: Home, as_json: bool) -> None:
    found = limits(home)
    with Reader.open(home) as reader:
        held = reader.quotas.all_held()
    names = sorted({each.person for each in held} | set(found.people), key=sort_key)
    by_name = {each.person: each for each in held}
    if as_json:
        print_json(
            {
                "everyone": _plain(found),
                "host_network": found.host_network,
                "disturbed_above_percent": found.disturbed_above_percent,
                "people": dict(found.people),
                "held": held,
            }
        )
        return
    click.echo(_in_words(found))
    if found.host_network:
        click.echo("Ranks may listen on the machine's network where they can't have a network namespace.")
    click.echo(f"A run is disturbed if others took more than {found.disturbed_above_percent:g} % of its CPU time.")
    if names:
        headings = ("PERSON", "RUNNING", "QUEUED", "CORES", "GPUS", "RUN TIME", "DISK (GB)")
        click.echo(table(headings, [_cells(by_name.get(name, Held(name)), found.of(name)) for name in names]))


def _in_words(found: Limits) -> str:
    everyone = {name: getattr(found, name) for name in BOUNDS}
    parts = [
        f"{bounds.words}: {everyone[name]:,.12g}{f' {bounds.unit}' if bounds.unit else ''}"
        for name, bounds in BOUNDS.items()
        if everyone[name] is not None
    ]
    if parts:
        return f"Limits per person: {'; '.join(parts)}."
    return (
        "No limits for everyone. Set some with: limits set --running 4 --queued 50 --cores 8 --run-time 86400 --disk 20"
    )


def _cells(held: Held, mine: Limits) -> tuple[object, ...]:
    return (
        held.person,
        _of(held.running, mine.max_running_per_person),
        _of(held.queued, mine.max_queued_per_person),
        _of(held.cores, mine.max_cores_per_person),
        _of(held.gpus, mine.max_gpus_per_person),
        "any" if mine.max_run_time_s is None else f"at most {duration(mine.max_run_time_s)}",
        f"{held.disk_bytes / GB:,.3g}{'' if mine.max_disk_gb is None else f' of {mine.max_disk_gb:,.12g}'}",
    )


def _of(held: int, most: int | None) -> str:
    return f"{held:,}" if most is None else f"{held:,} of {most:,}"


def _plain(found: Limits) -> Mapping[str, Value]:
    return {name: getattr(found, name) for name in BOUNDS}
