"""Hogwild! on sparse logistic regression: one trainer is plain SGD exactly, many learn, and sparsity is measured as the
paper does.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.data.sparse import sparse_problem
from engine.errors import RunFailed
from engine.experiments.hogwild import sparse
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import OverwriteSampler, SparseSgd
from engine.experiments.hogwild.sparse import Indices, delta, omega, rho
from engine.recorder import MemoryRecorder
from engine.registry import experiment, method
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments import plain_sgd
from tests.rank_logs import rounds_of

SPARSE: dict[str, Any] = {"model": "sparse_logistic", "momentum": 0.0}
SMALL: dict[str, Any] = SPARSE | {
    "sparse_samples": 300,
    "sparse_features": 40,
    "sparse_nonzeros": 4,
    "batch_size": 7,
    "learning_rate": 3.0,
    "epochs": 2,
}


class KeptRanks(LocalRanks):
    """Ranks that keep the shared weights for a look at them."""

    def run(self, function: Callable[..., None], *shared: Any, expendable: Any = ()) -> None:
        self.weights = next(
            thing for thing in shared if isinstance(thing, torch.Tensor) and thing.dtype == torch.float32
        )
        super().run(function, *shared)


def carry_out(**changes: Any) -> tuple[MemoryRecorder, KeptRanks]:
    config = HogwildConfig.check(SMALL | {"seed": 5} | changes)
    ranks = KeptRanks(config.roles, seed=config.seed)
    method("hogwild")(config, ranks)
    return ranks.recorders["trainer1"], ranks


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.ranks
@pytest.mark.parametrize("lock", [False, True], ids=["free", "locked"])
def test_one_trainer_is_plain_sgd(lock: bool) -> None:
    recorder, ranks = carry_out(trainers=1, lock=lock)
    train = sparse_problem(300, 40, 4).train
    weights, losses = torch.zeros(40), []
    order = torch.Generator().manual_seed(plain_sgd.drawn(5, 1))
    for _ in range(2):
        for batch in torch.randperm(300, generator=order).split(7):
            indices, values, labels = train.indices[batch], train.values[batch], train.labels[batch]
            margins = labels * (weights[indices] * values).sum(1)
            losses.append(float(torch.nn.functional.softplus(-margins).mean()))
            pulls = -labels * torch.sigmoid(-margins) / len(batch)
            for sample in range(len(batch)):
                for place in range(4):
                    weights[indices[sample, place]] += pulls[sample] * values[sample, place] * -3.0
    assert torch.equal(ranks.weights, weights)
    assert recorder.values("train/loss") == losses


def test_the_gradient_is_that_of_the_dense_loss() -> None:
    train = sparse_problem(100, 30, 5).train
    weights = torch.randn(30, generator=torch.Generator().manual_seed(1)).requires_grad_()
    dense = torch.zeros(100, 30).scatter_(1, train.indices, train.values)
    loss = torch.log1p(torch.exp(-train.labels * (dense @ weights))).mean()
    loss.backward()
    ours, gradient = sparse.sparse_gradient(train, weights.detach())
    assert float(ours) == pytest.approx(loss.item(), rel=1e-5)
    summed = torch.zeros(30).index_add_(0, train.indices.flatten(), gradient.flatten())
    torch.testing.assert_close(summed, weights.grad)


def test_a_step_writes_only_what_its_samples_touch() -> None:
    weights = torch.zeros(10)
    step = SparseSgd(0.5, OverwriteSampler(weights, 1, seed=0))
    step.set_gradient(torch.tensor([[1, 3], [3, 7]]), torch.tensor([[1.0, 2.0], [4.0, -8.0]]))
    step.step()
    assert weights.tolist() == [0, -0.5, 0, -3, 0, 0, 0, 4, 0, 0]


@pytest.mark.ranks
def test_trainers_share_passes_and_only_trainer1_tests_and_tells_the_sparsity() -> None:
    recorder, ranks = carry_out(trainers=3, lock=True)
    assert [point.passes for point in recorder.points if point.name == "test/accuracy"][-1] == 6.0
    rows = sparse_problem(300, 40, 4).train.indices.numpy()
    for name, value in (("omega", 4), ("delta", delta(rows)), ("rho", rho(rows))):
        assert recorder.values(f"theory/{name}") == [value]
    assert [bool(other.values("theory/rho")) for other in ranks.recorders.values()] == [True, False, False]
    assert [bool(other.values("test/loss")) for other in ranks.recorders.values()] == [True, False, False]
    assert set(recorder.phases) == {"data", "compute", "lock", "update", "evaluate", "wait"}


@pytest.mark.processes
def test_two_processes_learn_without_a_lock(tmp_path: Path) -> None:
    config, promised = (
        experiment("hogwild").configure("sparse", {"trainers": 2, "epochs": 3}),
        experiment("hogwild").preset("sparse").expects["test/accuracy"],
    )
    sink = MemorySink()
    method("hogwild")(config, process_ranks(config.roles, ("cpu",) * 2, 1, config.seed, tmp_path, sink))
    assert sink.values("test/accuracy")[-1] >= promised, "half of them would be right by chance, 95 % at best"
    assert sink.progress == (6 * 20_000, 6 * 20_000, "samples")
    assert list(rounds_of(tmp_path).values()) == [[f"epoch {number} of 3" for number in (1, 2, 3)]] * 2


@pytest.mark.ranks
def test_a_loss_that_is_no_number_ends_the_run_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "softplus", lambda margins: margins * math.nan)
    with pytest.raises(RunFailed, match=r"trainer1's loss became nan at step 1.*Lower learning_rate"):
        carry_out(trainers=1)


# ---- what the theorem measures -------------------------------------------------------------------------------------


def by_the_definition(rows: Indices) -> tuple[int, float, float]:
    """Return Ω, Δ and ρ as the paper's formulas say it, at quadratic cost."""
    samples = [set(row) for row in rows.tolist()]
    weights = set().union(*samples)
    return (
        max(map(len, samples)),
        max(sum(weight in sample for sample in samples) for weight in weights) / len(samples),
        max(sum(not sample.isdisjoint(other) for other in samples) for sample in samples) / len(samples),
    )


@pytest.mark.parametrize(
    ("count", "features", "nonzeros"), [(1, 10, 3), (40, 10, 1), (60, 30, 3), (60, 400, 5), (50, 6, 6), (80, 12, 4)]
)
@pytest.mark.parametrize("seed", range(4))
def test_the_three_numbers_are_what_their_definitions_say(count: int, features: int, nonzeros: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = np.array([random.choice(features, nonzeros, replace=False) for _ in range(count)])
    assert (omega(rows), delta(rows), rho(rows)) == by_the_definition(rows)


def test_samples_without_a_common_weight_collide_with_themselves_alone() -> None:
    rows = np.arange(20).reshape(5, 4)
    assert (omega(rows), delta(rows), rho(rows)) == (4, 0.2, 0.2)
