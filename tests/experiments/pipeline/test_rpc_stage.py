"""How a stage of mode rpc orders forwards that come in several threads, and accounts for backwards that come in two at
a time.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.partition import Stage
from engine.experiments.pipeline.rpc.stage import ForwardTurns, OpenBackwards, StageService
from tests.doubles import lone_rank


class Work:
    """Writes down what begins and ends, and whether two pieces of work were ever on at one time."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.on: list[int] = []
        self.most = 0

    @contextmanager
    def __call__(self, micro_batch: int) -> Iterator[None]:
        self.told.append(f"+{micro_batch}")
        self.on.append(micro_batch)
        self.most = max(self.most, len(self.on))
        yield
        self.told.append(f"-{micro_batch}")
        self.on.remove(micro_batch)


class Reference:
    """Stands for a remote reference to activations that are there at once."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def to_here(self) -> Tensor:
        return self.value


def test_forwards_go_in_order_whichever_thread_comes_first(tmp_path: Path) -> None:
    config = PipelineConfig.check(
        {
            "mode": "rpc",
            "model": "small_resnet",
            "splits": 4,
            "batch_size": 8,
            "image_size": 32,
            "batch_norm": "micro_batch",
        }
    )
    inputs = [torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(number)) for number in range(4)]
    plain, norm = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    for each in inputs:
        plain(each)
    rank = lone_rank(tmp_path, "stage1", 1, 3)
    stage = StageService(rank, Stage(config, 0, [[norm]], rank.device))
    threads = [
        threading.Thread(target=stage.forward, args=(Reference(inputs[number]), number)) for number in (3, 1, 2, 0)
    ]
    for thread in threads:
        thread.start()
        thread.join(0.2 if thread is not threads[-1] else 20)  # each comes before the next one is asked
    for thread in threads:
        thread.join(20)
    stage.check()
    assert torch.equal(norm.running_mean, plain.running_mean)
    assert torch.equal(norm.running_var, plain.running_var)


def test_torch_finds_no_tensor_of_a_stage_to_wait_for(tmp_path: Path) -> None:
    """With GPUs it pickles the stage that a reference names, to find some; a stage holds what can't be pickled."""
    config = PipelineConfig.check({"mode": "rpc"})
    rank = lone_rank(tmp_path, "stage1", 1, 3)
    stage = StageService(rank, Stage(config, 0, [[nn.Linear(2, 2)]], rank.device))
    assert torch._jit_internal._extract_tensors(stage) == []


def test_a_forward_that_fails_holds_up_no_other() -> None:
    turns = ForwardTurns(2)
    with pytest.raises(ValueError, match="no"), turns.of(0):
        raise ValueError("no")
    with turns.of(1), pytest.raises(ValueError, match="never"):
        raise ValueError("never")
    with turns.of(0):
        pass


def told(*happened: int) -> str:
    """Return what is written down where micro-batch n's backward begins (n) and ends (-n), in that order."""
    work = Work()
    backwards = OpenBackwards(work)
    for one in happened:
        backwards.begin(one) if one > 0 else backwards.end(-one)
    return " ".join(work.told)


def test_one_after_the_other_are_two_pieces_of_work() -> None:
    assert told(1, -1, 2, -2) == "+1 -1 +2 -2"


def test_one_that_is_left_for_another_goes_on_behind_it() -> None:
    assert told(1, 2, -2, -1) == "+1 -1 +2 -2 +1 -1"


def test_one_that_ends_beside_another_leaves_that_one_its_time() -> None:
    assert told(1, 2, -1, -2) == "+1 -1 +2 -2"
    assert told(1, 2, 3, -2, -3, -1) == "+1 -1 +2 -2 +3 -3 +1 -1"


def test_two_threads_lose_none_and_no_moment_counts_twice() -> None:
    work = Work()
    backwards = OpenBackwards(work)

    def carry_out(first: int) -> None:
        order = random.Random(first)
        for micro_batch in range(first, 4000, 2):
            backwards.begin(micro_batch)
            if order.random() < 0.5:
                backwards.begin(micro_batch + 10_000)
                backwards.end(micro_batch + 10_000)
            backwards.end(micro_batch)

    threads = [threading.Thread(target=carry_out, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (work.on, work.most) == ([], 1)
    assert {line[1:] for line in work.told} >= {str(micro_batch) for micro_batch in range(4000)}
