"""One flat buffer is the net's weights and gradients, and an optimizer over it does what it does to each alone."""

import subprocess
import sys

import pytest
import torch
from torch.nn.functional import nll_loss

from engine.data.nets import FlatSgd, bind, flat_weights, mnist_net
from engine.home import ROOT
from tests.waiting import PATIENCE_S


def test_every_weight_lies_in_the_buffer_once() -> None:
    net, twin = mnist_net(2), mnist_net(2)
    weights = flat_weights(net)
    bind(net, weights)
    assert weights.numel() == 21_840
    starts = {parameter.data_ptr() - weights.data_ptr() for parameter in net.parameters()}
    assert len(starts) == 8
    assert all(0 <= start < 4 * weights.numel() for start in starts)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True))


def test_convolutions_lie_channels_last() -> None:
    net = mnist_net(0)
    bind(net, flat_weights(net))
    assert net.conv2.weight.is_contiguous(memory_format=torch.channels_last)
    assert net.conv2.weight.grad is not None
    assert net.conv2.weight.grad.stride() == net.conv2.weight.stride()


def test_two_nets_on_one_buffer_see_each_others_writes() -> None:
    first, second = mnist_net(0), mnist_net(1)
    weights = flat_weights(first)
    for net in (first, second):
        bind(net, weights)
    with torch.no_grad():
        first.conv1.bias.fill_(7)
    assert second.conv1.bias.tolist() == [7.0] * 10


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_flat_step_is_torchs_step_bit_for_bit(momentum: float) -> None:
    flat_net, plain = mnist_net(4), mnist_net(4).to(memory_format=torch.channels_last)
    weights = flat_weights(flat_net)
    gradient = bind(flat_net, weights)
    ours, theirs = (
        FlatSgd(weights, gradient, 0.1, momentum),
        torch.optim.SGD(plain.parameters(), lr=0.1, momentum=momentum),
    )
    for step in range(5):
        images, labels = torch.randn(13, 1, 28, 28), torch.randint(10, (13,))
        gradient.zero_()
        theirs.zero_grad()
        for net, optimizer in ((flat_net, ours), (plain, theirs)):
            torch.manual_seed(step)
            nll_loss(net(images), labels).backward()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(flat_net.parameters(), plain.parameters(), strict=True))


THREADS = """
import sys, threading
import torch
from engine.data.nets import drawn_from
sys.setswitchinterval(1e-6)

def drawn(seed):
    with drawn_from(seed):
        return torch.rand(50)

alone = [drawn(seed) for seed in range(4)]
wrong = []

def draw(seed):
    wrong.extend(not torch.equal(drawn(seed), alone[seed]) for _ in range(2_000))

threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(wrong), sum(wrong))
"""


@pytest.mark.processes
def test_threads_that_draw_at_once_draw_their_own_and_never_block_each_other() -> None:
    told = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
    assert told.stdout.split() == ["8000", "0"], told.stderr
