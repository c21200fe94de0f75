"""Whole runs of the server methods in real processes, on every transport: exact where they must be, and alive when
others die.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from engine.data.nets import FlatSgd
from engine.data.sets import load
from engine.errors import RankFailed
from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.recorder import MemoryRecorder
from engine.registry import method
from engine.runtime.worker.ranks import Ranks
from engine.seeding import ORDER, WEIGHTS, seed_of
from engine.training.flat_net import FlatNet
from engine.training.server_run import exchange_with_server
from engine.training.settings import ServerConfig
from engine.training.workload import PartitionedData, RandomImages
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments import plain_sgd
from tests.experiments.grids import grid
from tests.experiments.servers import server_functions as functions
from tests.rank_logs import rounds_of

pytestmark = pytest.mark.processes
TRANSPORTS = ("rpc", "shared_memory")
NAMES = ("parameter_server", "async_sgd")
CONFIGS: dict[str, type[ServerConfig]] = {"parameter_server": ParameterServerConfig, "async_sgd": AsyncSgdConfig}
COMMON: dict[str, Any] = {
    "dataset": "digits",
    "epochs": 1,
    "batch_size": 32,
    "learning_rate": 0.05,
    "momentum": 0.5,
    "threads_per_rank": 1,
    "seed": 7,
    "checkpoint_every_s": 0,
    "device": "cpu",
}
LONG = partial(pytest.param, marks=pytest.mark.long)
"""A pair of which each half is in another test that is not long."""


def config_of(name: str, trainers: int, **changes: Any) -> ServerConfig:
    whole = {"batch_update_size": trainers} if name == "parameter_server" else {}
    return CONFIGS[name].check(COMMON | {"trainers": trainers} | whole | changes)


def ranks_of(config: ServerConfig, folder: Path, resume_from: Path | None = None) -> tuple[Ranks, MemorySink]:
    sink = MemorySink()
    return process_ranks(
        config.roles, ("cpu",) * len(config.roles), 1, config.seed, folder, sink, resume_from=resume_from
    ), sink


def run_with(
    name: str, config: ServerConfig, workload: PartitionedData, folder: Path, resume_from: Path | None = None
) -> tuple[dict[str, Any], MemorySink]:
    """Run the method on another workload; return how the server ended."""
    ranks, sink = ranks_of(config, folder, resume_from)
    ranks.run(
        functions.take_part,
        name,
        config,
        exchange_with_server(config, workload, "cpu"),
        workload,
        expendable=config.expendable,
    )
    return torch.load(folder / "end.pt"), sink


def run_in_threads(
    name: str, config: ServerConfig, workload: PartitionedData, folder: Path, resume_from: Path | None = None
) -> tuple[dict[str, Any], MemoryRecorder]:
    """Run the method on another workload in threads of this process; return how the server ended, and what the first
    trainer recorded.
    """
    folder.mkdir(exist_ok=True)
    ranks = LocalRanks(config.roles, seed=config.seed, folder=folder, resume_from=resume_from)
    ranks.run(functions.take_part, name, config, exchange_with_server(config, workload, "cpu"), workload)
    return torch.load(folder / "end.pt"), ranks.recorders["trainer1"]


def frozen(config: ServerConfig) -> functions.Frozen:
    return functions.Frozen(load("digits"), config.trainers, config.batch_size, config.epochs)


@grid(name=NAMES, transport=TRANSPORTS)
def test_one_trainer_is_plain_sgd(tmp_path: Path, name: str, transport: str) -> None:
    config = config_of(name, 1, transport=transport, schedule="linear")
    ranks, sink = ranks_of(config, tmp_path)
    method(name)(config, ranks)
    textbook = partial(plain_sgd.train, seed=7, epochs=1, batch_size=32, learning_rate=0.05, momentum=0.5)
    expected, _ = textbook("digits", schedule="linear")
    assert sink.values("train/loss", 1) == expected
    assert sink.progress == (1437, 1437, "samples")
    assert sink.values("perf/exchanged")[-1] == pytest.approx((1 + 2 * 45) * 21_840 * 4 / 1e6), (
        "a fetch, and weights for each gradient"
    )
    assert len(sink.values("test/accuracy", 0)) == 1
    assert rounds_of(tmp_path) == {"ps": ["update 45"], "trainer1": ["epoch 1 of 1"]}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_n_trainers_of_batch_b_are_one_process_of_batch_n_times_b(tmp_path: Path, transport: str) -> None:
    config = config_of("parameter_server", 3, transport=transport)
    workload = frozen(config)
    ended, sink = run_with("parameter_server", config, workload, tmp_path)
    assert torch.allclose(ended["state"], one_process(workload, config), atol=1e-5)
    assert ended["version"] == 15
    assert not any(sink.values("perf/staleness"))


def one_process(workload: PartitionedData, config: ServerConfig) -> Tensor:
    """Return the weights after SGD on the union of all trainers' mini-batches."""
    flat = FlatNet(workload.net(seed_of(config.seed, WEIGHTS)), nll_loss)
    optimizer = FlatSgd(flat.weights, flat.gradient, config.learning_rate, config.momentum)
    feeds = [workload.batches(number, seed_of(config.seed, ORDER, number - 1), 0) for number in (1, 2, 3)]
    for batches in zip(*feeds, strict=True):
        flat.compute_gradient(
            torch.cat([images for images, _ in batches]), torch.cat([labels for _, labels in batches])
        )
        optimizer.step()
    return flat.weights


@pytest.mark.parametrize("transport", [LONG("rpc"), "shared_memory"])
def test_a_killed_trainer_ends_a_synchronous_run_with_its_name(tmp_path: Path, transport: str) -> None:
    config = config_of("parameter_server", 3, transport=transport, kill_trainer=2, kill_at_step=3)
    ranks, sink = ranks_of(config, tmp_path)
    with pytest.raises(RankFailed, match=r"trainer2 \(rank 2, pid \d+\) was killed by signal 9"):
        method("parameter_server")(config, ranks)
    assert (
        "trainer killed",
        "trainer2 killed itself at step 3, as set by kill_trainer and kill_at_step.",
    ) in sink.events


@grid(name=NAMES[::-1], transport=TRANSPORTS)
def test_an_asynchronous_run_goes_on_without_a_killed_trainer(tmp_path: Path, name: str, transport: str) -> None:
    fewer = {"batch_update_size": 2} if name == "parameter_server" else {}
    config = config_of(name, 3, transport=transport, kill_trainer=2, kill_at_step=3, **fewer)
    ranks, sink = ranks_of(config, tmp_path)
    method(name)(config, ranks)
    assert [kind for kind, _ in sink.events] == ["trainer killed", "rank lost"]
    assert [len(sink.values("train/loss", index)) for index in (1, 3)] == [15, 15]
    assert [sink.rows[index].state for index in range(4)] == ["done", "done", "failed", "done"]
    assert sink.values("test/accuracy", 0)


def test_a_stopped_trainer_fails_a_synchronous_run_and_is_left_behind_by_any_other(tmp_path: Path) -> None:
    """Both at once: each does little but wait out its timeout_s."""

    def run(name: str, transport: str) -> tuple[dict[str, Any], MemorySink]:
        config = config_of(name, 2, transport=transport, timeout_s=8)
        (folder := tmp_path / name).mkdir()
        return run_with(name, config, functions.Stopping(load("digits"), 2, config.batch_size, config.epochs), folder)

    with ThreadPoolExecutor() as pool:
        needed, free = pool.submit(run, "parameter_server", "rpc"), pool.submit(run, "async_sgd", "shared_memory")
    with pytest.raises(RankFailed, match=r"trainer2 sent nothing for 8 s \(timeout_s\) after step 2"):
        needed.result()
    ended, sink = free.result()
    assert ended["steps"] == [23, 2]
    assert [kind for kind, _ in sink.events] == ["trainer silent", "rank left behind"]


@pytest.mark.long
def test_an_asynchronous_run_goes_on_without_a_stopped_trainer(tmp_path: Path) -> None:
    config = config_of("async_sgd", 2, transport="rpc", timeout_s=8)
    workload = functions.Stopping(load("digits"), 2, config.batch_size, config.epochs)
    ended, sink = run_with("async_sgd", config, workload, tmp_path)
    assert ended["steps"] == [23, 2]
    assert [kind for kind, _ in sink.events] == ["trainer silent", "rank left behind"]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(tmp_path: Path, name: str) -> None:
    once, twice = config_of(name, 1, transport="shared_memory"), config_of(name, 1, transport="shared_memory", epochs=2)
    whole, _ = run_in_threads(name, twice, frozen(twice), tmp_path / "whole")
    run_in_threads(name, once, frozen(once), tmp_path / "first")
    resumed, trainer = run_in_threads(
        name, twice, frozen(twice), tmp_path / "second", resume_from=tmp_path / "first" / "end.pt"
    )
    assert torch.equal(resumed["state"], whole["state"])
    assert resumed["steps"] == whole["steps"] == [90]
    points = [point for point in trainer.points if point.name == "train/loss"]
    assert [point.step for point in points] == list(range(46, 91))
    assert points[-1].passes == 2.0


@pytest.mark.parametrize("name", NAMES)
def test_the_last_checkpoint_stands_when_the_loss_becomes_nan(tmp_path: Path, name: str) -> None:
    config = config_of(name, 2, transport="shared_memory", checkpoint_every_s=0.001)
    poisoned = functions.Poisoned(load("digits"), config.trainers, config.batch_size, config.epochs, tmp_path)
    with pytest.raises(
        RankFailed, match=r"trainer\d's loss became nan at step 4. Lower learning_rate \(0.05\) or momentum \(0.5\)"
    ):
        run_with(name, config, poisoned, tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt")
    assert saved["state"].isfinite().all()
    assert saved["version"] > 0


@pytest.mark.long
def test_twenty_ranks_start_over_rpc(tmp_path: Path) -> None:
    config = config_of("async_sgd", 19, transport="rpc")
    ranks, sink = ranks_of(config, tmp_path)
    method("async_sgd")(config, ranks)
    assert {row.state for row in sink.rows.values()} == {"done"}


def test_a_narrow_wire_trains_too(tmp_path: Path) -> None:
    narrow, wide = (config_of("async_sgd", 1, transport="shared_memory", wire=wire) for wire in ("bf16", "float32"))
    ended, ours = run_in_threads("async_sgd", narrow, frozen(narrow), tmp_path / "narrow")
    exact, theirs = run_in_threads("async_sgd", wide, frozen(wide), tmp_path / "wide")
    assert 2 * ours.bytes == theirs.bytes
    assert not torch.equal(ended["state"], exact["state"])
    assert torch.allclose(ended["state"], exact["state"], atol=0.05)


def test_dropped_gradients_are_counted_up_to_the_end(tmp_path: Path) -> None:
    config = config_of("parameter_server", 3, batch_update_size=2, late="drop", transport="shared_memory")
    ranks, sink = ranks_of(config, tmp_path)
    method("parameter_server")(config, ranks)
    dropped = sink.values("perf/gradients_dropped", 0)
    updates = max(point.step for batch in sink.batches for point in batch.points if point.name == "test/accuracy")
    assert dropped == sorted(dropped) and updates <= 45 - dropped[-1] <= 2 * updates


def test_every_push_is_one_entry_of_its_trainers_histogram_and_phases_are_parts_of_the_execution_time(
    tmp_path: Path,
) -> None:
    config = config_of("async_sgd", 3, transport="shared_memory")
    ranks, sink = ranks_of(config, tmp_path)
    method("async_sgd")(config, ranks)
    counts = {
        index: sum(count for batch in sink.batches if batch.rank == index for count in batch.histograms.values())
        for index in (1, 2, 3)
    }
    assert counts == {1: 15, 2: 15, 3: 15}
    assert len(sink.values("perf/staleness")) == 45
    assert len(sink.values("perf/staleness_mean", 0)) == len(sink.values("perf/staleness_p99", 0)) == 1
    assert not sink.values("perf/gradients_dropped", 0)
    for phases in sink.phases().values():
        own = sum(seconds for name, seconds in phases.items() if name != "serve")
        assert ranks.execution_time_s is not None
        assert own <= ranks.execution_time_s * 1.02
        assert all(seconds >= -1e-6 for seconds in phases.values())


# ---- batch-norm and the tutorial -----------------------------------------------------------------------------------


def test_running_statistics_travel_with_the_weights(tmp_path: Path) -> None:
    config = config_of(
        "parameter_server", 1, transport="shared_memory", model="small_resnet", iterations=2, batch_size=2
    )
    ranks = LocalRanks(config.roles, seed=config.seed, folder=tmp_path)
    method("parameter_server")(config, ranks)
    workload = RandomImages("small_resnet", 1, 2, 2)
    flat = FlatNet(workload.net(seed_of(7, WEIGHTS)), workload.loss)
    optimizer = FlatSgd(flat.weights, flat.gradient, config.learning_rate, config.momentum)
    losses = []
    for images, targets in workload.batches(1, seed_of(7, ORDER), 0):
        losses.append(flat.compute_gradient(images, targets))
        optimizer.step()
    assert ranks.recorders["trainer1"].values("train/loss") == pytest.approx(losses, rel=1e-4)
    fresh = dict(workload.net(seed_of(7, WEIGHTS)).named_buffers())
    mean = next(name for name in fresh if name.endswith("running_mean"))
    assert not torch.equal(dict(flat.module.named_buffers())[mean], fresh[mean])
    assert torch.equal(flat.statistics[:64], dict(flat.module.named_buffers())[mean])


@pytest.mark.parametrize(
    ("trainers", "batch", "batch_size", "steps"),
    [(2, 2, 718, [1, 2]), LONG(2, 1, 256, [3, 3]), LONG(4, 3, 32, [12, 12, 12, 12])],
)
def test_the_tutorial_variant_trains_the_same_method_and_waits_for_no_trainer_that_is_done(
    tmp_path: Path, trainers: int, batch: int, batch_size: int, steps: list[int]
) -> None:
    name = "parameter_server" if batch > 1 else "async_sgd"
    whole = {"batch_update_size": batch} if batch > 1 else {}
    config = config_of(name, trainers, variant="tutorial", start_method="spawn", batch_size=batch_size, **whole)
    ranks, sink = ranks_of(config, tmp_path)
    ranks.context = replace(ranks.context, start_method="forkserver")  # spawn is the same, four times as slow to start
    from engine.training import tutorial_server  # loads torchvision, which takes seconds

    tutorial_server.run(config, ranks, PartitionedData(load("digits"), trainers, batch_size, 1), batch)
    assert [len(sink.values("train/loss", index)) for index in range(1, trainers + 1)] == steps
    assert all(0 < loss < 3 for loss in sink.values("train/loss"))
    assert len(sink.values("test/accuracy", 0)) == 1


def test_a_tutorial_run_goes_on_without_a_killed_trainer_where_an_update_does_not_need_it(tmp_path: Path) -> None:
    config = config_of(
        "async_sgd", 2, variant="tutorial", start_method="spawn", batch_size=256, kill_trainer=1, kill_at_step=2
    )
    ranks, sink = ranks_of(config, tmp_path)
    ranks.context = replace(ranks.context, start_method="forkserver")
    method("async_sgd")(config, ranks)
    assert [kind for kind, _ in sink.events] == ["trainer killed", "rank lost"]
    assert len(sink.values("train/loss", 2)) == 3
    assert len(sink.values("test/accuracy", 0)) == 1


def test_the_tutorials_module_learns_what_the_engines_weights_learn(tmp_path: Path) -> None:
    config = config_of(
        "parameter_server",
        1,
        variant="tutorial",
        start_method="spawn",
        model="small_resnet",
        iterations=2,
        batch_size=2,
    )
    ranks, sink = ranks_of(config, tmp_path)
    ranks.context = replace(ranks.context, start_method="forkserver")
    method("parameter_server")(config, ranks)
    workload = RandomImages("small_resnet", 1, 2, 2)
    net, losses = workload.net(7), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    for images, targets in workload.batches(1, 7, 0):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(images), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert sink.values("train/loss", 1) == pytest.approx(losses, rel=1e-3)
