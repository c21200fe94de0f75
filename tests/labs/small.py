"""A small lab with something on every page, written through the real store; times follow a law of scaling, so that its
pages have something to say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from engine.home import Home
from engine.launch import launch
from engine.published import figure
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Launch, MachineSample, RankBatch, RankRow, Reader, Store, SweepLaunch
from engine.store.records import RunRow
from engine.store.timestamps import in_seconds, now
from engine.sweep.launch import launch_sweep
from engine.system.processes import me
from tests.labs import basic
from tests.labs.traced import add_trace
from tests.stand_in import worker

ABOUT = {
    "python": "3.11",
    "packages": {"torch": "2.15", "numpy": "2.4"},
    "host": "lab1",
    "cpu": "Xeon",
    "cores": 8,
    "gpus": [],
    "git_commit": "abc1234",
}
CONTENTION, COHERENCE, ALONE_PER_S = 0.05, 0.012, 2_400.0
"""The law behind the times: what n trainers get done a second is n / (1 + contention (n - 1) + coherence n (n - 1))
times what one does.
"""
STEPS = 48
LONG = (
    "Is it the learning rate or the number of trainers that makes Hogwild! jump, and does a lock help? (third attempt)"
)


@dataclass(frozen=True)
class Lab:
    """The ids of what the lab holds."""

    sweep: int
    runs: str
    """The sweep's runs, as an address writes them."""
    stale: int
    pipeline: int
    failed: int


def fill(home: Home) -> Lab:
    """Add a sweep over trainers with three seeds, a published figure, a run with staleness, a pipeline, and one that
    failed; all have ended.
    """
    quick = experiment("hogwild").preset("quick").settings
    title = "Does Hogwild! pay on our machine?"
    sweep = launch_sweep(
        home, SweepLaunch(Launch("hogwild", quick, "Ada", "quick", title), {"trainers": [1, 2, 4, 8]}, 3)
    )
    for run in _runs(home, sweep):
        count, work = run.config["trainers"], run.config["trainers"] * 5_000
        finish(
            home,
            run,
            work=work,
            time_s=work / (ALONE_PER_S * count / (1 + CONTENTION * (count - 1) + COHERENCE * count * (count - 1))),
        )
    for run in _runs(home, launch_sweep(home, figure("sync_sgd").sweep("reduced", "Grace"))):
        tests = {float(passes): value + run.config["seed"] / 50 for passes, value in ((1, 96.4), (2, 97.3), (3, 97.8))}
        finish(home, run, work=180_000, time_s=21.0 + run.config["seed"], tests=tests)
    stale = _queued(home, "async_sgd", "Grace", "How old do gradients get?")
    finish(home, stale, work=8_000, time_s=6.5, staleness=True)
    failed = _queued(home, "hogwild", "Ada Lovelace-Featherstonehaugh", LONG)
    with Store.open(home) as store:
        pipeline = basic.pipeline_run(store, shares=(0.6, 0.4), splits=4)
        add_trace(store, pipeline)
        basic.drive(store, home, failed.id, "failed")
        store.annotations.tag([failed.id], "thesis", by="Ada")
        store.annotations.pin(1, by="Ada")
        store.views.save("Losses by trainers", "compare", "runs=1-12&group=trainers", owner="Ada")
        store.machine.add(_hour())
    ids = [run.id for run in _runs(home, sweep)]
    return Lab(sweep, f"{ids[0]}-{ids[-1]}", stale.id, pipeline, failed.id)


def without_a_runner(home: Home) -> None:
    """Let the store say that this process is its runner: then the console starts none, and what is queued or on stays
    as it is. It has reported from the future, so that no page warns of its silence during a long test.
    """
    with Store.open(home) as store:
        store.runner.register(me(), cores=8, gpus=0)
        with store.db.change() as connection:
            connection.execute("UPDATE runner SET heartbeat_at = ?", [in_seconds(86_400)])


def finish(
    home: Home,
    run: RunRow,
    *,
    work: int,
    time_s: float,
    tests: Mapping[float, float] | None = None,
    staleness: bool = False,
) -> None:
    """Take a queued run to its end: `work` samples in `time_s`, curves of every rank that trains, phases, and tests of
    the accuracy by passes.
    """
    roles = experiment(run.experiment).configure(changes=run.config).roles
    trainers = [rank for rank, role in enumerate(roles) if role.startswith("trainer")]
    noise = np.random.default_rng(run.id).normal(0, 0.06, (len(roles), STEPS))
    if tests is None:
        tests = {
            share * 3.0: 97.2 * (1 - math.exp(-(6 - len(trainers) / 3) * share)) + float(noise[0, at])
            for at, share in enumerate((0.25, 0.5, 0.75, 1.0))
        }
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), dict(ABOUT))
        store.worker.add_ranks(
            run.id,
            [
                RankRow(rank, role, 4000 + rank, "cpu", "running", STEPS, now(), None, 480.0, 97.0)
                for rank, role in enumerate(roles)
            ],
        )
        store.worker.mark_running(run.id, 1.25)
        batches = [
            _of_rank(rank, rank in trainers, noise[rank].tolist(), len(trainers), time_s, staleness)
            for rank in range(len(roles))
        ]
        tested = [
            Point("test/accuracy", int(passes * 16), value, passes / max(tests) * time_s, passes)
            for passes, value in tests.items()
        ]
        first = batches[trainers[0]]
        batches[trainers[0]] = RankBatch(
            first.rank, [*first.points, *tested], first.phases, histograms=first.histograms, last_step=STEPS
        )
        store.worker.write(
            run.id,
            batches,
            progress=(work, work, "samples"),
            run_points=[Point("perf/samples_per_second", STEPS, work / time_s, time_s)],
        )
        store.claims.end(
            run.id,
            "finished",
            "Completed successfully",
            execution_time_s=round(time_s * (1 + float(noise[0, 0]) / 6), 3),
        )


def _of_rank(rank: int, trains: bool, noise: list[float], trainers: int, time_s: float, staleness: bool) -> RankBatch:
    """Return what one rank recorded: a server serves and waits, a trainer's waiting grows with their number."""
    if not trains:
        return RankBatch(rank, [], {"serve": time_s * 0.4, "wait": time_s * 0.55}, last_step=STEPS)
    waits = 0.04 * (trainers - 1)
    phases = {
        "compute": time_s * (0.8 - waits),
        "update": time_s * 0.12,
        "wait": time_s * waits,
        "evaluate": time_s * 0.03,
        "other": time_s * 0.05,
    }
    at = [(step, step / STEPS * time_s, step / STEPS * 3) for step in range(STEPS)]
    points = [
        Point("train/loss", step, 2.2 * math.exp(-step / (9 + 2 * trainers)) + 0.12 + abs(noise[step]), seconds, passes)
        for step, seconds, passes in at
    ]
    if not staleness:
        return RankBatch(rank, points, phases, last_step=STEPS)
    points += [
        Point("perf/staleness", step, float((step * (rank + 3)) % (trainers + 1)), seconds, passes)
        for step, seconds, passes in at
    ]
    counts = {("staleness", age): max(1, 60 - 14 * abs(age - trainers + 1)) for age in range(2 * trainers)}
    return RankBatch(rank, points, phases, histograms=counts, last_step=STEPS)


def _queued(home: Home, name: str, owner: str, title: str) -> RunRow:
    run_id = launch(
        home, Launch(name, experiment(name).configure("quick").model_dump(mode="json"), owner, "quick", title)
    )
    with Reader.open(home) as reader:
        return reader.runs.entry(run_id)


def _runs(home: Home, sweep: int) -> list[RunRow]:
    with Reader.open(home) as reader:
        return reader.sweeps.runs(sweep)


def _hour() -> list[MachineSample]:
    """Return nearly an hour of samples, one each 28 s."""
    end = datetime.now(UTC)
    found = []
    for at in range(120):
        moment = (end - timedelta(seconds=28 * (119 - at))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        busy = 85.0 if 40 < at < 80 else 12.0
        found += [
            MachineSample(moment, "host", "cpu_percent", busy + 9 * math.sin(at)),
            MachineSample(moment, "host", "memory_mb", 3_000 + 18 * busy + 60 * math.sin(at / 3)),
        ]
    return found
