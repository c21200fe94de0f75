"""A run that was killed on its way and resumed ends as one that was not, bit for bit; real processes, killed wherever
they are.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import StoreBusy
from engine.registry import experiment, method
from engine.runtime.rank import rank
from engine.runtime.rank.rank import RunContext
from engine.runtime.worker.rank_monitor import RankMonitor
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.store.records import RankBatch
from engine.system import checkpoint_state
from engine.system.checkpoint_state import last_checkpoint
from tests.checkpoints import lay_former, saver
from tests.doubles import MemorySink
from tests.experiments import resume_functions

SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "epochs": 12,
    "batch_size": 100,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "evaluate_every": 5,
    "threads_per_rank": 1,
}
STEPS = 12 * 15
METRICS = ("train/loss", "test/loss", "test/accuracy")


@dataclass
class KeptRanks(Ranks):
    """Ranks that keep the weights they train, which lie in shared memory, and go no further than to a last step."""

    weights: Tensor = field(default_factory=lambda: torch.empty(0))
    last: int = STEPS + 1

    def run(self, function: Any, *shared: Any, **options: Any) -> None:
        self.weights = next(thing for thing in shared if isinstance(thing, Tensor))
        super().run(resume_functions.go_no_further, self.last, function, *shared, **options)


def train(
    folder: Path, *, until: int | None = None, every_s: float = 0.03, **more: Any
) -> tuple[KeptRanks, dict[str, dict[int, float]]]:
    """Carry out the reference, or kill it once a checkpoint has come to step `until`, and before it is 50 steps on;
    return its ranks and its curves by step.
    """
    config = experiment("reference").config.check(SETTINGS | {"checkpoint_every_s": every_s})

    def stop() -> bool:
        found = last_checkpoint(folder)
        return until is not None and found is not None and found.step >= until

    sink = more.pop("sink", None) or MemorySink()
    context = RunContext(config.roles, ("cpu",), 1, config.seed, folder, **more)
    ranks = KeptRanks(context, sink, stop_requested=stop)
    if until is None:
        method("reference")(config, ranks)
    else:
        ranks.last = until + 49
        with pytest.raises(StopRequested):
            method("reference")(config, ranks)
    points = [point for batch in sink.batches for point in batch.points]
    return ranks, {name: {point.step: point.value for point in points if point.name == name} for name in METRICS}


def go_on(source: Path, target: Path, until: int | None) -> tuple[int, KeptRanks, dict[str, dict[int, float]]]:
    """Resume what was killed in one folder in another; return the step it went on from, and what `train` returns."""
    taken = checkpoint_state.take_checkpoint(source, target)
    assert taken is not None
    path, before = taken
    step = int(rank.load_checkpoint(path)["step"])
    ranks, curves = train(target, until=until, resume_from=path, time_before_s=before.time_s)
    assert min(curves["train/loss"]) == step + 1
    return step, ranks, curves


@pytest.mark.processes
def test_a_run_killed_twice_and_resumed_twice_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole, curves = train(tmp_path / "whole", every_s=0)
    assert len(curves["train/loss"]) == STEPS
    train(tmp_path / "first", until=20)
    _, _, on_the_way = go_on(tmp_path / "first", tmp_path / "second", 70)
    step, ranks, to_the_end = go_on(tmp_path / "second", tmp_path / "third", None)
    assert 70 <= step < STEPS, "it was killed on its way"
    assert len(to_the_end["train/loss"]) == STEPS - step
    for resumed in (on_the_way, to_the_end):
        assert all(curves[metric][step] == value for metric in METRICS for step, value in resumed[metric].items())
    assert torch.equal(ranks.weights, whole.weights)
    before = last_checkpoint(tmp_path / "second")
    assert before is not None
    assert ranks.execution_time_s is not None
    assert ranks.execution_time_s > before.time_s


@pytest.mark.processes
@pytest.mark.parametrize("late_s", [0.0, 0.5])
def test_a_checkpoint_stands_for_every_point_up_to_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """However long after its last look at the rank the worker ends it."""
    end_all = Ranks._end_all

    def end_late(ranks: Ranks, watch: RankMonitor | None) -> None:
        time.sleep(late_s)
        end_all(ranks, watch)

    monkeypatch.setattr(Ranks, "_end_all", end_late)
    ranks, _ = train(tmp_path, until=40)
    assert isinstance(ranks.sink, MemorySink)
    found = last_checkpoint(tmp_path)
    assert found is not None
    losses = [point for batch in ranks.sink.batches for point in batch.points if point.name == "train/loss"]
    assert [point.step for point in losses if point.time_s <= found.time_s][: found.step] == list(
        range(1, found.step + 1)
    )
    assert found.passes == next(point.passes for point in losses if point.step == found.step)


@dataclass
class StrictSink(MemorySink):
    """A store that is busy at every other write, and looks at each whether it has all points of the checkpoint."""

    folder: Path = Path()
    writes: int = 0
    seen: set[int] = field(default_factory=set)

    def write(self, batches: Sequence[RankBatch], *rest: Any) -> None:
        stored = [point.step for batch in self.batches for point in batch.points if point.name == "train/loss"]
        if found := last_checkpoint(self.folder):
            assert stored[: found.step] == list(range(1, found.step + 1)), f"a checkpoint of step {found.step}"
            self.seen.add(found.step)
        self.writes += 1
        if self.writes % 2:
            raise StoreBusy("busy")
        super().write(batches, *rest)


@pytest.mark.processes
def test_a_checkpoint_stands_only_once_the_store_has_every_point_up_to_it(tmp_path: Path) -> None:
    """A worker that is killed takes with it what the ranks have sent to it."""
    sink = StrictSink(folder=tmp_path)
    train(tmp_path, sink=sink)
    found = last_checkpoint(tmp_path)
    assert found is not None and sink.seen | {found.step} > {found.step}
    assert sink.syncs >= len(sink.seen), "a checkpoint survives a power failure, so its points must"
    assert list(tmp_path.glob("*.part")) == []


def test_a_checkpoint_written_on_a_gpu_is_read_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = saver(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:1")
        kept.save({"weights": torch.ones(3)}, step=1, passes=0.5, time_s=1.0)
    weights = rank.load_checkpoint(tmp_path / checkpoint_state.CHECKPOINT)["weights"]
    assert weights.device.type == "cpu" and weights.tolist() == [1.0, 1.0, 1.0]


def test_what_is_written_with_torch_is_found_without_it(tmp_path: Path) -> None:
    path = tmp_path / checkpoint_state.CHECKPOINT
    assert last_checkpoint(tmp_path) is None
    path.write_bytes(b"half")
    assert last_checkpoint(tmp_path) is None
    assert saver(tmp_path, run="abc").save(
        {"weights": torch.ones(3)}, step=7, passes=0.5, time_s=1.25, steps={1: 6, 2: 7}
    )
    found = last_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, found.passes, found.time_s, found.steps, found.run) == (7, 0.5, 1.25, {1: 6, 2: 7}, "abc")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 100])
    assert last_checkpoint(tmp_path) is None
    path.unlink()
    assert last_checkpoint(tmp_path) is None


def test_a_taken_checkpoint_outlives_the_run_it_came_from(tmp_path: Path) -> None:
    kept = saver(tmp_path / "old")
    kept.save({"weights": torch.ones(3)}, step=1, passes=0.5, time_s=1.0)
    checkpoint_state.take_checkpoint(tmp_path / "old", tmp_path / "new")
    taken = checkpoint_state.take_checkpoint(tmp_path / "old", tmp_path / "new")  # as after a worker that died half-way
    assert taken is not None
    kept.save({"weights": torch.zeros(3)}, step=2, passes=1.0, time_s=2.0)
    (tmp_path / "old" / checkpoint_state.CHECKPOINT).unlink()
    assert rank.load_checkpoint(taken[0])["weights"].tolist() == [1.0, 1.0, 1.0]
    assert checkpoint_state.take_checkpoint(tmp_path / "old", tmp_path / "other") is None
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["checkpoint.pt", "resumed.pt"]


@pytest.mark.parametrize("beside", [None, 0.5])
def test_the_two_files_of_an_earlier_version_are_one_checkpoint_even_where_a_kill_left_them_unlike(
    tmp_path: Path, beside: float | None
) -> None:
    lay_former(tmp_path / "old", 22, time_s=1.5, beside=beside)
    found = last_checkpoint(tmp_path / "old")
    assert found is not None and (found.step, found.time_s, found.run, found.is_former) == (22, 1.5, "", True)
    for source, target in (("old", "new"), ("new", "third")):
        taken = checkpoint_state.take_checkpoint(tmp_path / source, tmp_path / target)
        assert taken == (tmp_path / target / "resumed.pt", found)
    saver(tmp_path / "new").save({"weights": torch.zeros(3)}, step=30, passes=0.5, time_s=9.0)
    newer = last_checkpoint(tmp_path / "new")
    assert newer is not None and (newer.step, newer.is_former) == (30, False), "the former position no longer counts"
