"""Muon: its orthogonalization against the singular value decomposition, and its steps against their formula."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import nll_loss

from engine.data.models import model_net
from engine.data.nets import FlatAdam
from engine.experiments.sync_sgd.muon import MOMENTUM, FlatMuon, orthogonalized
from engine.training.flat_net import FlatNet
from tests.experiments.sync_sgd.test_sync_sgd import center_of, in_threads, sober

__all__ = ["sober"]


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30), (7, 1)])
def test_it_keeps_the_singular_vectors_and_makes_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrix = 100 * torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    middle = left.T @ orthogonalized(matrix) @ right.T
    expected = values / values.norm()
    large = expected > 0.005
    for _ in range(5):
        expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
    assert torch.allclose(middle, expected.diag(), atol=1e-9)
    assert large.any() and (expected[large] > 0.68).all() and (expected < 1.21).all()


def test_nothing_becomes_nothing() -> None:
    assert not orthogonalized(torch.zeros(3, 4)).any()


def test_matrices_move_along_the_orthogonal_direction_and_all_else_as_with_adamw() -> None:
    net = FlatNet(model_net("gpt", 1), nll_loss)
    plain = FlatNet(model_net("gpt", 1), nll_loss)
    muon = FlatMuon(net, 0.01, weight_decay=0.1)
    adamw = FlatAdam(plain.weights, plain.gradient, 0.01, weight_decay=0.1)
    momentum, drawn = 0.0, torch.Generator().manual_seed(3)
    up, before = net.module.blocks[1].up.weight, net.module.blocks[1].up.weight.detach().clone()  # type: ignore[union-attr, index]
    for _ in range(2):
        net.gradient.normal_(generator=drawn)
        plain.gradient.copy_(net.gradient)
        gradient = up.grad.clone()
        momentum = MOMENTUM * momentum + gradient
        step = orthogonalized(gradient + MOMENTUM * momentum)
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 16 * step  # [256, 64]: the root of 256
        muon.step()
        adamw.step()
    assert torch.allclose(up, before, rtol=1e-5, atol=1e-6)
    assert up.norm() != plain.module.blocks[1].up.weight.norm()  # type: ignore[union-attr, index]
    for name in ("bytes.weight", "places.weight", "blocks.0.norm1.weight", "blocks.1.up.bias"):
        assert torch.equal(net.module.get_parameter(name), plain.module.get_parameter(name)), name
    assert len(muon.state) < len(adamw.state) and muon.steps == 2
    muon.reset()
    assert not muon.state.any() and muon.steps == 0


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
def test_a_resumed_run_of_diloco_with_muon_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    run = {"sync": "diloco", "optimizer": "muon", "trainers": 2, "average_every": 2, "evaluate_every": 0}
    in_threads(tmp_path / "whole", rounds=2, **run)
    in_threads(tmp_path / "half", rounds=1, **run)
    in_threads(tmp_path / "rest", tmp_path / "half" / "checkpoint.pt", rounds=2, **run)
    assert torch.equal(center_of(tmp_path / "whole"), center_of(tmp_path / "rest"))
