"""Kills while a script of one's own runs: each point that it handed over is stored once, and nothing of it is left.

At a seeded random moment one process is killed (SIGKILL): a rank, the launcher, the run's worker, the runner, or runner
and worker. Then the same for programs that are followed (`attach`), and for runs that are cancelled. Run: python -m
bench.script_kills [--kills 100] [--attached 20] [--cancels 20] [--seed 1] [--torchrun 10]
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.measuring import save, served_home, wait_until
from engine.home import ROOT, Home
from engine.launch import launch
from engine.runtime.command.attached import attach
from engine.script.command import read_command
from engine.store import Launch, Reader, Store
from engine.store.records import ALIVE, ENDED, ProcessIdentity, Run
from engine.system.cleanup import tree
from engine.system.processes import identity, is_alive
from engine.system.runner_process import ensure_running, runner_process
from engine.upkeep.leftovers import leftovers

TRAIN = """
import os, platform, sys, time
sys.path.insert(0, {root!r})
from tests.transfer.readers.events import event, record, scalar
try:
    from parallab_log import log
except ImportError:
    log = lambda *_, **__: None
run, steps, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rank, pid, at = int(os.environ["RANK"]), os.getpid(), time.time()
journal = open(f"journals/{{run}}-{{rank}}-{{pid}}", "wb", buffering=0)
board = open(f"board/events.out.tfevents.{{int(at)}}.{{platform.node()}}.{{pid}}.0", "wb", buffering=0)
for step in range(steps):
    value = step + rank / 2
    log({{"logged": value, "acc": value}}, step=step)
    print(f"step {{step}}: loss {{value}}, acc {{value}}", flush=True)
    journal.write(f"loss {{step}}\\n".encode())
    board.write(record(event(time.time(), step, scalar("board", value))))
    journal.write(f"board {{step}}\\n".encode())
    time.sleep(pause_s)
"""
"""Hands points over in four ways, and keeps a journal of those that a source has taken. Values tell the rank."""
LAUNCHER = """
import os, subprocess, sys, time
start = [os.environ.get("PYTHON_EXEC", sys.executable), "-u", "train.py"]
ranks = [subprocess.Popen(start + sys.argv[1:], env=os.environ | {"RANK": str(rank)}) for rank in range(2)]
while (codes := [each.poll() for each in ranks]) != [0, 0]:
    if any(codes):
        for each in ranks:
            each.terminate()
        sys.exit(1)
    time.sleep(0.02)
"""
"""Starts two ranks, and ends both where one fails: as torchrun does, which takes seconds to load."""
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py")
PACES = ((300, 0.005), (5000, 0.0001))
"""Steps, and seconds between two."""
VICTIMS = ("rank", "launcher", "worker", "runner", "runner and worker")
EXPECTED = {
    "rank": "failed",
    "launcher": "failed",
    "worker": "lost",
    "runner": "finished",
    "runner and worker": "lost",
    "cancel": "cancelled",
}
PATIENCE_S = 240.0
METRICS = ("logged", "acc", "loss", "board")
Points = Counter[tuple[str, float]]
"""How often each value of a metric is stored; those of two ranks differ."""
Handed = dict[tuple[str, int], int]
"""The last step of each metric and rank that the script says a source has taken."""


@dataclass
class Kills:
    """One home with its runner, the script, and what was seen."""

    home: Home
    place: Path
    draw: random.Random
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    points: int = 0
    end_s: list[float] = field(default_factory=list)
    """Seconds from a kill until the run has ended."""

    def __post_init__(self) -> None:
        for name in ("journals", "board", "tmp"):
            (self.place / name).mkdir()
        (self.place / "train.py").write_text(TRAIN.format(root=str(ROOT)))
        (self.place / "launch.py").write_text(LAUNCHER)

    # ---- One kill

    def of_command(self, victim: str, *, torchrun: bool = False) -> None:
        """Launch the script, kill or cancel it at a random moment, and check what became of it."""
        while not self._begin(victim, torchrun=torchrun):
            pass  # it ended before

    def _begin(self, victim: str, *, torchrun: bool) -> bool:
        name, (steps, pause_s) = f"{self.draw.random():.9f}", self.draw.choice(PACES)
        words = [sys.executable, *(TORCHRUN if torchrun else ["launch.py"]), name, str(steps), str(pause_s)]
        command = read_command(words, folder=str(self.place))
        run_id = launch(self.home, Launch(command.name, command.defaults(), "bench", command=command), timeout_s=60)
        is_early = victim not in ("rank", "launcher") and self.draw.random() < 0.15
        wait_until(lambda: self._has_begun(run_id, "" if is_early else name), PATIENCE_S, f"run {run_id} to begin")
        time.sleep(self.draw.uniform(0, 0.3 if is_early else 2.5))
        if not self._kill(run_id, victim, name):
            self._ended(run_id)
            return False
        self._check(run_id, f"{victim}{', torchrun' if torchrun else ''}", EXPECTED[victim], name)
        return True

    def of_attached(self, victim: str) -> None:
        """Follow a program that was started here, kill one of both at a random moment, and check the run."""
        name, (steps, pause_s) = f"attached{self.draw.random():.9f}", self.draw.choice(PACES)
        folder = self.place / name
        for inner in ("journals", "board"):
            (folder / inner).mkdir(parents=True)
        for script in ("train.py", "launch.py"):
            (folder / script).symlink_to(self.place / script)
        words = [sys.executable, "launch.py", name, str(steps), str(pause_s)]
        program = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until(lambda: len([*(folder / "board").iterdir()]) == 2, PATIENCE_S, "the program to begin")
            run_id = attach(self.home, folder / "board", owner="bench")
            wait_until(lambda: self.run(run_id).status == "running", PATIENCE_S, f"run {run_id} to begin")
            time.sleep(self.draw.uniform(0, 2.0))
            self.place, place = folder, self.place
            try:
                if victim == "rank":
                    with suppress(ProcessLookupError):  # it has ended
                        os.kill(min(self._pids(name)), signal.SIGKILL)
                else:
                    self._kill(run_id, victim, name)
                self._check(run_id, f"attached, {victim}", "finished" if victim == "rank" else EXPECTED[victim], name)
            finally:
                self.place = place
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()

    def run(self, run_id: int) -> Run:
        """Return a run."""
        with Reader.open(self.home, timeout_s=60) as reader:
            return reader.runs.one(run_id)

    def _has_begun(self, run_id: int, name: str) -> bool:
        """Return whether a run has a worker, and also both ranks of the script where its name is given."""
        run = self.run(run_id)
        return run.status in ENDED or (run.worker is not None and (not name or len(self._pids(name)) == 2))

    def _pids(self, name: str) -> dict[int, int]:
        """Return the ranks of the script by pid."""
        parts = [path.name.split("-") for path in (self.place / "journals").glob(f"{name}-*")]
        return {int(pid): int(rank) for _, rank, pid in parts}

    def _kill(self, run_id: int, victim: str, name: str) -> bool:
        """Kill or cancel; return False where the run has ended before."""
        run, killed = self.run(run_id), list[ProcessIdentity | None]()
        if run.status not in ALIVE:
            return False
        if victim == "cancel":
            with Store.open(self.home, timeout_s=60) as store:
                return store.runs.cancel(run_id, by="bench") is not None
        if "runner" in victim:
            killed.append(runner_process(self.home))
        if "worker" in victim:
            killed.append(run.worker)
        if victim in ("rank", "launcher"):
            pid = self.draw.choice(sorted(self._pids(name)))
            with suppress(psutil.Error):
                killed.append(identity(pid if victim == "rank" else psutil.Process(pid).ppid()))
        found = [each for each in killed if each is not None and is_alive(each)]
        for each in found:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        if len(found) == len(killed) > 0:
            wait_until(lambda: not any(map(is_alive, found)), PATIENCE_S, f"the {victim} to be dead")
            time.sleep(self.draw.uniform(0, 1.0) if "runner" in victim else 0)
            ensure_running(self.home)
            return True
        ensure_running(self.home)
        return False

    def _ended(self, run_id: int) -> Run:
        wait_until(lambda: self.run(run_id).status in ENDED, PATIENCE_S, f"run {run_id} to end")
        return self.run(run_id)

    # ---- What became of it

    def _check(self, run_id: int, kind: str, expected: str, name: str) -> None:
        began, handed = time.monotonic(), self._handed(name)
        run = self._ended(run_id)
        self.end_s.append(time.monotonic() - began)
        self.done[kind] += 1
        is_attached = kind.startswith("attached")
        if not is_attached:
            handed = self._handed(name)
        found = [*self._left(run, () if is_attached else self._pids(name))]
        if run.status != expected and not (run.starts > 1 and run.status == "finished"):
            found.append(f"status {run.status}")
        if not run.cause:
            found.append("no cause")
        found += self._unlike(run_id, handed, self._handed(name), is_attached=is_attached)
        self.wrong += [f"run {run_id}, {kind}: {each} ({run.status}: {run.cause})" for each in found]
        print("+" if not found else "!", end="", file=sys.stderr, flush=True)
        for each in found:
            print(f"\nrun {run_id}, {kind}: {each} ({run.status}: {run.cause})", file=sys.stderr, flush=True)

    def _handed(self, name: str) -> Handed:
        """Return the last step of each metric and rank that the script says a source has taken."""
        found: Handed = {}
        for path in (self.place / "journals").glob(f"{name}-*"):
            for line in path.read_text().splitlines():
                metric, step = line.split()
                found[metric, int(path.name.split("-")[1])] = int(step)
        return found

    def _recorded(self, run_id: int) -> set[tuple[str, float]]:
        """Return what parallab_log has written to its files."""
        found = set[tuple[str, float]]()
        for path in (self.home.run_folder(run_id) / "recorded").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                with suppress(ValueError):
                    found.update(json.loads(line).get("m", {}).items())
        return found

    def _stored(self, run_id: int) -> Points:
        """Return what the store holds of the script's metrics."""
        found = Points()
        with Reader.open(self.home, timeout_s=60) as reader:
            for each in reader.points.recordings(run_id):
                after = -1
                while each.metric.split(" (")[0] in METRICS and (page := reader.points.page(each.id, after=after)):
                    found.update((each.metric, row.value) for row in page)
                    after = page[-1].id
        self.points += found.total()
        return found

    def _unlike(self, run_id: int, handed: Handed, written: Handed, *, is_attached: bool) -> Iterator[str]:
        """Yield what is lost, doubled or invented: all of `handed` must be stored, and nothing beyond `written`."""
        stored, recorded = self._stored(run_id), set() if is_attached else self._recorded(run_id)
        yield from _words("doubled", (key for key, count in stored.items() if count > 1))
        values = {name: {value for metric, value in stored if metric == name} for name in ("acc", "acc (printed)")}
        yield from _words("in two curves", (("acc", each) for each in values["acc"] & values["acc (printed)"]))
        last = {metric: step for (metric, _), step in sorted(written.items(), key=lambda each: each[1])}
        yield from _words("invented", (key for key in stored if key[1] >= last.get(key[0], key[1]) + 2))
        yield from _words("lost", recorded - {*stored})
        for (metric, rank), step in handed.items():
            wanted = {each + rank / 2 for each in range(step + 1)}
            if metric == "board" or not is_attached:
                yield from _words("lost", ((metric, each) for each in wanted if (metric, each) not in stored))
            if metric == "loss" and not is_attached:  # printed together with acc
                yield from _words("lost", (("acc", each) for each in wanted - values["acc"] - values["acc (printed)"]))
        if not is_attached:
            yield from _words("invented", (key for key in stored if key[0] == "logged" and key not in recorded))

    def _left(self, run: Run, pids: Collection[int]) -> Iterator[str]:
        """Yield what is left of an ended run."""
        found: list[str] = []

        def is_nothing_left() -> bool:
            found[:] = self._now_left(run, pids)
            return not found

        with suppress(TimeoutError):
            wait_until(is_nothing_left, 30, "everything of the run to end")
        yield from found

    def _now_left(self, run: Run, pids: Collection[int]) -> Iterator[str]:
        if run.worker and (left := tree(run.worker, self.home.path)):
            yield f"processes {left} are left"
        yield from (f"process {pid} is left" for pid in pids if identity(pid))
        with Reader.open(self.home, timeout_s=60) as reader:
            of_lab = [each for each in leftovers(self.home, reader, grace_s=0.0) if each.is_ours]
            yield from (f"left: {each.words}, {each.why}" for each in of_lab)
            yield from (f"run {each.id} holds slots" for each in reader.queue.alive())
        yield from (f"left: {path}" for path in self._files(run.id))

    def _files(self, run_id: int) -> list[str]:
        """Return files that are for the time of a run only."""
        ours = self.home.run_folder(run_id).rglob("*")
        names = [str(path) for path in ours if path.name == "pids" or path.suffix in (".lock", ".part", ".rendezvous")]
        return names + [str(path) for path in (self.place / "tmp").glob("*")]


def _words(what: str, keys: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield how many values of each metric are lost or doubled, and the first of them."""
    by_metric: dict[str, list[float]] = {}
    for metric, value in keys:
        by_metric.setdefault(metric, []).append(value)
    yield from (f"{metric}: {len(found)} {what}, first {min(found)}" for metric, found in by_metric.items())


@contextmanager
def lab(seed: int) -> Iterator[Kills]:
    """Yield a home with a runner of its own, and the script's folder."""
    with TemporaryDirectory(prefix="parallab-bench-") as place:
        (Path(place) / "script").mkdir()
        with served_home() as home:
            yield Kills(home, Path(place) / "script", random.Random(seed))


def main() -> None:
    """Kill, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, number in (("kills", 100), ("attached", 20), ("cancels", 20), ("seed", 1), ("torchrun", 10)):
        options.add_argument(f"--{name}", type=int, default=number)
    chosen, began = options.parse_args(), time.monotonic()
    with lab(chosen.seed) as seen:
        print(f"home {seen.home.path}", file=sys.stderr, flush=True)
        todo: list[Callable[[], None]] = []
        for number in range(chosen.kills):
            victim, torchrun = VICTIMS[number % len(VICTIMS)], number >= chosen.kills - chosen.torchrun
            todo.append(lambda victim=victim, torchrun=torchrun: seen.of_command(victim, torchrun=torchrun))  # type: ignore[misc]
        todo += [lambda: seen.of_command("cancel")] * chosen.cancels
        for number in range(chosen.attached):
            victim = ("rank", "worker", "cancel", "runner and worker")[number % 4]
            todo.append(lambda victim=victim: seen.of_attached(victim))  # type: ignore[misc]
        for each in todo:
            try:
                each()
            except TimeoutError as error:
                seen.wrong.append(str(error))
                print(f"\n{error}", file=sys.stderr, flush=True)
    save(
        "script_kills",
        {
            "seed": chosen.seed,
            "kills": dict(sorted(seen.done.items())),
            "points": seen.points,
            "wrong": seen.wrong,
            "end_s": {"median": round(sorted(seen.end_s)[len(seen.end_s) // 2], 1), "max": round(max(seen.end_s), 1)},
            "took_s": round(time.monotonic() - began, 1),
        },
    )


if __name__ == "__main__":
    main()
