"""What makes the methods right, exactly: one trainer is plain SGD, bit for bit, whichever way it is run."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.data.catalogue import DATA_SETS
from engine.data.nets import bind, evaluate, mnist_net
from engine.data.sets import load
from engine.errors import RunFailed
from engine.recorder import MemoryRecorder
from engine.registry import experiment, method
from tests.doubles import LocalRanks
from tests.experiments import plain_sgd

pytestmark = pytest.mark.ranks
SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "epochs": 2,
    "batch_size": 100,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "seed": 7,
}


@dataclass
class KeptRanks(LocalRanks):
    """Ranks that keep what they were given, so that a test can look at the weights."""

    weights: Tensor = field(default_factory=lambda: torch.empty(0))

    def run(self, function: Any, *shared: Any) -> None:
        self.weights = next(thing for thing in shared if isinstance(thing, Tensor) and thing.numel() == 21_840)
        super().run(function, *shared)


def carry_out(name: str, **changes: Any) -> tuple[MemoryRecorder, KeptRanks]:
    """Run an experiment's method in this process; return what trainer1 recorded, and the ranks."""
    config = experiment(name).config.check(SETTINGS | changes)
    ranks = KeptRanks(config.roles, seed=config.seed)
    method(name)(config, ranks)
    return ranks.recorders["trainer1"], ranks


@pytest.mark.parametrize(
    ("name", "changes"),
    [("reference", {}), ("hogwild", {"trainers": 1}), ("hogwild", {"trainers": 1, "lock": True})],
    ids=["reference", "hogwild", "locked"],
)
def test_one_trainer_is_plain_sgd(name: str, changes: dict[str, Any]) -> None:
    recorder, ranks = carry_out(name, **changes)
    losses, weights = plain_sgd.train(**SETTINGS)
    assert recorder.values("train/loss") == losses
    net, data = mnist_net(0), load("digits")
    bind(net, ranks.weights)
    found = evaluate(net, data.test_images, data.test_labels)
    assert (recorder.values("test/accuracy")[-1], recorder.values("test/loss")[-1]) == (found.accuracy, found.loss)
    assert all(torch.equal(tensor, weights[key]) for key, tensor in net.state_dict().items())


def test_testing_on_the_way_changes_nothing() -> None:
    often, never = carry_out("hogwild", trainers=1)[0], carry_out("hogwild", trainers=1, evaluate_every=0)[0]
    assert often.values("train/loss") == never.values("train/loss")
    assert (len(often.values("test/accuracy")), len(never.values("test/accuracy"))) == (2, 1)


def test_passes_count_the_samples_of_all_trainers() -> None:
    recorder, ranks = carry_out("hogwild", trainers=3)
    tested = [point for point in recorder.points if point.name == "test/accuracy"]
    assert tested[-1].passes == 6.0
    for other in ranks.recorders.values():
        steps = [point for point in other.points if point.name == "train/loss"]
        assert [point.step for point in steps] == list(range(1, 31))
        seen = [point.passes for point in steps if point.passes is not None]
        assert seen == sorted(seen)
        assert len(seen) == 30
        stale = [point for point in other.points if point.name == "perf/staleness"]
        assert [(point.step, point.passes) for point in stale] == [(point.step, point.passes) for point in steps]
        assert other.done == other.total == 2 * 1437


def test_only_trainer1_tests_and_all_phases_are_known() -> None:
    _, ranks = carry_out("hogwild", trainers=2, lock=True)
    assert [bool(recorder.values("test/accuracy")) for recorder in ranks.recorders.values()] == [True, False]
    assert set(ranks.recorders["trainer1"].phases) == {"data", "compute", "lock", "update", "evaluate", "wait"}
    assert set(ranks.recorders["trainer2"].phases) == {"data", "compute", "lock", "update", "wait"}


@pytest.mark.parametrize("name", ["hogwild", "reference"])
def test_a_loss_that_is_no_number_ends_the_run_with_its_cure(name: str) -> None:
    changes = {"learning_rate": 10.0, "momentum": 0.99, "seed": 1} | ({"trainers": 1} if name == "hogwild" else {})
    with pytest.raises(
        RunFailed, match=r"trainer1's loss became (nan|inf) at step \d+.*Lower learning_rate \(10\.0\)"
    ) as caught:
        carry_out(name, **changes)
    assert "momentum" in str(caught.value)


TEXT: dict[str, Any] = {"dataset": "stdlib", "model": "gpt", "batch_size": 8, "learning_rate": 0.1, "momentum": 0.9}


@pytest.mark.long  # 25 s of processor time; the parts are exact tests in tests/data/test_models.py
def test_the_gpt_preset_learns_more_than_how_often_each_byte_occurs() -> None:
    config = experiment("reference").configure("gpt")
    ranks = LocalRanks(config.roles, seed=config.seed)
    method("reference")(config, ranks)
    found, data = ranks.recorders["trainer1"], load("stdlib")
    share = data.test_labels.flatten().bincount(minlength=256).double() / data.test_labels.numel()
    entropy = -float((share * share.clamp_min(1e-12).log()).sum())
    assert found.values("test/loss")[-1] < entropy - 0.5
    assert found.values("test/bits_per_byte")[-1] == pytest.approx(found.values("test/loss")[-1] / math.log(2))
    assert found.values("test/accuracy")[-1] > 100 * float(share.max()) + 5


def test_trainers_of_a_gpt_that_step_together_are_one_that_sees_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    card = replace(DATA_SETS["stdlib"], train=32, test=8)
    monkeypatch.setitem(DATA_SETS, "stdlib", card)
    shared = {key: value for key, value in TEXT.items() if key != "batch_size"} | {"seed": 3, "checkpoint_every_s": 0}
    two = {"trainers": 2, "batch_size": 16, "transport": "shared_memory"}
    losses, bits = [], []
    for name, changes in (
        ("reference", {"epochs": 2, "batch_size": 32}),
        ("sync_sgd", two | {"rounds": 2, "sync": "gradients", "keep_optimizer": True}),
        ("parameter_server", two | {"epochs": 2, "batch_update_size": 2}),
        ("async_sgd", {"trainers": 1, "epochs": 2, "batch_size": 32, "transport": "shared_memory"}),
    ):
        config = experiment(name).config.check(shared | changes)
        ranks = LocalRanks(config.roles, seed=config.seed)
        method(name)(config, ranks)
        tester = ranks.recorders[config.roles[0]]
        losses.append(tester.values("test/loss")[-1])
        bits.append(tester.values("test/bits_per_byte")[-1])
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-4)
    assert bits == pytest.approx([loss / math.log(2) for loss in losses])
