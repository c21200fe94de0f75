"""The MNIST net layer by layer against a second writing of it, and its test score."""

import pytest
import torch
from torch import nn
from torch.nn.functional import nll_loss

from engine.data.nets import MnistNet, evaluate, fast_in_small_batches, mnist_net, resnet


def written_out(net: MnistNet) -> nn.Sequential:
    """Return the published architecture as a plain list of layers over the net's own weights."""
    return nn.Sequential(
        *(net.conv1, nn.MaxPool2d(2), nn.ReLU()),
        *(net.conv2, nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(net.fc1, nn.ReLU(), nn.Dropout(), net.fc2, nn.LogSoftmax(1)),
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_net_is_the_published_one(training: bool) -> None:
    net = mnist_net(3).train(training)
    images = torch.randn(6, 1, 28, 28)
    torch.manual_seed(1)
    ours = net(images)
    torch.manual_seed(1)
    assert torch.allclose(ours, written_out(net).train(training)(images), atol=1e-6)
    assert [tuple(parameter.shape) for parameter in net.parameters() if parameter.dim() > 1] == [
        (10, 1, 5, 5),
        (20, 10, 5, 5),
        (50, 320),
        (10, 50),
    ]


def test_it_gives_log_probabilities() -> None:
    assert torch.allclose(mnist_net(0)(torch.randn(4, 1, 28, 28)).exp().sum(1), torch.ones(4), atol=1e-5)


def test_first_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first, again, other = mnist_net(5), mnist_net(5), mnist_net(6)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.fc1.weight, again.fc1.weight)
    assert not torch.equal(first.fc1.weight, other.fc1.weight)


def test_a_score_is_the_mean_over_a_set_that_no_batch_divides() -> None:
    net = mnist_net(0)
    images, labels = torch.randn(2345, 1, 28, 28), torch.randint(10, (2345,))
    score = evaluate(net, images, labels)
    net.eval()
    with torch.no_grad():
        scores = net(images)
    assert score.loss == pytest.approx(float(nll_loss(scores, labels)), rel=1e-5)
    assert score.accuracy == pytest.approx(100 * float((scores.argmax(1) == labels).double().mean()))


def test_testing_changes_neither_mode_nor_random_state() -> None:
    net = mnist_net(0).train()
    images, labels = torch.randn(20, 1, 28, 28), torch.randint(10, (20,))
    before = torch.get_rng_state()
    assert evaluate(net, images, labels) == evaluate(net, images, labels)
    assert net.training
    assert torch.equal(torch.get_rng_state(), before)


def test_fast_1x1_convolutions_compute_the_same() -> None:
    plain, fast = (
        resnet("resnet50", 5, seed=1).double().eval(),
        fast_in_small_batches(resnet("resnet50", 5, seed=1)).double().eval(),
    )
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(plain(images), fast(images), rtol=1e-12)
    assert any(module.dilation == (2, 2) for module in fast.modules() if isinstance(module, nn.Conv2d))
