"""The methods that can duel start from the same weights, to the last bit: shown by runs that step by next
to nothing.
"""

from pathlib import Path

import pytest
import torch

from engine.data.nets import bind, evaluate, flat_weights, mnist_net
from engine.data.sets import load
from engine.duel.launch import config_of
from engine.duel.spec import Budget, Duel, ready
from engine.registry import method
from engine.seeding import WEIGHTS, seed_of
from engine.training.flat_net import FlatNet
from tests.doubles import LocalRanks

NOTHING = 1e-30
"""A learning rate whose steps are lost in every float32 weight, so that weights end as they began."""
SEED = 100
SHARED = {
    "dataset": "digits",
    "trainers": 2,
    "batch_size": 512,
    "momentum": 0.0,
    "threads_per_rank": 1,
    "device": "cpu",
}
ENGINES = ("reference", "parameter_server", "async_sgd", "sync_sgd", "sync_gradients", "hogwild")
"""One strategy of each way in which first weights come about."""
DUEL = Duel(tuple(ready().values()), Budget("passes", 1), SHARED)


def score_of(seed: int, nudge: float = 0.0) -> tuple[float, float]:
    """Return test loss and accuracy of the first weights of a seed, one of them nudged."""
    net, data = mnist_net(seed_of(seed, WEIGHTS)), load("digits")
    with torch.no_grad():
        net.fc2.bias[0] += nudge
    bind(net, flat_weights(net))  # in the layout that methods compute in: sums round by it
    found = evaluate(net, data.test_images, data.test_labels)
    return found.loss, found.accuracy


@pytest.mark.ranks
@pytest.mark.parametrize("name", ENGINES)
def test_every_strategy_starts_from_the_weights_of_its_seed(tmp_path: Path, name: str) -> None:
    one = ready()[name]
    config = config_of(DUEL, one, NOTHING, SEED)
    if "transport" in type(config).model_fields:
        config = config.model_copy(update={"transport": "shared_memory"})
    ranks = LocalRanks(config.roles, seed=config.seed, folder=tmp_path)
    method(one.experiment)(config, ranks)
    losses, test_losses, accuracies = (
        [value for recorder in ranks.recorders.values() for value in recorder.values(metric)]
        for metric in ("train/loss", "test/loss", "test/accuracy")
    )
    assert len(losses) >= 3, "it did train"
    assert (test_losses[-1], accuracies[-1]) == score_of(SEED)


def test_another_seed_or_a_small_nudge_would_show() -> None:
    assert score_of(SEED) != score_of(SEED + 100)
    assert score_of(SEED)[0] != score_of(SEED, 1e-5)[0]


def test_every_step_of_next_to_nothing_leaves_each_weight_as_it_is() -> None:
    weights = flat_weights(mnist_net(SEED))
    data = load("digits")
    flat = FlatNet(mnist_net(SEED), torch.nn.functional.nll_loss)
    flat.compute_gradient(data.train_images[:64], data.train_labels[:64])
    assert float(flat.gradient.abs().max()) > 0
    assert torch.equal(weights - NOTHING * flat.gradient, weights)
