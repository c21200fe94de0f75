"""`sweep` and `remeasure`: launch, pause, resume, retry and extend sweeps."""

from collections.abc import Sequence
from dataclasses import replace

import click

from engine.analysis.scaling.scaling_data import unequal_of_sweep
from engine.analysis.total_work import declared
from engine.cli.answers import answer, print_json, wants_json
from engine.cli.frame import ID, OWNER, WITHOUT_RUNNER, command, launch_terms, option, together
from engine.cli.launch import STORE_TIMEOUT_S, print_cautions, print_page
from engine.cli.runner import see_to_runner
from engine.cli.subject import CommandWords, Subject, explained
from engine.config import Config
from engine.config_values import read_values, values_in_words
from engine.errors import ConfigError, counted
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.registry import definition
from engine.store import Reader, Store, SweepLaunch
from engine.store.launches import FEWEST_TIMED, Draw, Timing
from engine.store.records import BAD_ENDS
from engine.sweep.extend import extend_sweep, plan_more
from engine.sweep.launch import launch_sweep
from engine.sweep.plan import cautions, plan

LAUNCH = "launch"


class SweepWords(click.Group):
    """A group with `launch` as its default command: `sweep hogwild …` launches."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `launch` unless the first argument is a command."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else [LAUNCH, *args])


@click.group("sweep", cls=SweepWords)
def sweep_command() -> None:
    """Launch, pause, resume, retry or extend a sweep."""


@command(LAUNCH, within=sweep_command, cls=CommandWords)
def launch_command(
    subject: Subject = together(Subject),
    over: Sequence[str] = option(
        "Setting to vary: splits=1,2,4,8 or splits=1..10. At most two; none repeats the run with --seeds.",
        metavar="KEY=VALUES",
    ),
    seeds: int | None = option(
        "Runs per combination; seeds count up from the setting seed.  [default: 1; with --timing 6, the fewest]",
        type=click.IntRange(1),
    ),
    seed_field: str = option(
        "Setting of a command that takes the seeds.  [default: the one named seed]", metavar="NAME", default=""
    ),
    draws: int | None = option(
        "Draw N combinations at random: --over learning_rate=log:0.001..0.1.",
        "--draw",
        metavar="N",
        type=click.IntRange(1),
    ),
    draw_seed: int = option(
        "The same seed draws the same combinations.", type=click.IntRange(0), default=0, show_default=True
    ),
    exclusive: bool = option("Exclusive timing: one run at a time on an otherwise idle machine; modes alternate."),
    timing: bool = option("Exclusive, with a warm-up run, and further repeats until the median times are known."),
    within: float | None = option(
        "With --timing: distance of the 95 % interval from the median at which repeats end.  [default: 5]",
        metavar="PERCENT",
    ),
    most: int | None = option("With --timing: maximum number of runs per combination.  [default: 12]", metavar="N"),
    equal_work: bool = option(
        "Adjust the length (epochs, rounds, episodes) per value, so that all runs do the total work of the settings."
    ),
    stop_after: int | None = option(
        "Cancel the queued runs after N runs have failed or were lost.", metavar="N", type=click.IntRange(1)
    ),
    title: str = option("Name of the sweep.", "--name", default=""),
    terms: LaunchOptions = together(launch_terms),
    owner: str = OWNER,
    no_runner: bool = WITHOUT_RUNNER,
) -> None:
    """Queue the runs of a sweep, all or none, and return at once; start a runner if none is running.

    Of a command of your own: `sweep --over lr=0.1,0.01 --seeds 3 -- python train.py --lr 0.1`.

    The runs of the first seed start first, so that a complete curve is available early. For an existing sweep: `sweep
    pause ID`, `sweep resume ID`, `sweep retry ID`, `sweep extend ID`; see their --help.
    """
    home = Home.find()
    found, shared = subject.shared(home, title, terms, owner)
    texts = _texts(over)
    draw = Draw(draws, draw_seed, texts) if draws else None
    grid = {} if draw else {field: read_values(found.config, field, text) for field, text in texts.items()}
    if not timing and (within is not None or most is not None):
        raise click.UsageError("--within and --most need --timing.")
    usual = Timing()
    wanted = Timing(usual.within if within is None else within / 100, usual.most if most is None else most)
    asked = SweepLaunch(
        replace(shared, config=subject.values(found, shared.command)),
        grid,
        seeds or (FEWEST_TIMED if timing else 1),
        draw,
        exclusive,
        stop_after,
        timing=wanted if timing else None,
        equal_work=equal_work,
        seed_field=seed_field,
    )
    print_cautions([*cautions(shared.experiment, plan(asked), terms.max_run_time_s), *_unseeded(asked)])
    sweep_id = launch_sweep(home, asked, timeout_s=STORE_TIMEOUT_S)
    if shared.command and not wants_json():
        click.echo(explained(shared))
    _print_new(home, sweep_id, None, no_runner)
    if not wants_json():
        click.echo(f"Show its runs: python -m engine list --sweep {sweep_id}")


def _unseeded(asked: SweepLaunch) -> list[str]:
    """Return the caution that seeds are only numbers for a command that takes none."""
    command = asked.shared.command
    if command is None or asked.seeds == 1 or asked.seed_field or command.seed_field:
        return []
    of_each = " of each combination" if asked.grid or asked.draw else ""
    return [
        f"{command.name} has no setting named seed, so the {counted(asked.seeds, 'run')}{of_each} are "
        "repeats that differ only in their number. If another setting takes the seed, name it: --seed-field NAME."
    ]


@command("pause", within=sweep_command)
def pause_command(sweep_id: int = ID, owner: str = OWNER) -> None:
    """Pause a sweep: its queued runs wait until it is resumed; active runs continue."""
    with Store.open(Home.find(), timeout_s=STORE_TIMEOUT_S) as store:
        queued = store.sweeps.hold(sweep_id, by=owner)
    count = counted(len(queued), "queued run")
    said = f"Sweep {sweep_id} paused: {count} on hold until `sweep resume {sweep_id}`."
    answer({"id": sweep_id, "paused": True, "runs": queued}, said)


@command("resume", within=sweep_command)
def resume_command(sweep_id: int = ID, owner: str = OWNER, no_runner: bool = WITHOUT_RUNNER) -> None:
    """Resume a paused sweep."""
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        queued = store.sweeps.release(sweep_id, by=owner)
    said = f"Sweep {sweep_id} resumed: {counted(len(queued), 'queued run')}."
    answer({"id": sweep_id, "paused": False, "runs": queued}, said)
    see_to_runner(home, unless=no_runner)


@command("retry", within=sweep_command)
def retry_command(
    sweep_id: int = ID,
    also_cancelled: bool = option("Also retry cancelled runs."),
    owner: str = OWNER,
    no_runner: bool = WITHOUT_RUNNER,
) -> None:
    """Retry each cell whose newest run failed or was lost."""
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        new = store.sweeps.retry(sweep_id, by=owner, statuses=(*BAD_ENDS, "cancelled") if also_cancelled else BAD_ENDS)
    _print_new(home, sweep_id, set(new.values()), no_runner)


@command("remeasure")
def remeasure_command(
    sweep_id: int = option("The sweep.", "--sweep", metavar="ID"), owner: str = OWNER, no_runner: bool = WITHOUT_RUNNER
) -> None:
    """Repeat each run of a sweep from whose cores other programs or the host took too much of the CPU time
    (5 %, unless `limits set --disturbed-above` changed it).

    The repeats run one at a time, alone on the machine; the sweep becomes exclusive. The disturbed runs are kept.
    """
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        new = store.sweeps.remeasure(sweep_id, by=owner)
    _print_new(home, sweep_id, set(new.values()), no_runner)


@command("extend", within=sweep_command)
def extend_command(
    sweep_id: int = ID,
    over: Sequence[str] = option(
        "More values for a setting that the sweep varies; at most two settings.", metavar="KEY=VALUES"
    ),
    seeds: int = option("Seeds to add to those of the sweep: 2 makes 3 seeds 5.", type=click.IntRange(0), default=0),
    draws: int = option("Number of random combinations to add.", "--draw", type=click.IntRange(0), default=0),
    owner: str = OWNER,
    no_runner: bool = WITHOUT_RUNNER,
) -> None:
    """Add values, seeds or draws to those of a sweep; the missing runs are queued, all or none."""
    home = Home.find()
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        limit_s = reader.runs.one(runs[0].id).terms.max_run_time_s
    config: type[Config] = definition(sweep).config
    more = {field: read_values(config, field, text) for field, text in _texts(over).items()}
    print_cautions(cautions(sweep.experiment, plan_more(sweep, runs, more, seeds, draws)[0], limit_s))
    new = extend_sweep(home, sweep_id, more, seeds, draws, owner=owner, timeout_s=STORE_TIMEOUT_S)
    _print_new(home, sweep_id, set(new), no_runner)
    if seeds and not wants_json():
        total = len(sweep.seeds) + seeds
        click.echo(f"{counted(seeds, 'seed')} added: {total} per combination now. --seeds adds; it sets no total.")


def _texts(over: Sequence[str]) -> dict[str, str]:
    """Return the values text of each varied setting; raises ConfigError for a duplicate."""
    texts: dict[str, str] = {}
    for text in over:
        field, found, values = text.partition("=")
        field = field.strip()
        if not found:
            raise ConfigError.of("", f"--over must be KEY=VALUES, such as trainers=1,2,4; got '{text}'.")
        if field in texts:
            raise ConfigError.of(field, f"{field} is in two --over options. Give all its values in one.")
        texts[field] = values
    return texts


def _print_new(home: Home, sweep_id: int, new: set[int] | None, no_runner: bool) -> None:
    """Print the new runs of a sweep (None: all of them), and start a runner for them."""
    see_to_runner(home, unless=no_runner)
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        every, fields = reader.sweeps.runs(sweep_id), reader.sweeps.one(sweep_id).fields
        unequal = unequal_of_sweep(reader, sweep_id)
    runs = [run for run in every if new is None or run.id in new]
    if wants_json():
        print_json({"id": sweep_id, "runs": [run.id for run in runs]})
        return
    click.echo(f"Sweep {sweep_id}: {counted(len(runs), 'run')} queued.")
    print_page(home, f"sweep?sweep={sweep_id}")
    work = None
    for run in runs:
        work = declared(run.experiment, run.config)
        told_work = f" ({work.shortly()})" if work else ""
        click.echo(
            f"  run {run.id}: {values_in_words({name: run.config[name] for name in (*fields, 'seed')})}{told_work}"
        )
    if unequal:
        cure = "" if work is None or work.length in fields else " To make it equal, launch with --equal-work."
        click.echo(f"{unequal}{cure}")
