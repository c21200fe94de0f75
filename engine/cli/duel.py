"""`duel`: launch, list, show and retry comparisons of strategies on one budget."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from engine.analysis.duel import Difference, too_few_seeds
from engine.analysis.statistics.intervals import LIMIT
from engine.cli.answers import answer, number, picked, short, table
from engine.cli.frame import CLUSTER, ID, NODES, OWNER, WITHOUT_RUNNER, argument, command, option
from engine.cli.launch import STORE_TIMEOUT_S, print_cautions
from engine.cli.runner import see_to_runner
from engine.cli.sweep import SweepWords
from engine.config import read_settings
from engine.duel.evidence import gather
from engine.duel.launch import AGAIN, DuelLaunch, launch_duel, retry_missing
from engine.duel.outcome import DuelOutcome, amount_in_words, outcome
from engine.duel.spec import METRICS, SHARED, Budget, Duel, from_json, read_shared, read_strategy, ready
from engine.errors import ConfigError, counted, enumeration
from engine.experiment import KINDS, Kind
from engine.home import Home
from engine.store import Reader, StoredDuel


@click.group("duel", cls=SweepWords)
def duel_command() -> None:
    """Launch, list, show or retry duels."""


@command("launch", within=duel_command)
def launch_command(
    strategies: Sequence[str] = argument("STRATEGY...", required=True),
    budget: str = option(f"Such as seconds=30; kinds: {', '.join(KINDS)}.", metavar="KIND=AMOUNT"),
    settings: Sequence[str] = option(
        f"Settings shared by all strategies: {', '.join(SHARED)}.", "--set", metavar="KEY=VALUE"
    ),
    rates: str = option("Grid of learning rates, the same for all strategies.", default="0.01,0.03,0.1"),
    tuning_seeds: int = option("Runs per learning rate.", default=2),
    seeds: int = option("Judged runs per strategy.", default=5),
    metric: str = option("Metric to compare.", type=click.Choice(METRICS), default=METRICS[0]),
    to_reach: float | None = option(
        "Value to measure the time to; default: the best that all strategies reached.", "--target"
    ),
    beside_others: bool = option("Allow other runs at the same time; not with a budget of seconds."),
    title: str = option("Name of the duel.", "--name", default=""),
    target: str = CLUSTER,
    nodes: int = NODES,
    owner: str = OWNER,
    no_runner: bool = WITHOUT_RUNNER,
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
    home, terms = Home.find(), replace(AGAIN, target=target, nodes=nodes)
    duel_id = launch_duel(home, DuelLaunch(duel, owner, title, terms), timeout_s=STORE_TIMEOUT_S)
    see_to_runner(home, unless=no_runner)
    tuning, judged = len(duel.strategies) * len(duel.rates) * duel.tuning_seeds, len(duel.strategies) * duel.seeds
    answer(
        {"id": duel_id, "runs": tuning},
        f"Duel {duel_id}: {counted(tuning, 'tuning run')} queued; {counted(judged, 'judged run')} "
        f"{'follows' if judged == 1 else 'follow'} automatically.\n"
        f"Show progress: python -m engine duel show {duel_id}",
    )
    print_cautions(filter(None, [too_few_seeds(duel.seeds)]))


launch_command.help = launch_command.help.format(strategies=enumeration(list(ready())))


@command("list", within=duel_command)
def list_command() -> None:
    """List the newest duels."""
    with Reader.open(Home.find()) as reader:
        found = reader.duels.recent()
    rows = table(("ID", "STAGE", "OWNER", "BUDGET", "STRATEGIES", "NAME"), map(_row, found))
    answer([picked(one, "id", "name", "owner", "created_at", "stage") for one in found], rows)


@command("show", within=duel_command)
def show_command(duel_id: int = ID) -> None:
    """Show the outcome of a duel: learning rates, paired differences with intervals, time to target and winner."""
    with Reader.open(Home.find()) as reader:
        found = outcome(gather(reader, duel_id))
    answer(_described(found), _in_full(found))


@command("retry", within=duel_command)
def retry_command(duel_id: int = ID, owner: str = OWNER, no_runner: bool = WITHOUT_RUNNER) -> None:
    """Retry the runs of a duel that were lost or cancelled before they spent the budget."""
    home = Home.find()
    new = retry_missing(home, duel_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    see_to_runner(home, unless=no_runner or not new)
    answer({"id": duel_id, "runs": new}, f"Duel {duel_id}: {counted(len(new), 'run')} queued again.")


def _budget(text: str) -> Budget:
    kind, found, amount = (part.strip() for part in text.partition("="))
    if kind not in KINDS or not found:
        kinds = ", ".join(KINDS)
        must = f"budget must be KIND=AMOUNT, such as seconds=30, with KIND one of {kinds}; got '{text}'."
        raise ConfigError.of("budget", must)
    known: Kind = kind
    return Budget(known, *_numbers(amount))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        must = f"Numbers must be separated by commas, such as 0.01,0.03; got '{text}'."
        raise ConfigError.of("", must) from None


def _row(one: StoredDuel) -> tuple[object, ...]:
    duel = from_json(one.plan)
    budget = amount_in_words(duel.budget.kind, duel.budget.amount)
    return (one.id, one.stage, one.owner, budget, ", ".join(each.name for each in duel.strategies), short(one.name))


def _described(found: DuelOutcome) -> dict[str, Any]:
    """Return the outcome of a duel as plain values."""
    return {
        **picked(found.evidence.stored, "id", "stage"),
        "duel": asdict(found.evidence.duel),
        "learning_rates": {
            one.name: choice.rate if choice else None
            for one, choice in zip(found.evidence.duel.strategies, found.tuned.choices, strict=True)
        },
        "values": found.values,
        "differences": found.found,
        **picked(found, "verdict", "target", "reached"),
        "obstacles": found.tuned.obstacles,
        "cautions": found.cautions,
    }


def _in_full(found: DuelOutcome) -> str:
    """Return the outcome of a duel as lines and tables."""
    stored, duel = found.evidence.stored, found.evidence.duel
    ended = {stage: sum(each.done for each in found.evidence.of(stage)) for stage in ("tuning", "judging")}
    headings = ("STRATEGY", "RATE", "RUNS", "MEAN", "MIN", "MAX", "REACHED TARGET", "MEAN TIME (S)")
    lines = [
        f"Duel {stored.id}{f': {stored.name}' if stored.name else ''}, by {stored.owner}",
        f"Budget: {amount_in_words(duel.budget.kind, duel.budget.amount)}, judged by {duel.metric}.",
        f"Tuning: {ended['tuning']} of {counted(len(found.evidence.of('tuning')), 'run')} ended. "
        f"Judging: {ended['judging']} of {len(duel.strategies) * duel.seeds}.",
        *found.tuned.obstacles,
        found.verdict or "No verdict yet: no judged run has ended.",
        "",
        table(headings, _strategies(found)),
    ]
    if found.found:
        paired = ("DIFFERENCE", "SEEDS", "MEAN", "FROM", "TO", "P (HOLM)", "OUTCOME")
        lines += ["", table(paired, map(_difference, found.found))]
        lines += [f"FROM and TO: 95 % confidence interval of the mean over paired seeds. {LIMIT}"]
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
                *(one.name, choice.rate if choice else None, len(values), mean),
                *(min(values, default=None), max(values, default=None), came),
                sum(times) / len(times) if times else None,
            )
        )
    return rows


def _difference(each: Difference) -> tuple[object, ...]:
    interval = (each.found.mean, each.found.low, each.found.high) if each.found else (None, None, None)
    return (f"{each.first} - {each.second}", len(each.by_seed), *map(number, (*interval, each.p)), each.outcome)
