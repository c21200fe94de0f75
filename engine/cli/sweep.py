"""`sweep`: launch, pause, resume, retry and extend sweeps."""

from collections.abc import Sequence

import click

from engine.analysis.scaling.scaling_data import unequal_of_sweep
from engine.analysis.total_work import declared
from engine.cli.answers import print_json
from engine.cli.frame import json_option, owner_option, terms_options
from engine.cli.launch import STORE_TIMEOUT_S, tell_cautions
from engine.cli.runner_start import see_to_runner
from engine.config import Config, read_settings
from engine.config_values import read_values, told
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch_options import Terms
from engine.registry import experiment
from engine.store import Reader, Store
from engine.store.records import BAD_ENDS
from engine.store.sweeps.sweeps import FEWEST_TIMED, Timing
from engine.sweep.extend import extend_sweep, plan_more
from engine.sweep.launch import SweepOrder
from engine.sweep.plan import cautions
from engine.sweep.random_search import Draw

LAUNCH = "launch"
no_runner_option = click.option(
    "--no-runner", is_flag=True, help="Do not start a runner; the runs stay queued until one starts."
)


class SweepWords(click.Group):
    """A group with `launch` as its default command: `sweep hogwild …` launches."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `launch` unless the first argument is a command."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else [LAUNCH, *args])


@click.group("sweep", cls=SweepWords)
def sweep_command() -> None:
    """Launch, pause, resume, retry or extend a sweep."""


@sweep_command.command(LAUNCH)
@click.argument("experiment_name", metavar="EXPERIMENT")
@click.option("--preset", help="Preset to start from; the experiments command lists them.")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change one setting of every run; repeatable."
)
@click.option(
    "--over",
    metavar="KEY=VALUES",
    multiple=True,
    help="Setting to vary: splits=1,2,4,8 or splits=1..10. At most two.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help="Runs per combination; seeds count up from the setting seed.  [default: 1; with --timing 6, the fewest]",
)
@click.option(
    "--draw",
    "draws",
    metavar="N",
    type=click.IntRange(1),
    help="Draw N combinations at random: --over learning_rate=log:0.001..0.1.",
)
@click.option(
    "--draw-seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The same seed draws the same combinations.",
)
@click.option(
    "--exclusive",
    is_flag=True,
    help=("Exclusive timing: one run at a time on an otherwise idle machine; modes alternate."),
)
@click.option(
    "--timing",
    is_flag=True,
    help="Exclusive, with a warm-up run, and further repeats until the median times are known.",
)
@click.option(
    "--within",
    metavar="PERCENT",
    type=float,
    help="With --timing: distance of the 95 % interval from the median at which repeats end.  [default: 5]",
)
@click.option(
    "--most", metavar="N", type=int, help="With --timing: maximum number of runs per combination.  [default: 12]"
)
@click.option(
    "--equal-work",
    is_flag=True,
    help="Adjust the length (epochs, rounds, episodes) per value, so that all runs do the total work of the settings.",
)
@click.option(
    "--stop-after",
    metavar="N",
    type=click.IntRange(1),
    help="Cancel the queued runs after N runs have failed or were lost.",
)
@click.option("--name", "title", default="", help="Name of the sweep.")
@terms_options
@owner_option
@json_option
@no_runner_option
def launch_command(
    experiment_name: str,
    preset: str | None,
    settings: Sequence[str],
    over: Sequence[str],
    seeds: int | None,
    draws: int | None,
    draw_seed: int,
    exclusive: bool,
    timing: bool,
    within: float | None,
    most: int | None,
    equal_work: bool,
    stop_after: int | None,
    title: str,
    terms: Terms,
    owner: str,
    as_json: bool,
    no_runner: bool,
) -> None:
    """Queue the runs of a sweep, all or none, and return at once; start a runner if none is running.

    The runs of the first seed start first, so that a complete curve is available early. For an existing sweep: `sweep
    pause ID`, `sweep resume ID`, `sweep retry ID`, `sweep extend ID`; see their --help.
    """
    home, found = Home.find(), experiment(experiment_name)
    base = {**(found.preset(preset).settings if preset else {}), **read_settings(settings)}
    texts = _texts(over)
    draw = Draw(draws, draw_seed, texts) if draws else None
    grid = {} if draw else {field: read_values(found.config, field, text) for field, text in texts.items()}
    if not timing and (within is not None or most is not None):
        raise click.UsageError("--within and --most need --timing.")
    usual = Timing()
    wanted = Timing(usual.within if within is None else within / 100, usual.most if most is None else most)
    order = SweepOrder(
        experiment_name,
        preset,
        base,
        grid,
        seeds or (FEWEST_TIMED if timing else 1),
        title,
        draw,
        exclusive,
        stop_after,
        terms,
        timing=wanted if timing else None,
        equal_work=equal_work,
    )
    tell_cautions(cautions(experiment_name, order.plan(), terms.max_run_time_s))
    sweep_id = order.launch(home, owner=owner, timeout_s=STORE_TIMEOUT_S)
    _tell_new(home, sweep_id, None, as_json, no_runner)
    if not as_json:
        click.echo(f"Show its runs: python -m engine list --sweep {sweep_id}")


@sweep_command.command("pause")
@click.argument("sweep_id", metavar="ID", type=int)
@owner_option
@json_option
def pause_command(sweep_id: int, owner: str, as_json: bool) -> None:
    """Pause a sweep: its queued runs wait until it is resumed; active runs continue."""
    with Store.open(Home.find(), timeout_s=STORE_TIMEOUT_S) as store:
        _tell_held(sweep_id, store.sweeps.hold(sweep_id, by=owner), True, as_json)


@sweep_command.command("resume")
@click.argument("sweep_id", metavar="ID", type=int)
@owner_option
@json_option
@no_runner_option
def resume_command(sweep_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Resume a paused sweep."""
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        _tell_held(sweep_id, store.sweeps.release(sweep_id, by=owner), False, as_json)
    if not no_runner:
        see_to_runner(home)


@sweep_command.command("retry")
@click.argument("sweep_id", metavar="ID", type=int)
@click.option("--also-cancelled", is_flag=True, help="Also retry cancelled runs.")
@owner_option
@json_option
@no_runner_option
def retry_command(sweep_id: int, also_cancelled: bool, owner: str, as_json: bool, no_runner: bool) -> None:
    """Retry each cell whose newest run failed or was lost."""
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        new = store.sweeps.retry(sweep_id, by=owner, statuses=(*BAD_ENDS, "cancelled") if also_cancelled else BAD_ENDS)
    _tell_new(home, sweep_id, set(new.values()), as_json, no_runner)


@click.command("remeasure")
@click.option("--sweep", "sweep_id", metavar="ID", type=int, required=True, help="The sweep.")
@owner_option
@json_option
@no_runner_option
def remeasure_command(sweep_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Repeat each run of a sweep from whose cores other programs or the host took too much of the CPU time
    (5 %, unless `limits set --disturbed-above` changed it).

    The repeats run one at a time, alone on the machine; the sweep becomes exclusive. The disturbed runs are kept.
    """
    home = Home.find()
    with Store.open(home, timeout_s=STORE_TIMEOUT_S) as store:
        new = store.sweeps.remeasure(sweep_id, by=owner)
    _tell_new(home, sweep_id, set(new.values()), as_json, no_runner)


@sweep_command.command("extend")
@click.argument("sweep_id", metavar="ID", type=int)
@click.option(
    "--over",
    metavar="KEY=VALUES",
    multiple=True,
    help="More values for a setting that the sweep varies; at most two settings.",
)
@click.option("--seeds", type=click.IntRange(0), default=0, help="Number of seeds to add.")
@click.option("--draw", "draws", type=click.IntRange(0), default=0, help="Number of random combinations to add.")
@owner_option
@json_option
@no_runner_option
def extend_command(
    sweep_id: int, over: Sequence[str], seeds: int, draws: int, owner: str, as_json: bool, no_runner: bool
) -> None:
    """Add values, seeds or draws to a sweep; the missing runs are queued, all or none."""
    home = Home.find()
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        limit_s = reader.runs.one(runs[0].id).terms.max_run_time_s
    config: type[Config] = experiment(sweep.experiment).config
    more = {field: read_values(config, field, text) for field, text in _texts(over).items()}
    tell_cautions(cautions(sweep.experiment, plan_more(sweep, runs, more, seeds, draws)[0], limit_s))
    new = extend_sweep(home, sweep_id, more, seeds, draws, owner=owner, timeout_s=STORE_TIMEOUT_S)
    _tell_new(home, sweep_id, set(new), as_json, no_runner)


def _texts(over: Sequence[str]) -> dict[str, str]:
    """Return the values text of each varied setting; raises ConfigError for a duplicate."""
    texts: dict[str, str] = {}
    for text in over:
        field, found, values = text.partition("=")
        field = field.strip()
        if not found:
            raise ConfigError([Problem("", f"--over must be KEY=VALUES, such as trainers=1,2,4; got '{text}'.")])
        if field in texts:
            raise ConfigError([Problem(field, f"{field} is in two --over options. Give all its values in one.")])
        texts[field] = values
    return texts


def _tell_new(home: Home, sweep_id: int, new: set[int] | None, as_json: bool, no_runner: bool) -> None:
    """Print the new runs of a sweep (None: all of them), and start a runner for them."""
    if not no_runner:
        see_to_runner(home)
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        every, fields = reader.sweeps.runs(sweep_id), reader.sweeps.one(sweep_id).fields
        unequal = unequal_of_sweep(reader, sweep_id)
    runs = [run for run in every if new is None or run.id in new]
    if as_json:
        print_json({"id": sweep_id, "runs": [run.id for run in runs]})
        return
    click.echo(f"Sweep {sweep_id}: {len(runs)} {'run' if len(runs) == 1 else 'runs'} queued.")
    work = None
    for run in runs:
        work = declared(run.experiment, run.config)
        told_work = f" ({work.shortly()})" if work else ""
        click.echo(f"  run {run.id}: {told({name: run.config[name] for name in (*fields, 'seed')})}{told_work}")
    if unequal:
        cure = "" if work is None or work.length in fields else " To make it equal, launch with --equal-work."
        click.echo(f"{unequal}{cure}")


def _tell_held(sweep_id: int, queued: list[int], held: bool, as_json: bool) -> None:
    if as_json:
        print_json({"id": sweep_id, "paused": held, "runs": queued})
    else:
        count = f"{len(queued)} queued {'run' if len(queued) == 1 else 'runs'}"
        click.echo(
            f"Sweep {sweep_id} paused: {count} on hold until `sweep resume {sweep_id}`."
            if held
            else f"Sweep {sweep_id} resumed: {count}."
        )
