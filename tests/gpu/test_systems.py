"""Every experiment trains on GPUs, by its real worker: all ranks on one GPU, or spread over two."""

from typing import Any

import pytest

from engine.errors import ConfigError
from engine.experiments.dppo.config import DppoConfig
from tests.gpu.conftest import GpuLab

pytestmark = [pytest.mark.gpu, pytest.mark.processes]
DIGITS: dict[str, Any] = {"dataset": "digits", "batch_size": 100, "checkpoint_every_s": 0}
SERVED = DIGITS | {"trainers": 3, "epochs": 2, "learning_rate": 0.02, "momentum": 0.5}
IMAGES: dict[str, Any] = {"image_size": 32, "classes": 7, "batch_size": 8, "splits": 4, "batches": 3}
SYNC = DIGITS | {"trainers": 2, "rounds": 2}
HOGWILD = {"dataset": "digits", "batch_size": 100, "trainers": 3, "epochs": 2, "overwrites_every": 5}
PLAYED = {"observers": 2, "episodes": 2, "steps": 40}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("reference", DIGITS | {"epochs": 2}),
        ("parameter_server", SERVED | {"batch_update_size": 3}),
        ("parameter_server", SERVED | {"batch_update_size": 2, "wire": "bf16"}),
        ("parameter_server", SERVED | {"batch_update_size": 3, "transport": "shared_memory"}),
        ("async_sgd", SERVED | {"rule": "delay_compensated"}),
        ("sync_sgd", SYNC),
        ("sync_sgd", SYNC | {"sync": "elastic", "transport": "rpc"}),
        ("sync_sgd", SYNC | {"sync": "ddp"}),
        ("hogwild", HOGWILD),
        ("hogwild", HOGWILD | {"lock": True, "start_method": "spawn"}),
        ("batched_reinforce", PLAYED),
        ("batched_reinforce", PLAYED | {"mode": "per_call"}),
        ("pipeline", IMAGES | {"mode": "gpipe"}),
        ("pipeline", IMAGES | {"mode": "1f1b", "transport": "shared_memory"}),
        ("pipeline", IMAGES | {"mode": "rpc", "dataset": "digits", "loss": "cross_entropy"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_ranks_train_on_one_gpu(lab: GpuLab, name: str, settings: dict[str, Any]) -> None:
    run_id = lab.start(name, device="cuda", **settings)
    lab.finished(run_id)
    assert set(lab.devices(run_id)) == {"cuda:0"}


@pytest.mark.needs_gpus(2)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("parameter_server", SERVED | {"batch_update_size": 3}),
        ("async_sgd", SERVED),
        ("sync_sgd", SYNC | {"sync": "ddp"}),
        ("pipeline", IMAGES | {"mode": "1f1b"}),
        ("pipeline", IMAGES | {"mode": "rpc"}),
        ("pipeline", IMAGES | {"mode": "torch_pipelining", "dataset": "digits", "loss": "cross_entropy"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ranks_train_on_two_gpus(lab: GpuLab, name: str, settings: dict[str, Any]) -> None:
    run_id = lab.start(name, (0, 1), device="cuda", **settings)
    lab.finished(run_id)
    assert set(lab.devices(run_id)) == {"cuda:0", "cuda:1"}


@pytest.mark.needs_gpus(2)
@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_run_uses_its_own_gpu_and_no_other(lab: GpuLab, start_method: str) -> None:
    """Its one GPU is `cuda:0` for torch, whichever of the machine's it is; shared tensors must not open another."""
    run_id = lab.start("hogwild", (1,), device="cuda", start_method=start_method, **HOGWILD | {"epochs": 60})
    lab.finished(run_id)
    seen = {sample.source for sample in lab.samples(run_id) if sample.name == "other_processes"}
    assert seen in ({"gpu1"}, set()), "in a container NVML may show no process at all"


def test_a_server_on_a_gpu_trains_as_one_on_the_cpu(lab: GpuLab) -> None:
    """No request may read weights that an earlier one still writes: the net has no dropout, so the losses agree."""
    settings = {"model": "small_resnet", "trainers": 3, "batch_update_size": 3, "iterations": 6, "batch_size": 4}
    last = {}
    for gpus in ((), (0,)):
        run_id = lab.start("parameter_server", gpus, learning_rate=0.01, checkpoint_every_s=0, **settings)
        lab.finished(run_id)
        last[gpus] = lab.last(run_id, "train/loss")
    assert last[0,] == pytest.approx(last[()], rel=0.02)


def test_dppo_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="device must be auto or cpu here, got 'cuda': the networks are too small"):
        DppoConfig.check({"device": "cuda"})


def test_nccl_is_refused_where_stages_share_a_gpu(lab: GpuLab) -> None:
    run = lab.ended(lab.start("pipeline", device="cuda", mode="torch_pipelining", **IMAGES))
    assert "needs a GPU for each of the 2 stages (NCCL needs one GPU per rank), but the run has 1" in run.cause


def test_the_load_of_a_runs_gpu_is_recorded_and_its_worker_is_no_other_program(lab: GpuLab) -> None:
    run_id = lab.start("hogwild", device="cuda", **HOGWILD | {"epochs": 60})
    lab.finished(run_id)
    found: dict[str, list[float]] = {}
    for sample in lab.samples(run_id):
        if sample.source == "gpu0":
            found.setdefault(sample.name, []).append(sample.value)
    assert max(found["memory_mb"]) > 0 and "clock_mhz" in found
    assert not any(found.get("other_processes", [])), "run this test while nothing else computes on GPU 0"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("reference", (0,), (0,)),
        ("reference", (0,), ()),
        ("reference", (), (0,)),
        ("sync_sgd", (0,), (0,)),
        ("sync_sgd", (0,), ()),
        ("sync_sgd", (), (0,)),
        ("parameter_server", (0,), ()),
    ],
)
def test_a_run_goes_on_from_its_checkpoint_on_the_same_device_or_another(
    lab: GpuLab, name: str, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    long = {"rounds": 100, "trainers": 2} if name == "sync_sgd" else {"epochs": 60}
    settings = DIGITS | long | {"checkpoint_every_s": 0.05, "evaluate_every": 0}
    first = lab.start(name, before, **settings)
    lab.stop_after_checkpoint(first)
    second = lab.go_on(first, after)
    lab.finished(second)
    assert set(lab.devices(second)) == {"cuda:0" if after else "cpu"}
