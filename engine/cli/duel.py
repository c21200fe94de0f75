"""`duel`: launch, list, show and retry comparisons of strategies on one budget."""

from collections.abc import Sequence
from dataclasses import replace

import click

from engine.analysis.duel import joined, too_few_seeds
from engine.cli.answers import print_json, table
from engine.cli.duel_outcome import described, in_full
from engine.cli.frame import cluster_options, json_option, owner_option
from engine.cli.launch import STORE_TIMEOUT_S
from engine.cli.runner_start import see_to_runner
from engine.cli.sweep import SweepWords
from engine.config import read_settings
from engine.duel.catalogue import read_shared, read_strategy, ready
from engine.duel.evidence import gather
from engine.duel.launch import AGAIN, launch_duel, retry_missing
from engine.duel.outcome import amount_in_words, outcome
from engine.duel.spec import METRICS, SHARED, Budget, Duel, from_json
from engine.errors import ConfigError, Problem
from engine.experiment.contender import KINDS, Kind
from engine.home import Home
from engine.store import Reader, StoredDuel

no_runner_option = click.option(
    "--no-runner", is_flag=True, help="Do not start a runner; the runs stay queued until one starts."
)


@click.group("duel", cls=SweepWords)
def duel_command() -> None:
    """Launch, list, show or retry duels."""


@duel_command.command("launch")
@click.argument("strategies", nargs=-1, required=True, metavar="STRATEGY...")
@click.option("--budget", required=True, metavar="KIND=AMOUNT", help=f"Such as seconds=30; kinds: {', '.join(KINDS)}.")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help=(f"Settings shared by all strategies: {', '.join(SHARED)}."),
)
@click.option(
    "--rates", default="0.01,0.03,0.1", show_default=True, help="Grid of learning rates, the same for all strategies."
)
@click.option("--tuning-seeds", type=int, default=2, show_default=True, help="Runs per learning rate.")
@click.option("--seeds", type=int, default=5, show_default=True, help="Judged runs per strategy.")
@click.option("--metric", type=click.Choice(METRICS), default=METRICS[0], show_default=True, help="Metric to compare.")
@click.option(
    "--target",
    "to_reach",
    type=float,
    help=("Value to measure the time to; default: the best that all strategies reached."),
)
@click.option("--beside-others", is_flag=True, help="Allow other runs at the same time; not with a budget of seconds.")
@click.option("--name", "title", default="", help="Name of the duel.")
@cluster_options
@owner_option
@json_option
@no_runner_option
def launch_command(
    strategies: Sequence[str],
    budget: str,
    settings: Sequence[str],
    rates: str,
    tuning_seeds: int,
    seeds: int,
    metric: str,
    to_reach: float | None,
    beside_others: bool,
    title: str,
    target: str,
    nodes: int,
    owner: str,
    as_json: bool,
    no_runner: bool,
) -> None:
    """Queue the tuning runs of a duel and return at once; the runner queues the rest.

    Every strategy starts from the same weights with the same seeds. Each is first tuned over one grid of learning
    rates; then the runner queues the judged runs, with other seeds. For existing duels: `duel list`, `duel show ID`,
    `duel retry ID`; see their --help.

    A strategy is a predefined one, optionally with settings and a name: `hogwild`, `hogwild:trainers=2`, `"Two
    trainers=hogwild:trainers=2; lock=true"`. Predefined: {strategies}.
    """
    duel = Duel(
        tuple(map(read_strategy, strategies)),
        _budget(budget),
        read_shared(read_settings(settings)),
        _numbers(rates),
        tuning_seeds,
        seeds,
        metric=metric,
        target=to_reach,
        alone=not beside_others,
    )
    home = Home.find()
    duel_id = launch_duel(
        home,
        duel,
        owner=owner,
        title=title,
        terms=replace(AGAIN, target=target, nodes=nodes),
        timeout_s=STORE_TIMEOUT_S,
    )
    if not no_runner:
        see_to_runner(home)
    runs = len(duel.strategies) * len(duel.rates) * duel.tuning_seeds
    if as_json:
        print_json({"id": duel_id, "runs": runs})
    else:
        click.echo(
            f"Duel {duel_id}: {runs} tuning runs queued; {len(duel.strategies) * duel.seeds} judged runs follow "
            "automatically."
        )
        click.echo(f"Show progress: python -m engine duel show {duel_id}")
    if caution := too_few_seeds(duel.seeds):
        click.echo(f"Caution: {caution}", err=True)


launch_command.help = (launch_command.help or "").format(strategies=joined(list(ready())))


@duel_command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the newest duels."""
    with Reader.open(Home.find()) as reader:
        found = reader.duels.recent()
    if as_json:
        print_json(
            [
                {"id": one.id, "name": one.name, "owner": one.owner, "created_at": one.created_at, "stage": one.stage}
                for one in found
            ]
        )
    else:
        click.echo(table(("ID", "STAGE", "OWNER", "BUDGET", "STRATEGIES", "NAME"), [_row(one) for one in found]))


@duel_command.command("show")
@click.argument("duel_id", metavar="ID", type=int)
@json_option
def show_command(duel_id: int, as_json: bool) -> None:
    """Show the outcome of a duel: learning rates, paired differences with intervals, time to target and winner."""
    with Reader.open(Home.find()) as reader:
        found = outcome(gather(reader, duel_id))
    if as_json:
        print_json(described(found))
    else:
        click.echo(in_full(found))


@duel_command.command("retry")
@click.argument("duel_id", metavar="ID", type=int)
@owner_option
@json_option
@no_runner_option
def retry_command(duel_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Retry the runs of a duel that were lost or cancelled before they spent the budget."""
    home = Home.find()
    new = retry_missing(home, duel_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    if new and not no_runner:
        see_to_runner(home)
    if as_json:
        print_json({"id": duel_id, "runs": new})
    else:
        click.echo(f"Duel {duel_id}: {len(new)} {'run' if len(new) == 1 else 'runs'} queued again.")


def _budget(text: str) -> Budget:
    kind, found, amount = (part.strip() for part in text.partition("="))
    if kind not in KINDS or not found:
        raise ConfigError(
            [
                Problem(
                    "budget",
                    (
                        "budget must be KIND=AMOUNT, such as seconds=30, with KIND one of "
                        f"{', '.join(KINDS)}; got '{text}'."
                    ),
                )
            ]
        )
    known: Kind = kind
    return Budget(known, *_numbers(amount))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            [Problem("", f"Numbers must be separated by commas, such as 0.01,0.03; got '{text}'.")]
        ) from None


def _row(one: StoredDuel) -> tuple[object, ...]:
    duel = from_json(one.plan)
    return (
        one.id,
        one.stage,
        one.owner,
        amount_in_words(duel.budget.kind, duel.budget.amount),
        ", ".join(each.name for each in duel.strategies),
        one.name,
    )
