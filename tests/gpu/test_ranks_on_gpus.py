"""Ranks on GPUs: what they share, how they sum, and what is said when a GPU fails them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import RankFailed
from engine.registry import method
from tests.doubles import MemorySink, process_ranks
from tests.experiments.pipeline.test_pipeline import Keeping, config_of, in_one_piece, ranks_for
from tests.gpu import gpu_functions as functions

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
ROUNDING = 1e-3
"""The share by which gradients on a GPU and on the CPU may differ, both with float32's 23 bits."""


def run(folder: Path, devices: tuple[str, ...], function: Callable[..., None], *given: Any, **changes: Any) -> None:
    """Call the function in one rank on each device."""
    roles = tuple(f"trainer{number}" for number in range(1, len(devices) + 1))
    visible = ",".join(sorted({device.partition(":")[2] for device in devices}))
    process_ranks(roles, devices, 1, 5, folder, MemorySink(), visible_gpus=visible, **changes).run(function, *given)


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_tensor_on_a_gpu_is_one_for_all_ranks(start_method: str, tmp_path: Path) -> None:
    shared = torch.zeros(1000, device="cuda:0")
    run(tmp_path, ("cuda:0",) * 3, functions.add_under_lock, shared, 50, start_method=start_method)
    assert shared.unique().tolist() == [150.0]


@pytest.mark.parametrize(
    ("backend", "devices"),
    [
        ("gloo", ("cuda:0", "cuda:0")),
        pytest.param("gloo", ("cuda:0", "cuda:1"), marks=pytest.mark.needs_gpus(2)),
        pytest.param("nccl", ("cuda:0", "cuda:1"), marks=pytest.mark.needs_gpus(2)),
    ],
)
def test_ranks_sum_by_gloo_on_one_gpu_and_by_nccl_on_one_each(
    backend: str, devices: tuple[str, ...], tmp_path: Path
) -> None:
    run(tmp_path, devices, functions.sum_by, backend)


def test_nccl_refuses_two_ranks_on_one_gpu(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match=r"(?is)^trainer[12] raised .*nccl"):
        run(tmp_path, ("cuda:0", "cuda:0"), functions.sum_by, "nccl")


def test_a_rank_that_runs_out_of_memory_is_named_with_its_gpu_and_the_cure(tmp_path: Path) -> None:
    with pytest.raises(
        RankFailed,
        match=r"^trainer2 \(rank 1\) ran out of memory on GPU 0: it tried to allocate 4194304\.00 GiB, .* were free\. "
        "Lower batch_size",
    ):
        run(tmp_path, ("cuda:0", "cuda:0"), functions.ask_for_too_much)


def test_a_stage_that_runs_out_of_memory_is_named_with_its_gpu(tmp_path: Path) -> None:
    config = config_of(mode="gpipe", splits=4, batches=2, fault="memory", fault_stage=2, device="cuda")
    ranks = ranks_for(config, tmp_path)
    ranks.context = replace(ranks.context, devices=("cuda:0",) * 2, visible_gpus="0")
    with pytest.raises(RankFailed, match=r"^stage2 ran out of memory allocating .* The memory is that of GPU 0\.$"):
        method("pipeline")(config, ranks)


def test_a_failure_that_the_gpu_reports_after_the_last_call_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="trainer1 raised AcceleratorError: CUDA error: device-side assert triggered"):
        run(tmp_path, ("cuda:0",), functions.fail_after_the_last_call)


@pytest.mark.parametrize("mode", ["gpipe", "1f1b", "rpc"])
def test_gradients_of_two_stages_on_one_gpu_are_those_of_the_net_in_one_piece(mode: str, tmp_path: Path) -> None:
    config = config_of(mode=mode, splits=4, device="cuda")
    ranks = ranks_for(config, tmp_path)
    ranks.context = replace(ranks.context, devices=("cuda:0",) * len(config.roles), visible_gpus="0")
    before, gradient = in_one_piece(config)
    method("pipeline")(config, Keeping(ranks, mode))
    after = torch.cat([torch.load(tmp_path / f"{role}.pt", map_location="cpu")[0] for role in config.stage_roles])
    assert ((before - after) / config.learning_rate - gradient).norm() / gradient.norm() < ROUNDING
