"""What makes synchronous SGD right, exactly: one trainer is plain SGD, N that average gradients are one with N times
the batch.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.nets import bind, flat_weights, mnist_net
from engine.data.sets import load
from engine.errors import RankFailed, RunFailed
from engine.experiments.sync_sgd import trainer as sync_trainer
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.trainer import PartBatches, SyncTrainer
from engine.registry import experiment, method
from engine.runtime.rank.rank import load_checkpoint
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.seeding import ORDER, WEIGHTS, seed_of
from engine.system.checkpoint_state import last_checkpoint
from engine.training.workload import partition
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments import plain_sgd
from tests.experiments.sync_sgd import sync_functions
from tests.experiments.test_trainers import times_of
from tests.rank_logs import rounds_of

THREE = {"trainers": 3, "rounds": 2, "batch_size": 100}
SHORT: dict[str, Any] = {
    "dataset": "digits",
    "rounds": 2,
    "batch_size": 100,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "keep_optimizer": True,
    "seed": 7,
    "threads_per_rank": 1,
    "checkpoint_every_s": 1e-6,
    "timeout_s": 30,
}
"""With a checkpoint after each round, the last of which holds the weights at the end."""
AVERAGED_BY_DILOCO = {"sync": "diloco", "outer_learning_rate": 1, "outer_momentum": 0}
"""With which an outer step goes to the mean."""


@dataclass
class With:
    """Ranks that carry out another function in place of the method's own."""

    ranks: Any
    function: Callable[..., None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ranks, name)

    def run(self, function: Callable[..., None], *shared: Any) -> None:
        self.ranks.run(self.function, *shared)


def in_threads(folder: Path, resume_from: Path | None = None, **changes: Any) -> LocalRanks:
    """Train in threads of this process."""
    config = SyncSgdConfig.check(SHORT | {"transport": "shared_memory"} | changes)
    folder.mkdir(exist_ok=True)
    ranks = LocalRanks(config.roles, seed=config.seed, folder=folder, resume_from=resume_from)
    method("sync_sgd")(config, ranks)
    return ranks


def in_processes(
    folder: Path, function: Callable[..., None] | None = None, *, more: dict[str, Any] | None = None, **changes: Any
) -> tuple[Ranks, MemorySink]:
    """Train in real processes."""
    config, sink = SyncSgdConfig.check(SHORT | changes), MemorySink()
    ranks = process_ranks(
        config.roles, ("cpu",) * config.trainers, 1, config.seed, folder, sink, config.start_method, **(more or {})
    )
    method("sync_sgd")(config, With(ranks, function) if function else ranks)
    return ranks, sink


def center_of(folder: Path) -> Tensor:
    found: Tensor = load_checkpoint(folder / "checkpoint.pt")["center"]
    return found


@pytest.fixture
def sober(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn dropout off: threads draw from one generator, in any order."""
    monkeypatch.setattr(sync_trainer, "model_net", sync_functions.sober_model)


# ---- equal to plain SGD ---------------------------------------------------------------------------------------------


@cache
def plainly() -> tuple[list[float], dict[str, Tensor]]:
    return plain_sgd.train("digits", seed=7, epochs=2, batch_size=100, learning_rate=0.05, momentum=0.9)


def assert_plain(losses: list[float], folder: Path) -> None:
    expected, weights = plainly()
    net = mnist_net(0)
    bind(net, center_of(folder))
    assert losses == expected
    assert all(torch.equal(tensor, weights[key]) for key, tensor in net.state_dict().items())


@pytest.mark.ranks
@pytest.mark.parametrize(
    "changes",
    [{}, {"average_every": 3, "rounds": 10}, {"sync": "gradients"}, {"transport": "gloo"}, AVERAGED_BY_DILOCO],
    ids=str,
)
def test_one_trainer_is_plain_sgd(tmp_path: Path, changes: dict[str, Any]) -> None:
    ranks = in_threads(tmp_path, trainers=1, **changes)
    assert_plain(ranks.recorders["trainer1"].values("train/loss"), tmp_path)


@pytest.mark.processes
@pytest.mark.parametrize(
    "changes", [pytest.param({"sync": "ddp"}, marks=pytest.mark.long), {"transport": "rpc"}], ids=str
)
def test_one_trainer_in_a_process_of_its_own_is_plain_sgd(tmp_path: Path, changes: dict[str, Any]) -> None:
    _, sink = in_processes(tmp_path, trainers=1, **changes)
    assert_plain(sink.values("train/loss"), tmp_path)


@cache
def all_batches_at_once() -> Tensor:
    """Return the weights of one process whose mini-batches are those of all trainers together."""
    config = SyncSgdConfig.check(SHORT | THREE)
    data, net = load(config.dataset), sync_functions.sober_net(seed_of(config.seed, WEIGHTS))
    weights = flat_weights(net)
    gradient, velocity = bind(net, weights), torch.zeros_like(weights)
    every = [PartBatches(config, data, index, seed_of(config.seed, ORDER, index)) for index in range(config.trainers)]
    for step in range(config.rounds * every[0].longest_steps):
        batches = [part.next_batch() for part in every if step % part.longest_steps < part.steps]
        gradient.zero_()
        nll_loss(
            net(torch.cat([images for images, _ in batches])), torch.cat([labels for _, labels in batches])
        ).backward()
        velocity.mul_(config.momentum).add_(gradient)
        weights.sub_(velocity, alpha=config.learning_rate)
    return weights


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
@pytest.mark.parametrize("transport", ["shared_memory", "gloo"])
def test_averaged_gradients_are_those_of_one_process_with_all_batches(tmp_path: Path, transport: str) -> None:
    in_threads(tmp_path, sync="gradients", transport=transport, **THREE)
    assert (center_of(tmp_path) - all_batches_at_once()).abs().max() < 1e-5


@pytest.mark.processes
@pytest.mark.parametrize("changes", [{"sync": "ddp"}, {"sync": "gradients", "transport": "rpc"}], ids=str)
def test_averaged_gradients_in_processes_are_those_of_one_process(tmp_path: Path, changes: dict[str, Any]) -> None:
    _, sink = in_processes(tmp_path, sync_functions.train_sober, **THREE, **changes)
    mean_of_10 = 10 * (2 * 21_840 * 4) / 1e6
    by_rank = [0.0, mean_of_10, mean_of_10] if "transport" in changes else [mean_of_10 * 2 / 3] * 3
    assert [max([0.0, *sink.values("perf/exchanged", rank)]) for rank in range(3)] == pytest.approx(by_rank)
    assert (center_of(tmp_path) - all_batches_at_once()).abs().max() < 1e-5
    rounds = rounds_of(tmp_path)
    assert len(rounds) == 3
    for lines in rounds.values():
        assert lines == [f"round {number} of {len(lines)}" for number in range(1, len(lines) + 1)] != []


# ---- averaging ------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """A trainer's weights just before a meeting, and what came of them."""

    trainer: SyncTrainer
    local: Tensor
    center: Tensor


@pytest.fixture
def meetings(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """Write down what each trainer has before each meeting of a round."""
    seen: list[Seen] = []
    average = SyncTrainer.average

    def write_and_average(trainer: SyncTrainer, vector: Tensor, *more: Any) -> None:
        seen.append(Seen(trainer, vector.clone(), trainer.global_state.clone()))
        average(trainer, vector, *more)

    monkeypatch.setattr(SyncTrainer, "average", write_and_average)
    return seen


@pytest.mark.ranks
def test_the_global_weights_are_the_mean_of_all_and_the_same_for_all(tmp_path: Path, meetings: list[Seen]) -> None:
    in_threads(tmp_path, trainers=3, rounds=1)
    meetings.sort(key=lambda seen: seen.trainer.part.size)
    assert len({seen.local.sum().item() for seen in meetings}) == 3, "trainers went different ways"
    centers = [seen.trainer.global_state for seen in meetings]
    assert all(torch.equal(centers[0], center) for center in centers)
    assert torch.allclose(centers[0], sum(seen.local for seen in meetings) / 3, rtol=1e-6, atol=1e-8)  # type: ignore[arg-type]


@pytest.mark.ranks
@pytest.mark.parametrize("sync", ["weights", "diloco", "elastic", "gradients"])
def test_no_two_of_all_weights_share_memory(tmp_path: Path, meetings: list[Seen], sync: str) -> None:
    in_threads(tmp_path, trainers=2, rounds=1, sync=sync)
    trainers = {id(seen.trainer): seen.trainer for seen in meetings}.values()
    vectors = [
        vector
        for trainer in trainers
        for vector in (trainer.global_state, trainer.net.state, trainer.net.message, trainer.optimizer.velocity)
    ]
    assert len({vector.untyped_storage().data_ptr() for vector in vectors}) == len(vectors) == 8


@pytest.mark.ranks
def test_elastic_averaging_moves_as_its_formula_says(tmp_path: Path, meetings: list[Seen]) -> None:
    in_threads(tmp_path, trainers=2, rounds=1, sync="elastic", elastic_rate=0.6)
    first, second = meetings
    for seen in meetings:
        expected = seen.local + 0.3 * (seen.center - seen.local)
        assert torch.allclose(seen.trainer.net.state, expected, rtol=1e-6, atol=1e-8)
        assert torch.allclose(
            seen.trainer.global_state, 0.4 * seen.center + 0.6 * (first.local + second.local) / 2, rtol=1e-5, atol=1e-7
        )


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
@pytest.mark.parametrize("changes", [{}, {"optimizer": "adamw", "average_every": 3}], ids=str)
def test_diloco_with_outer_rate_1_and_no_outer_momentum_averages_weights_bit_for_bit(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    in_threads(tmp_path / "weights", **THREE | changes)
    in_threads(tmp_path / "diloco", **THREE | changes | AVERAGED_BY_DILOCO)
    assert torch.equal(center_of(tmp_path / "weights"), center_of(tmp_path / "diloco"))


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
def test_diloco_with_one_inner_step_is_synchronous_sgd_also_with_inner_momentum(tmp_path: Path) -> None:
    each_step = {"trainers": 3, "average_every": 1, "rounds": 6}
    gradients = in_threads(tmp_path / "gradients", sync="gradients", **each_step)
    diloco = in_threads(tmp_path / "diloco", **AVERAGED_BY_DILOCO, **each_step)
    assert (center_of(tmp_path / "gradients") - center_of(tmp_path / "diloco")).abs().max() < 1e-5
    sent = [one.bytes for one in (gradients.recorders["trainer2"], diloco.recorders["trainer2"])]
    fewer = in_threads(tmp_path / "fewer", sync="diloco", trainers=3, average_every=3, rounds=2)
    assert sent[0] == sent[1] == 3 * fewer.recorders["trainer2"].bytes > 0


@pytest.mark.ranks
def test_the_outer_step_is_sgd_with_nesterov_momentum_on_the_mean_difference(
    tmp_path: Path, meetings: list[Seen]
) -> None:
    in_threads(tmp_path, trainers=2, rounds=4, sync="diloco", outer_learning_rate=0.6, outer_momentum=0.8)
    center, velocity = meetings[0].center.double(), 0.0
    for one, other in zip(meetings[::2], meetings[1::2], strict=True):
        assert torch.allclose(one.center.double(), center, rtol=1e-5, atol=1e-6)
        difference = center - (one.local.double() + other.local.double()) / 2
        velocity = 0.8 * velocity + difference
        center = center - 0.6 * (difference + 0.8 * velocity)
    assert torch.allclose(center_of(tmp_path).double(), center, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks
def test_a_simulated_link_takes_the_time_of_a_ring_and_is_named(tmp_path: Path) -> None:
    link = {"simulated_bandwidth": 100.0, "simulated_latency_ms": 5.0}
    config = SyncSgdConfig.check(SHORT | {"trainers": 4} | link)
    assert config.link_s(2_500_000, messages=6) == pytest.approx(0.2 + 6 * 0.005)
    ranks = in_threads(tmp_path, trainers=2, rounds=3, average_every=1, transport="gloo", **link)
    vector_s = 21_840 * 4 * 8 / 100e6
    for recorder in ranks.recorders.values():
        slept = [each for each in recorder.operations if each.name == "simulated link"]
        assert len(slept) == 3
        assert recorder.phases["communicate"] >= 3 * (vector_s + 2 * 0.005)


@pytest.mark.ranks
def test_momentum_ends_with_a_round_unless_it_is_kept(tmp_path: Path) -> None:
    kept = in_threads(tmp_path / "kept", trainers=1).recorders["trainer1"].values("train/loss")
    anew = in_threads(tmp_path / "anew", trainers=1, keep_optimizer=False).recorders["trainer1"].values("train/loss")
    assert kept[:16] == anew[:16], "the first step of the second round starts from the same weights"
    assert kept[16] != anew[16]


@pytest.mark.ranks
def test_one_trainer_with_a_schedule_is_plain_sgd(tmp_path: Path) -> None:
    ranks = in_threads(tmp_path, trainers=1, schedule="linear")
    textbook = partial(plain_sgd.train, seed=7, epochs=2, batch_size=100, learning_rate=0.05, momentum=0.9)
    assert ranks.recorders["trainer1"].values("train/loss") == textbook("digits", schedule="linear")[0]


# ---- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["contiguous", "shuffled", "dirichlet"])
@pytest.mark.parametrize("trainers", [1, 4, 7])
def test_parts_are_disjoint_and_cover_the_data(scheme: Any, trainers: int) -> None:
    labels = load("digits").train_labels
    cut = partition(labels, trainers, scheme, alpha=0.2, seed=3)
    assert sorted(torch.cat(cut).tolist()) == list(range(len(labels)))
    assert all(len(part) for part in cut)


def test_a_round_takes_each_sample_of_the_part_once() -> None:
    config, data = SyncSgdConfig.check(SHORT | {"trainers": 4, "partition": "shuffled"}), load("digits")
    seen = []
    for index in range(4):
        part = PartBatches(config, data, index, index)
        rounds = [[part.next_batch() for _ in range(part.steps)] for _ in range(2)]
        first, second = (torch.cat([images for images, _ in batches]).flatten(1).sum(1) for batches in rounds)
        assert torch.equal(first.sort().values, second.sort().values)
        assert not torch.equal(first, second), "a new order each round"
        assert (len(first), part.samples(part.steps)) == (part.size, part.size)
        seen.append(first)
    assert torch.equal(torch.cat(seen).sort().values, data.train_images.flatten(1).sum(1).sort().values)


def test_a_small_alpha_gives_each_trainer_few_labels() -> None:
    labels = load("digits").train_labels

    def largest_share(alpha: float) -> float:
        cut = partition(labels, 4, "dirichlet", alpha=alpha, seed=1)
        return sum(int(labels[part].bincount().max()) / len(part) for part in cut) / 4

    assert largest_share(0.05) > 0.3 > largest_share(100)


UNEQUAL = {"seed": 1, "trainers": 3, "partition": "dirichlet", "alpha": 0.1, "batch_size": 50}


@pytest.mark.ranks
@pytest.mark.parametrize(
    "changes",
    [{"sync": "weights"}, {"sync": "elastic"}, {"sync": "gradients"}, {"average_every": 4, "rounds": 5}],
    ids=str,
)
def test_unequal_parts_hang_nobody(tmp_path: Path, changes: dict[str, Any]) -> None:
    ranks = in_threads(tmp_path, **UNEQUAL | changes)
    assert len(ranks.recorders["trainer1"].values("test/accuracy")) == changes.get("rounds", 2)
    if "average_every" not in changes:
        assert sum(recorder.done for recorder in ranks.recorders.values()) == 2 * 1437
        assert len({len(recorder.values("train/loss")) for recorder in ranks.recorders.values()}) > 1
    else:
        assert {len(recorder.values("train/loss")) for recorder in ranks.recorders.values()} == {20}
    assert all(recorder.done == recorder.total for recorder in ranks.recorders.values())


@pytest.mark.processes
@pytest.mark.usefixtures("sober")
def test_unequal_parts_hang_no_ddp_which_equals_averaged_gradients(tmp_path: Path) -> None:
    (tmp_path / "ddp").mkdir()
    in_processes(tmp_path / "ddp", sync_functions.train_sober, **UNEQUAL | {"sync": "ddp"})
    in_threads(tmp_path / "gradients", **UNEQUAL | {"sync": "gradients"})
    assert (center_of(tmp_path / "ddp") - center_of(tmp_path / "gradients")).abs().max() < 1e-5


@pytest.mark.long
def test_so_it_does_with_dropout_of_which_idle_trainers_draw_nothing(tmp_path: Path) -> None:
    for sync in ("ddp", "gradients"):
        (tmp_path / sync).mkdir()
        in_processes(tmp_path / sync, **UNEQUAL | {"sync": sync})
    assert (center_of(tmp_path / "ddp") - center_of(tmp_path / "gradients")).abs().max() < 1e-5


# ---- recording ------------------------------------------------------------------------------------------------------


@pytest.mark.ranks
def test_passes_count_the_samples_of_all_and_only_trainer1_tests(tmp_path: Path) -> None:
    ranks = in_threads(tmp_path, trainers=3, rounds=4, evaluate_every=2)
    tested = [point for point in ranks.recorders["trainer1"].points if point.name == "test/accuracy"]
    assert [point.step for point in tested] == [10, 20]
    assert tested[-1].passes == pytest.approx(4.0, abs=0.4)
    assert [bool(recorder.values("test/accuracy")) for recorder in ranks.recorders.values()] == [True, False, False]
    assert set(ranks.recorders["trainer2"].phases) == {"data", "compute", "update", "communicate", "wait"}


@pytest.mark.long
def test_phases_make_up_the_execution_time(tmp_path: Path) -> None:
    ranks, sink = in_processes(tmp_path, trainers=3, rounds=8)
    for rank, time_s in enumerate(times_of(ranks)):
        phases = sink.phases()[rank]
        assert sum(phases.values()) == pytest.approx(time_s, rel=0.02)
        assert min(phases.values()) >= 0


# ---- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("sync", [pytest.param("weights", marks=pytest.mark.long), "ddp"])
def test_a_killed_trainer_fails_the_run_with_its_name(tmp_path: Path, sync: str) -> None:
    with pytest.raises(RankFailed, match=r"trainer2 \(rank 1, pid \d+\) was killed by signal 9"):
        in_processes(tmp_path, trainers=2, rounds=50, sync=sync, kill_trainer=2, kill_at_step=7)


@pytest.mark.long
def test_a_stopped_trainer_fails_the_run_with_its_name(tmp_path: Path) -> None:
    ranks: list[Ranks] = []

    def stop_when_training() -> bool:
        assert isinstance(ranks[0].sink, MemorySink)
        if ranks[0].sink.values("train/loss", 1):
            os.kill(ranks[0].members[1].pid, signal.SIGSTOP)
        return False

    config = SyncSgdConfig.check(SHORT | {"trainers": 2, "rounds": 10_000, "timeout_s": 8, "sync": "ddp"})
    ranks.append(
        process_ranks(
            config.roles, ("cpu",) * 2, 1, config.seed, tmp_path, MemorySink(), stop_requested=stop_when_training
        )
    )
    with pytest.raises(
        RankFailed, match=r"^trainer2 did not (reach|continue in) the average of step \d+ of round \d+ within 8 s"
    ):
        method("sync_sgd")(config, ranks[0])


@pytest.mark.processes
def test_a_trainer_that_is_stopped_while_torch_agrees_on_what_to_send_together_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        RankFailed,
        match=(
            r"^trainer2 did not reach the average of step 2 of round 1 within 8 s, while others waited\. It is "
            r"stopped\.$"
        ),
    ):
        in_processes(
            tmp_path, sync_functions.train_and_stop_before_the_second_step, trainers=2, sync="ddp", timeout_s=8
        )


@pytest.mark.ranks
def test_a_loss_that_is_no_number_ends_the_run_with_its_cure_and_leaves_a_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(
        RunFailed, match=r"trainer1's loss became (nan|inf) at step \d+.*Lower learning_rate \(10\.0\) or momentum"
    ):
        in_threads(tmp_path, trainers=1, learning_rate=10.0, momentum=0.99, average_every=1, rounds=50, seed=1)
    assert center_of(tmp_path).isfinite().all()


# ---- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.ranks
def test_a_run_of_a_gpu_goes_on_without_one_from_a_new_stream_of_dropout(tmp_path: Path) -> None:
    in_threads(tmp_path / "half", rounds=1, trainers=2)
    path = tmp_path / "half" / "checkpoint.pt"
    state = load_checkpoint(path)
    assert state["random_of"] == "cpu"
    torch.save(state | {"random_of": "cuda", "random": torch.zeros_like(state["random"])}, path)
    rest = in_threads(tmp_path / "rest", resume_from=path, rounds=2, trainers=2)
    assert rest.recorders["trainer1"].values("train/loss")


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
@pytest.mark.parametrize(
    "changes",
    [
        *({"sync": "elastic"}, {"sync": "gradients", "average_every": 4}, {"keep_optimizer": False}, UNEQUAL),
        {"sync": "diloco", "optimizer": "adamw"},
        {"sync": "diloco", "fragments": 2, "overlap": 1, "average_every": 4, "transport": "gloo"},
        {"sync": "gradients", "optimizer": "adamw", "average_every": 4},
    ],
    ids=str,
)
def test_a_run_goes_on_from_a_round_as_if_it_had_not_ended(tmp_path: Path, changes: dict[str, Any]) -> None:
    changes = {"trainers": 2, "evaluate_every": 1} | changes
    whole = in_threads(tmp_path / "whole", rounds=2, **changes)
    in_threads(tmp_path / "half", rounds=1, **changes)
    rest = in_threads(tmp_path / "rest", resume_from=tmp_path / "half" / "checkpoint.pt", rounds=2, **changes)
    assert torch.equal(center_of(tmp_path / "whole"), center_of(tmp_path / "rest"))
    for role, recorder in rest.recorders.items():
        steps = [point.step for point in recorder.points if point.name == "train/loss"]
        assert recorder.values("train/loss") == whole.recorders[role].values("train/loss")[-len(steps) :]
        assert steps[-1] == len(whole.recorders[role].values("train/loss"))
        assert recorder.done == recorder.total
    assert rest.recorders["trainer1"].values("test/accuracy") == whole.recorders["trainer1"].values("test/accuracy"), (
        "the test of round 1 again"
    )


@pytest.mark.processes
def test_a_killed_run_goes_on_with_the_same_random_numbers(tmp_path: Path) -> None:
    for name in ("whole", "first", "second"):
        (tmp_path / name).mkdir()
    in_processes(tmp_path / "whole", trainers=2, rounds=4)

    def stop() -> bool:
        found = last_checkpoint(tmp_path / "first")
        return found is not None and found.step >= 16

    with pytest.raises(StopRequested):
        in_processes(
            tmp_path / "first",
            sync_functions.train_up_to_the_third_average,
            trainers=2,
            rounds=4,
            more={"stop_requested": stop},
        )
    kept, found = tmp_path / "first" / "checkpoint.pt", last_checkpoint(tmp_path / "first")
    assert found is not None
    assert load_checkpoint(kept)["round"] == 2
    in_processes(tmp_path / "second", trainers=2, rounds=4, more={"resume_from": kept, "time_before_s": found.time_s})
    assert torch.equal(center_of(tmp_path / "whole"), center_of(tmp_path / "second"))


@pytest.mark.processes
def test_one_start_serves_all_rounds_and_a_checkpoint_stands_for_every_point_up_to_its_round_and_for_none_after(
    tmp_path: Path,
) -> None:
    ranks, sink = in_processes(tmp_path, sync_functions.train_and_write_pids, trainers=2, rounds=3, evaluate_every=1)
    for member in ranks.members:
        assert (tmp_path / f"{member.role}.pids").read_text().split() == [str(member.pid)] * 3
    found = last_checkpoint(tmp_path)
    assert found is not None
    for rank in (0, 1):
        points = [point for batch in sink.batches if batch.rank == rank for point in batch.points]
        assert [point.step for point in points if point.name == "train/loss" and point.time_s <= found.time_s] == list(
            range(1, 25)
        )
        assert all(
            point.time_s > found.time_s for point in points if point.name == "test/accuracy" and point.step == 24
        )


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_quick_keeps_its_promise_over_ten_seeds(tmp_path: Path) -> None:
    floor = experiment("sync_sgd").preset("quick").expects["test/accuracy"]
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        _, sink = in_processes(
            tmp_path / str(seed), **dict(experiment("sync_sgd").preset("quick").settings) | {"seed": seed}
        )
        assert sink.values("test/accuracy")[-1] >= floor, f"seed {seed}"
