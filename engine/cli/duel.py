"""`duel`: strategies on one budget, launched, listed and told."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from engine.analysis.duel import Difference, joined
from engine.cli.answers import number, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.cli.launch import STORE_TIMEOUT_S
from engine.cli.runner_start import see_to_runner
from engine.cli.sweep import SweepWords
from engine.config import read_settings
from engine.duel.catalogue import read_shared, read_strategy, ready
from engine.duel.evidence import gather
from engine.duel.launch import launch_duel, retry_missing
from engine.duel.outcome import DuelOutcome, amount_in_words, outcome
from engine.duel.spec import METRICS, SHARED, Budget, Duel, from_json
from engine.errors import ConfigError, Problem
from engine.experiment.contender import KINDS, Kind
from engine.home import Home
from engine.store import Reader, StoredDuel

no_runner_option = click.option(
    "--no-runner", is_flag=True, help="Leave the runs in the queue until someone starts a runner."
)


@click.group(
    "duel", cls=SweepWords, short_help="Compare strategies on one budget, each with a learning rate tuned alike."
)
def duel_command() -> None:
    """Launch a duel, list those that there are, or tell one."""


@duel_command.command("launch")
@click.argument("strategies", nargs=-1, required=True, metavar="STRATEGY...")
@click.option("--budget", required=True, metavar="KIND=AMOUNT", help=f"Such as seconds=30; one of {', '.join(KINDS)}.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help=f"What all share: {', '.join(SHARED)}.")
@click.option(
    "--rates", default="0.01,0.03,0.1", show_default=True, help="The grid of learning rates, the same for all."
)
@click.option("--tuning-seeds", type=int, default=2, show_default=True, help="Runs of each learning rate.")
@click.option("--seeds", type=int, default=5, show_default=True, help="Runs of each strategy that are judged.")
@click.option("--metric", type=click.Choice(METRICS), default=METRICS[0], show_default=True, help="What is judged.")
@click.option("--target", type=float, help="A value whose time is told; default: the hardest that all reached.")
@click.option(
    "--beside-others", is_flag=True, help="Let other runs be on at the same time; never with a budget of seconds."
)
@click.option("--name", "title", default="", help="A name that tells the duel from its like.")
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
    target: float | None,
    beside_others: bool,
    title: str,
    owner: str,
    as_json: bool,
    no_runner: bool,
) -> None:
    """Queue the runs of a duel that tune, and return at once; the runner goes on by itself.

    Every strategy starts from the same weights with the same seeds. First each is tuned over one grid of learning
    rates, then the runner queues the runs that are judged, with other seeds. For duels that are there: `duel list`,
    `duel show ID`, `duel retry ID`; each explains itself with --help.

    A strategy is a ready one, maybe with settings of its own and a name: `hogwild`, `hogwild:trainers=2`, `"Two
    trainers=hogwild:trainers=2; lock=true"`. Ready are {strategies}.
    """
    duel = Duel(
        tuple(map(read_strategy, strategies)),
        _budget(budget),
        read_shared(read_settings(settings)),
        _numbers(rates),
        tuning_seeds,
        seeds,
        metric=metric,
        target=target,
        alone=not beside_others,
    )
    home = Home.find()
    duel_id = launch_duel(home, duel, owner=owner, title=title, timeout_s=STORE_TIMEOUT_S)
    if not no_runner:
        see_to_runner(home)
    runs = len(duel.strategies) * len(duel.rates) * duel.tuning_seeds
    if as_json:
        print_json({"id": duel_id, "runs": runs})
    else:
        click.echo(
            f"Duel {duel_id}: {runs} runs that tune are queued; {len(duel.strategies) * duel.seeds} that are "
            "judged follow by themselves."
        )
        click.echo(f"Follow it: python -m engine duel show {duel_id}")


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
    """Tell what a duel came to: learning rates, paired differences with their intervals, time to the target, and who
    won.
    """
    with Reader.open(Home.find()) as reader:
        found = outcome(gather(reader, duel_id))
    if as_json:
        print_json(_described(found))
    else:
        click.echo(_in_full(found))


@duel_command.command("retry")
@click.argument("duel_id", metavar="ID", type=int)
@owner_option
@json_option
@no_runner_option
def retry_command(duel_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Queue again the runs of a duel that were lost or cancelled before they had spent the budget."""
    home = Home.find()
    new = retry_missing(home, duel_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    if new and not no_runner:
        see_to_runner(home)
    if as_json:
        print_json({"id": duel_id, "runs": new})
    else:
        click.echo(f"Duel {duel_id}: {len(new)} {'run is' if len(new) == 1 else 'runs are'} queued again.")


def _budget(text: str) -> Budget:
    kind, found, amount = (part.strip() for part in text.partition("="))
    if kind not in KINDS or not found:
        raise ConfigError(
            [
                Problem(
                    "budget",
                    (
                        f"A budget is written kind=amount, such as seconds=30, with one of {', '.join(KINDS)}; got "
                        f"'{text}'."
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
            [Problem("", f"Numbers are written apart by commas, such as 0.01,0.03, got '{text}'.")]
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


def _described(found: DuelOutcome) -> dict[str, Any]:
    return {
        "id": found.evidence.stored.id,
        "stage": found.evidence.stored.stage,
        "duel": asdict(found.evidence.duel),
        "learning_rates": {
            one.name: choice.rate if choice else None
            for one, choice in zip(found.evidence.duel.strategies, found.tuned.choices, strict=True)
        },
        "values": found.values,
        "differences": found.found,
        "verdict": found.verdict,
        "target": found.target,
        "reached": found.reached,
        "obstacles": found.tuned.obstacles,
        "cautions": found.cautions,
    }


def _in_full(found: DuelOutcome) -> str:
    stored, duel = found.evidence.stored, found.evidence.duel
    ended = {stage: sum(each.done for each in found.evidence.of(stage)) for stage in ("tuning", "judging")}
    lines = [
        f"Duel {stored.id}{f': {stored.name}' if stored.name else ''}, by {stored.owner}",
        f"Budget: {amount_in_words(duel.budget.kind, duel.budget.amount)}, judged by {duel.metric}.",
        (
            f"Tuning: {ended['tuning']} of {len(found.evidence.of('tuning'))} runs ended. Judging: "
            f"{ended['judging']} of {len(duel.strategies) * duel.seeds}."
        ),
        *found.tuned.obstacles,
        found.verdict or "There is no verdict before a judged run has ended.",
        "",
        table(
            ("STRATEGY", "RATE", "RUNS", "MEAN", "LEAST", "MOST", "REACHED TARGET", "MEAN TIME (S)"), _strategies(found)
        ),
    ]
    if found.found:
        lines += [
            "",
            table(
                ("DIFFERENCE", "SEEDS", "MEAN", "FROM", "TO", "P (HOLM)", "OUTCOME"),
                list(map(_difference, found.found)),
            ),
        ]
    return "\n".join([*lines, *([""] if found.cautions else []), *found.cautions])


def _strategies(found: DuelOutcome) -> list[tuple[object, ...]]:
    to_target = {each.name: each for each in found.reached}
    rows: list[tuple[object, ...]] = []
    for one, choice in zip(found.evidence.duel.strategies, found.tuned.choices, strict=True):
        values, way = list(found.values[one.name].values()), to_target.get(one.name)
        mean = sum(values) / len(values) if values else None
        times = list(way.time_s.values()) if way else []
        came = f"{len(times)} of {way.runs}" if way else ""
        rows.append(
            (
                one.name,
                choice.rate if choice else None,
                len(values),
                mean,
                min(values, default=None),
                max(values, default=None),
                came,
                sum(times) / len(times) if times else None,
            )
        )
    return rows


def _difference(each: Difference) -> tuple[object, ...]:
    mean, low, high = (each.found.mean, each.found.low, each.found.high) if each.found else (None, None, None)
    return (
        f"{each.first} - {each.second}",
        len(each.by_seed),
        number(mean),
        number(low),
        number(high),
        number(each.p),
        each.outcome,
    )
