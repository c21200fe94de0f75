"""Kills while checkpoints are saved: a resumed run must have every step once, with the values of an undisturbed run.

By injection, a process kills itself (SIGKILL) at the n-th call within the saving of checkpoints and their points, for
n over all of them. Really, worker or rank of a run are killed at random moments. Run: python -m bench.checkpoint_kills
[--injected 1000] [--kills 50] [--seed 1]
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import current_process
from pathlib import Path
from typing import Any, cast

import torch

from bench.measuring import save, served_home, wait_until
from engine.home import Home
from engine.launch import launch, resume
from engine.recorder import MemoryRecorder
from engine.registry import experiment, method
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.process import RankPlan
from engine.runtime.rank.rank import Checkpoints, Rank, RunContext, Saved
from engine.runtime.usage import Disturbance
from engine.runtime.worker.run_progress import RankHandle, RunProgress
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import ENDED
from engine.store.worker_writes import StoreSink
from engine.system.checkpoint_state import last_checkpoint, take_checkpoint
from engine.system.machine import machine
from engine.system.network_isolation import ListenRule
from engine.system.processes import identity, is_alive, me
from engine.trace.ring import TraceMemory
from tests.doubles import LocalRanks, MemorySink

COMMON: dict[str, Any] = {
    "dataset": "digits",
    "threads_per_rank": 1,
    "seed": 7,
    "device": "cpu",
    "evaluate_every": 0,
    "checkpoint_every_s": 1e-6,
}
SERVER = COMMON | {"trainers": 1, "epochs": 1, "batch_size": 120, "transport": "shared_memory"}
CASES: dict[str, dict[str, Any]] = {
    "reference": COMMON | {"epochs": 2, "batch_size": 300},
    "sync_sgd": COMMON | {"trainers": 1, "rounds": 6, "batch_size": 480, "transport": "shared_memory"},
    "parameter_server": SERVER | {"batch_update_size": 1},
    "async_sgd": SERVER,
}
"""Threads draw dropout from one generator, so values are the same for one trainer only."""
LONG = 16
REAL: dict[str, dict[str, Any]] = {
    "reference": {"epochs": LONG * 2, "batch_size": 100},
    "sync_sgd": {"trainers": 2, "rounds": LONG * 2, "batch_size": 100},
    "parameter_server": {"trainers": 2, "epochs": LONG, "batch_size": 50, "batch_update_size": 2},
    "async_sgd": {"trainers": 2, "epochs": LONG, "batch_size": 50},
}
SAME_VALUES = {"reference", "sync_sgd"}
"""Trainers of a server draw other dropout when they resume, and the order of their gradients differs from run to
run: there steps are compared.
"""
START_S = 240.0
Curves = dict[int | None, list[tuple[int, float]]]


# ---- by injection


class Recorded(MemoryRecorder):
    """A recorder whose new points go to the worker's inbox."""

    def send_to(self, member: RankHandle) -> None:
        """Send what has been recorded since the last time."""
        points, self.points = self.points, []
        last = max((point.step for point in points), default=member.latest.last_step)
        member.latest = Flush([(p.name, p.step, p.value, p.time_s, p.passes) for p in points], last_step=last)
        member.heard_s = time.monotonic()
        member.inbox.append(member.latest)


@dataclass
class StoredRanks(LocalRanks):
    """Ranks as threads whose points and checkpoints go through a worker's part into the store."""

    home: Home = field(default_factory=Home.find)
    run_id: int = 0

    def run(self, function: Any, *shared: Any, **options: Any) -> None:
        process = cast(Any, current_process())
        context = RunContext(self.roles, self.devices, 1, 0, self.folder, time_before_s=self.time_before_s)
        gone = torch.zeros(len(self.roles), dtype=torch.uint8)
        plans = [
            RankPlan(index, context, gone, TraceMemory(), cast(ListenRule, None), None)
            for index in range(len(self.roles))
        ]
        self.members = [RankHandle(plan, process, cast(Any, None)) for plan in plans]
        self.progress = RunProgress(self.members, context, MemorySink(), Disturbance(1, machine().core_ids))
        super().run(function, *shared, **options)
        self.pump()

    def _rank(self, index: int, role: str) -> Rank:
        rank = super()._rank(index, role)
        recorder = self.recorders[role] = Recorded()
        rank.recorder = recorder

        def start(zero: float) -> None:
            recorder.started = zero - self.time_before_s

        rank.start, rank.tell_saved = start, self.tell
        return rank

    def tell(self, saved: Saved) -> None:
        """Take a checkpoint and all points so far, as the worker does."""
        self.progress.checkpoints.append(saved)
        self.pump()

    def pump(self) -> None:
        """Send all new points, and let the worker write."""
        for member, recorder in zip(self.members, self.recorders.values(), strict=True):
            cast(Recorded, recorder).send_to(member)
        with Store.open(self.home) as store:  # of this thread
            self.progress.sink = StoreSink(store.db, self.run_id)
            self.progress.write()


def train(home: Home, case: str, run_id: int, kill_at: int = 0, **more: Any) -> int:
    """Carry out a run in this process; return the number of calls within its saves. It kills itself at call
    `kill_at`.
    """
    calls, real = 0, Checkpoints.save

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(kept: Checkpoints, *given: Any, **options: Any) -> bool:
        sys.setprofile(count)
        try:
            return real(kept, *given, **options)
        finally:
            sys.setprofile(None)

    Checkpoints.save = watched  # type: ignore[assignment, method-assign]
    try:
        config = experiment(case).config.check(CASES[case])
        folder = home.run_folder(run_id)
        folder.mkdir(parents=True, exist_ok=True)
        method(case)(
            config, StoredRanks(config.roles, seed=config.seed, folder=folder, home=home, run_id=run_id, **more)
        )
    finally:
        Checkpoints.save = real  # type: ignore[method-assign]
    return calls


def added(home: Home, case: str, parent: int | None = None) -> int:
    """Add a run that is on."""
    with Store.open(home) as store:
        run_id = store.runs.add(Launch(case, CASES[case], "bench", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        store.worker.mark_running(run_id, 1.0)
        if parent:
            store.db.connection.execute("UPDATE runs SET parent_id = ? WHERE id = ?", [parent, run_id])
    return run_id


def curves(home: Home, run_id: int) -> Curves:
    """Return the losses of each rank by step."""
    with Reader.open(home, timeout_s=60) as reader:
        found = reader.curves.series(run_id, ["train/loss"])
    return {one.rank: list(zip(one.steps, one.values, strict=True)) for one in found}


def in_child(work: Any) -> int:
    """Carry out `work` in a forked process; return how it ended."""
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def inject(trials: int) -> dict[str, Any]:
    """Kill at every so-many-th call within saves, as many times over all experiments; return what was seen."""
    torch.set_num_threads(1)
    killed: Counter[str] = Counter()
    resumed: Counter[str] = Counter()
    wrong: list[str] = []
    points: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="parallab-torn-") as place:
        for case in CASES:
            home = Home(Path(place) / case).create()
            whole = added(home, case)
            points[case] = calls = train(home, case, whole)
            expected = curves(home, whole)
            share = -(-trials // len(CASES))
            for trial in range(share):
                at = 1 + trial * calls // share
                parent = added(home, case)
                if in_child(partial(train, home, case, parent, kill_at=at)) != -signal.SIGKILL:
                    at = max(1, at - calls // 20)  # a server saves a little less often in one run than in another
                    parent = added(home, case)
                    if in_child(partial(train, home, case, parent, kill_at=at)) != -signal.SIGKILL:
                        continue
                killed[case] += 1
                child = added(home, case, parent)
                taken = take_checkpoint(home.run_folder(parent), home.run_folder(child))
                if taken is None:
                    continue
                path, found = taken
                with Store.open(home) as store:
                    store.worker.go_on_from_parent(child, step=found.step, time_s=found.time_s, steps=found.steps)
                    before_s = store.read.runs.one(child).time_before_s
                train(home, case, child, resume_from=path, time_before_s=before_s)
                resumed[case] += 1
                if difference := unlike(case, curves(home, child), expected):
                    wrong.append(f"{case} killed at call {at:,}, resumed from step {found.step}: {difference}")
                print(".", end="", file=sys.stderr, flush=True)
    return {
        "kills": sum(killed.values()),
        "by_experiment": dict(killed),
        "calls_within_saves": points,
        "resumed": sum(resumed.values()),
        "before_the_first_checkpoint": sum(killed.values()) - sum(resumed.values()),
        "curves_unlike_the_undisturbed_run": wrong,
    }


# ---- real kills


@dataclass
class Seen:
    """What was seen of real kills."""

    kills: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def victims(home: Home, run_id: int) -> Iterator[tuple[str, int]]:
    """Yield the processes of a run."""
    with Reader.open(home, timeout_s=60) as reader:
        if worker := reader.runs.one(run_id).worker:
            yield "worker", worker.pid
        yield from (("rank", row.pid) for row in reader.details.ranks(run_id) if row.pid)


def status(home: Home, run_id: int) -> str:
    with Reader.open(home, timeout_s=60) as reader:
        return reader.runs.one(run_id).status


def begin(home: Home, name: str, parent: int | None = None) -> int:
    settings: Mapping[str, Any] = COMMON | {"checkpoint_every_s": 0.1} | REAL[name]
    if parent:
        return resume(home, parent, owner="bench", timeout_s=60)
    return launch(
        home, Launch(name, experiment(name).configure(None, settings).model_dump(mode="json"), "bench"), timeout_s=60
    )


def kill_one(home: Home, name: str, draw: random.Random, seen: Seen) -> None:
    """Kill a process of a run at a random moment after its first checkpoint, resume the run, and compare its curves."""
    parent = begin(home, name)
    wait_until(lambda: last_checkpoint(home.run_folder(parent)) is not None, START_S, f"a checkpoint of {name}")
    time.sleep(draw.uniform(0, 1.0))
    found = list(victims(home, parent))
    kind = draw.choice(("worker", "rank"))
    pid = draw.choice([pid for what, pid in found if what == kind])
    process = identity(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: status(home, parent) in ENDED, START_S, f"run {parent} to end")
    if status(home, parent) == "finished":
        return
    assert process is None or not is_alive(process)
    seen.kills[f"{name}, {kind}"] += 1
    child = begin(home, name, parent)
    wait_until(lambda: status(home, child) in ENDED, START_S, f"run {child} to end")
    difference = unlike(name, curves(home, child), whole(home, name))
    if difference or status(home, child) != "finished":
        seen.wrong.append(f"{name}, resumed after the kill of a {kind}: {status(home, child)}, {difference}")
    print("+", end="", file=sys.stderr, flush=True)


def unlike(name: str, ours: Curves, theirs: Curves) -> str:
    """Return how curves differ from those of an undisturbed run; empty if they don't."""
    for rank, of in theirs.items():
        found = ours.get(rank, [])
        for number, ((step, value), (other, there)) in enumerate(zip(found, of, strict=False)):
            if step != other or (name in SAME_VALUES and value != there):
                return f"rank {rank} has {value} at step {step} for {there} at step {other}, point {number}"
        if len(found) != len(of):
            return f"rank {rank} has {len(found)} of {len(of)} points"
    return ""


@cache
def whole(home: Home, name: str) -> Curves:
    """Return the curves of an undisturbed run."""
    run_id = begin(home, name)
    wait_until(lambda: status(home, run_id) in ENDED, START_S, f"run {run_id} to end")
    assert status(home, run_id) == "finished"
    return curves(home, run_id)


def kill(kills: int, seed: int) -> dict[str, Any]:
    """Carry out that many real kills; return what was seen."""
    seen, draw, names = Seen(), random.Random(seed), list(REAL)
    with served_home() as home:
        while (done := sum(seen.kills.values())) < kills:
            kill_one(home, names[done % len(names)], draw, seen)
    return {
        "kills": sum(seen.kills.values()),
        "seed": seed,
        "by_experiment_and_victim": dict(sorted(seen.kills.items())),
        "curves_unlike_the_undisturbed_run": seen.wrong,
    }


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--injected", type=int, default=1000)
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    began = time.monotonic()
    found = {"injected": inject(chosen.injected), "real": kill(chosen.kills, chosen.seed)}
    save("checkpoint_kills", found | {"took_s": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
