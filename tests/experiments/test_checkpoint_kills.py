"""A run that is killed at any point of the saving of a checkpoint resumes as if nothing had happened: every step once,
with the same values; ranks are threads, and what a kill leaves is looked at after every call that `save` makes.
"""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.data.sets import load
from engine.experiments.sync_sgd import trainer as sync_trainer
from engine.registry import experiment, experiments, method
from engine.runtime.rank.rank import Checkpoints, load_checkpoint
from engine.store import RankBatch, Reader, Store
from engine.system.checkpoint_state import last_checkpoint, take_checkpoint
from engine.training.server_run import exchange_with_server
from engine.training.workload import Batch
from tests.doubles import LocalRanks
from tests.experiments.servers import server_functions
from tests.experiments.sync_sgd import sync_functions
from tests.store.conftest import add, reader, running

__all__ = ["add", "reader", "running"]

pytestmark = pytest.mark.ranks
Running = Callable[..., int]
METRICS = ["train/loss", "test/accuracy", "test/loss", "perf/staleness", "perf/staleness_mean"]
COMMON: dict[str, Any] = {
    "dataset": "digits",
    "learning_rate": 0.05,
    "momentum": 0.5,
    "threads_per_rank": 1,
    "seed": 7,
    "evaluate_every": 1,
    "checkpoint_every_s": 1e-6,
    "device": "cpu",
}
SERVER = COMMON | {"trainers": 1, "epochs": 1, "batch_size": 120, "evaluate_every": 0, "transport": "shared_memory"}
SYNC = COMMON | {"trainers": 2, "rounds": 3, "batch_size": 240, "transport": "shared_memory"}
CASES: dict[str, dict[str, Any]] = {
    "reference": COMMON | {"epochs": 2, "batch_size": 300},
    "sync_sgd": SYNC,
    "sync_sgd elastic": SYNC | {"sync": "elastic"},
    "parameter_server": SERVER | {"batch_update_size": 1},
    "async_sgd": SERVER,
    "async_sgd delay_compensated": SERVER | {"rule": "delay_compensated", "compensation_decay": 0.9},
}
ALWAYS = ("reference", "sync_sgd", "async_sgd delay_compensated")
"""One of each way to save: one rank, ranks that agree, a server with state of its own. The rest is long."""

SAVE = Checkpoints.save


@dataclass(frozen=True)
class Paced(server_functions.Frozen):
    """Digits whose fourth and eighth mini-batch come when the steps before them are in a checkpoint."""

    folder: Path

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        for step, batch in enumerate(super().batches(number, seed, skip), start=skip + 1):
            while step in (4, 8) and not ((found := last_checkpoint(self.folder)) and found.step >= step - 1):
                time.sleep(0.001)
            yield batch


@dataclass
class Left:
    """What a kill at some moment would have left: the files of the run's folder, and the points recorded so far."""

    files: dict[str, bytes]
    recorded: list[RankBatch]


@dataclass
class Watch:
    """Looks at the folder after every call within `save`; writing into the part of a file is one call to torch."""

    ranks: LocalRanks
    left: list[Left] = field(default_factory=list)
    _seen: Any = None

    def save(self, *given: Any, **more: Any) -> bool:
        sys.setprofile(lambda *_: self.look())
        try:
            return SAVE(*given, **more)
        finally:
            sys.setprofile(None)
            self.look()

    def recorded(self) -> list[RankBatch]:
        return [RankBatch(index, [*one.points]) for index, one in enumerate(self.ranks.recorders.values())]

    def look(self) -> None:
        there = [path for path in self.ranks.folder.iterdir() if path.is_file()]
        seen = sorted((path.name, path.stat().st_ino, path.stat().st_size, path.stat().st_mtime_ns) for path in there)
        if seen == self._seen:
            return
        self._seen = seen
        files, recorded = {path.name: path.read_bytes() for path in there}, self.recorded()
        self.left.append(Left(files, recorded))
        for name, content in files.items():
            if name.endswith(".part"):  # a kill within that call
                self.left += [Left(files | {name: content[:size]}, recorded) for size in (0, len(content) // 2)]


def train(case: str, folder: Path, **more: Any) -> Watch:
    """Carry out a run in a folder; return what was seen of its checkpoints."""
    folder.mkdir(exist_ok=True)
    name = case.split()[0]
    config: Any = experiment(name).config.check(CASES[case])
    ranks = LocalRanks(config.roles, seed=config.seed, folder=folder, **more)
    watch = Watch(ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", lambda *given, **options: watch.save(*given, **options))
        patch.setattr(sync_trainer, "model_net", sync_functions.sober_model)  # threads draw from one generator
        if name in server_functions.SERVERS:
            paced = Paced(load("digits"), config.trainers, config.batch_size, config.epochs, folder)
            exchange = exchange_with_server(config, paced, "cpu")
            ranks.run(server_functions.take_part, name, config, exchange, paced)
        else:
            method(name)(config, ranks)
    return watch


def curves(reader: Reader, run_id: int) -> dict[tuple[str, int | None], list[tuple[int, float]]]:
    """Return the values by step; passes of several trainers are a count at some moment of the round."""
    found = reader.curves.series(run_id, METRICS)
    assert all(one.times_s == sorted(one.times_s) for one in found)
    return {(one.metric, one.rank): list(zip(one.steps, one.values, strict=True)) for one in found}


def test_every_experiment_that_keeps_checkpoints_is_attacked() -> None:
    assert {case.split()[0] for case in CASES} == {one.name for one in experiments() if one.resumable}


@pytest.mark.parametrize(
    "case", [case if case in ALWAYS else pytest.param(case, marks=pytest.mark.long) for case in CASES]
)
def test_a_kill_at_any_point_of_save_loses_and_repeats_no_step(
    tmp_path: Path, store: Store, reader: Reader, running: Running, case: str
) -> None:
    watch, whole = train(case, tmp_path / "whole"), running()
    store.worker.write(whole, watch.recorded())
    expected = curves(reader, whole)
    found: dict[int, Left] = {}
    for number, left in enumerate(watch.left):
        folder = tmp_path / "left" / str(number)
        folder.mkdir(parents=True)
        for name, content in left.files.items():
            (folder / name).write_bytes(content)
        position = last_checkpoint(folder)
        if position is None:
            assert not found, "the previous checkpoint is gone"
            continue
        assert load_checkpoint(folder / "checkpoint.pt")["position"]["step"] == position.step
        assert position.step >= max(found, default=0)
        found.setdefault(position.step, left)
    assert len(found) >= 2 and len(watch.left) > 3 * len(found)
    for step, left in itertools.islice(found.items(), 0, None, math.ceil(len(found) / 3)):
        parent, child = running(), running()
        store.worker.write(parent, left.recorded)
        store.db.connection.execute("UPDATE runs SET parent_id = ? WHERE id = ?", [parent, child])
        source, target = tmp_path / f"from {step}", tmp_path / f"on from {step}"
        source.mkdir()
        for name, content in left.files.items():
            (source / name).write_bytes(content)
        taken = take_checkpoint(source, target)
        assert taken
        path, at = taken
        store.worker.go_on_from_parent(child, step=at.step, time_s=at.time_s, steps=at.steps)
        time_before_s = reader.runs.one(child).time_before_s
        rest = train(case, target, resume_from=path, time_before_s=time_before_s)
        store.worker.write(child, rest.recorded())
        assert curves(reader, child) == expected, f"from step {step}"
