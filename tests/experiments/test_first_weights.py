"""The methods that can duel start from the same weights, to the last bit: shown by real processes that step by next to nothing."""

from pathlib import Path

import pytest
import torch

from engine.data.datasets import load
from engine.data.nets import evaluate, mnist_net
from engine.data.weights import bind, flat_weights
from engine.duel.catalogue import READY
from engine.duel.contest import Budget, Duel
from engine.duel.planning import config_of
from engine.registry import method
from engine.runtime import fork_server
from engine.runtime.ranks import Ranks
from engine.runtime.sink import MemorySink
from engine.seeding import WEIGHTS, seed_of
from engine.training.learner import Learner

NOTHING = 1e-30
"""A learning rate whose steps are lost in every float32 weight, so that weights end as they began."""
SEED = 100
SHARED = {"dataset": "digits", "trainers": 2, "batch_size": 512, "momentum": 0.0, "threads_per_rank": 1, "device": "cpu"}
ENGINES = ("reference", "parameter_server", "async_sgd", "sync_sgd", "sync_gradients", "hogwild")
"""One strategy of each way in which first weights come about."""
DUEL = Duel(tuple(READY.values()), Budget("passes", 1), SHARED)


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()
    torch.set_num_threads(1)  # as the ranks have it: sums are the same only then


def score_of(seed: int, nudge: float = 0.0) -> tuple[float, float]:
    """Return test loss and accuracy of the first weights of a seed, one of them nudged."""
    net, data = mnist_net(seed_of(seed, WEIGHTS)), load("digits")
    with torch.no_grad():
        net.fc2.bias[0] += nudge
    bind(net, flat_weights(net))  # in the layout that methods compute in: sums round by it
    found = evaluate(net, data.test_images, data.test_labels)
    return found.loss, found.accuracy


@pytest.mark.parametrize("name", ENGINES)
def test_every_strategy_starts_from_the_weights_of_its_seed(tmp_path: Path, name: str) -> None:
    one = READY[name]
    config = config_of(DUEL, one, NOTHING, SEED)
    sink = MemorySink()
    method(one.experiment)(config, Ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, tmp_path, sink))
    assert len(sink.values("train/loss")) >= 3, "it did train"
    assert (sink.values("test/loss")[-1], sink.values("test/accuracy")[-1]) == score_of(SEED)


def test_another_seed_or_a_small_nudge_would_show() -> None:
    assert score_of(SEED) != score_of(SEED + 100)
    assert score_of(SEED)[0] != score_of(SEED, 1e-5)[0]


def test_every_step_of_next_to_nothing_leaves_each_weight_as_it_is() -> None:
    weights = flat_weights(mnist_net(SEED))
    data = load("digits")
    learner = Learner(mnist_net(SEED), torch.nn.functional.nll_loss)
    learner.step(data.train_images[:64], data.train_labels[:64])
    assert float(learner.gradient.abs().max()) > 0
    assert torch.equal(weights - NOTHING * learner.gradient, weights)
