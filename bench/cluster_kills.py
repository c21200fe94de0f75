"""Kills at random moments over rank, agent, worker, slurmstepd, slurmd, runner and link, on a real Slurm over two
network namespaces: what is lost, doubled, or left behind.

Each run's points in the store are compared with those in its file of records, of which a second name is kept, and with
an undisturbed run's. As root: python -m bench.cluster_kills [--kills 200] [--seed 1] [--one-host] [--only slurmd]
"""

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measuring import save, wait_until
from engine.home import Home
from engine.jobs.records import WriteRecord, tail_of
from engine.store import Reader
from engine.store.records import ENDED
from tests.cluster.lab import ClusterLab, worker_of
from tests.cluster.namespaces import NodeNamespaces
from tests.cluster.slurm import SlurmLab

VICTIMS = {"runner": 6, "rank": 4, "worker": 4, "slurmstepd": 3, "agent": 2, "slurmd": 1, "link": 1}
"""How often each is chosen: the loss of a node takes Slurm half a minute."""
ROUNDS = 100_000
WAIT_S = 240.0
Curve = dict[tuple[str, int | None], list[tuple[int, float]]]


@dataclass
class Trial:
    """The lab and what was seen."""

    lab: ClusterLab
    slurm: SlurmLab
    namespaces: NodeNamespaces | None
    kept: Path
    random: random.Random
    only: tuple[str, ...] = tuple(VICTIMS)
    truth: Curve = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    points: int = 0
    wrong: list[str] = field(default_factory=list)
    ended_s: dict[str, list[float]] = field(default_factory=dict)
    run_id: int = 0

    def begin(self) -> None:
        """Launch a run and wait until it trains."""
        self.run_id = self.lab.launch("sync_sgd", 2, rounds=ROUNDS, evaluate_every=1000)
        self.lab.wait_for(self.run_id, "running", *ENDED)
        with Reader.open(self.lab.home, timeout_s=30) as reader:
            job = reader.cluster_jobs.of(self.run_id)
        assert job, self.lab.log()
        os.link(Path(job.folder) / "records", self.kept / str(self.run_id))

    def kill_one(self) -> None:
        """Kill something at a random moment and see what becomes of it."""
        if not self.run_id:
            self.begin()
        victims = {
            name: often for name, often in VICTIMS.items() if name in self.only and (name != "link" or self.namespaces)
        }
        victim = self.random.choices([*victims], [*victims.values()])[0]
        time.sleep(self.random.uniform(0, 2))
        self.kills[victim] += 1
        began = time.monotonic()
        if victim == "runner":
            self.lab.kill_runner()
            time.sleep(self.random.uniform(0, 1))
            self.lab.start_runner()
            return
        getattr(self, f"_kill_{victim}")()
        wait_until(
            lambda: self.lab.run(self.run_id).status in ENDED, WAIT_S, f"run {self.run_id} to end: {self.lab.log()}"
        )
        self.ended_s.setdefault(victim, []).append(time.monotonic() - began)
        wait_until(lambda: not list(self.lab.processes()), WAIT_S, "all processes to end")
        self._repair(victim)
        wait_until(lambda: not self.lab.has_job(self.run_id), WAIT_S, "the job to be forgotten")
        self._check(victim)
        self.run_id = 0

    def _kill_rank(self) -> None:
        os.kill(self.lab.pid_of(self.run_id, self.random.choice(("trainer1", "trainer2"))), 9)

    def _kill_worker(self) -> None:
        worker_of(self.lab).kill()

    def _kill_agent(self) -> None:
        for process in self.lab.processes():
            if "engine.jobs.job" in process.cmdline():
                process.kill()

    def _kill_slurmstepd(self) -> None:
        os.kill(self.random.choice(self.slurm.steps(self.random.choice(("n1", "n2")))), 9)

    def _kill_slurmd(self) -> None:
        self.slurm.kill(node := self.random.choice(("n1", "n2")))
        for pid in self.slurm.steps(node):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

    def _kill_link(self) -> None:
        assert self.namespaces
        self.namespaces.cut("n2")

    def _repair(self, victim: str) -> None:
        if victim == "link" and self.namespaces:
            self.namespaces.heal("n2")
        self.slurm.restore()

    def _check(self, victim: str) -> None:
        """Compare the store with the run's file of records and with the undisturbed run."""
        run = self.lab.run(self.run_id)
        self.ends[f"{victim}: {run.status}"] += 1
        stored, recorded = self.lab.curves(self.run_id), _recorded(self.kept / str(self.run_id))
        self.points += sum(map(len, stored.values()))
        for key, points in stored.items():
            if points != recorded.get(key):
                self.wrong.append(f"run {self.run_id} ({victim}): {key} differs from its records")
            if not self.truth.get(key) or len(self.truth[key]) < len(points):
                self.truth[key] = points
            elif self.truth[key][: len(points)] != points:
                self.wrong.append(f"run {self.run_id} ({victim}): {key} differs from other runs")
        if missing := {key for key in recorded if key not in stored}:
            self.wrong.append(f"run {self.run_id} ({victim}): {missing} is missing")
        (self.kept / str(self.run_id)).unlink()


def _recorded(path: Path) -> Curve:
    """Return the points of what is learned that a file of records holds."""
    found: Curve = {}
    for line in tail_of(path.read_bytes(), 0, last=True).lines:
        record = line.record()
        if isinstance(record, WriteRecord):
            for batch in record.batches:
                for name, step, value, _, _ in batch.points:
                    if name.startswith(("train/", "test/")):
                        found.setdefault((name, batch.rank), []).append((step, value))
    return found


def main() -> None:
    """Kill, check, and save the result."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=600)
    options.add_argument("--one-host", action="store_true", help="Nodes of one network, whose links are not cut.")
    options.add_argument("--only", nargs="+", default=[*VICTIMS], choices=[*VICTIMS])
    asked = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="parallab-bench-") as name,
        nullcontext() if asked.one_host else NodeNamespaces() as namespaces,
    ):
        folder = Path(name)
        for part in ("home", "shared", "kept", "slurm"):
            (folder / part).mkdir()
        with (
            SlurmLab(folder / "slurm", namespaces=namespaces) as slurm,
            ClusterLab(Home(folder / "home").create(), slurm, folder / "shared") as lab,
        ):
            trial = Trial(lab, slurm, namespaces, folder / "kept", random.Random(asked.seed), tuple(asked.only))
            deadline = time.monotonic() + 60 * asked.minutes
            while trial.kills.total() < asked.kills and time.monotonic() < deadline:
                trial.kill_one()
                print(trial.kills.total(), dict(trial.kills), trial.wrong, flush=True)
            result: dict[str, Any] = {
                "kills": dict(trial.kills),
                "ends": dict(trial.ends),
                "points": trial.points,
                "wrong": trial.wrong,
                "seconds_to_the_end": {
                    victim: {"median": sorted(all_)[len(all_) // 2], "most": max(all_)}
                    for victim, all_ in trial.ended_s.items()
                },
                "folders_left": len(list((folder / "shared" / "parallab-jobs").iterdir())) - bool(trial.run_id),
            }
    save("cluster_kills" if len(asked.only) == len(VICTIMS) else f"cluster_kills_{'_'.join(asked.only)}", result)


if __name__ == "__main__":
    main()
