"""The transformers: what each output may depend on, their weights, and a step against a second writing."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, nll_loss

from engine.data.catalogue import MODELS, ModelName
from engine.data.models import Gpt, model_net
from engine.data.nets import FlatSgd, bind, evaluate, flat_weights
from engine.data.stdlib import WINDOW

TEXT = torch.randint(256, (3, WINDOW), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
SEEN: dict[str, Tensor] = {"images": torch.zeros(2, 1, 28, 28), "text": TEXT[:2]}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_weights_of_its_card_from_its_seed_and_gives_log_probabilities(name: ModelName) -> None:
    before = torch.get_rng_state()
    net, again, other = (model_net(name, seed).eval() for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(flat_weights(net)) == MODELS[name].weights
    assert torch.equal(flat_weights(net), flat_weights(again)) and not torch.equal(
        flat_weights(net), flat_weights(other)
    )
    total = net(SEEN[MODELS[name].kind]).exp().sum(1)
    assert torch.allclose(total, torch.ones(total.shape), atol=1e-4)


def test_a_later_byte_never_changes_an_earlier_prediction() -> None:
    net, changed = model_net("gpt", 0), TEXT.clone()
    changed[:, 70] += 1
    ours, theirs = net(TEXT), net(changed)
    assert torch.equal(ours[:, :, :70], theirs[:, :, :70])
    assert not any(torch.equal(ours[:, :, place], theirs[:, :, place]) for place in range(70, WINDOW))
    assert torch.allclose(net(TEXT[:, :40]), ours[:, :, :40], atol=1e-5), "a shorter text has the same predictions"


def test_the_embedding_is_the_last_layer_also_once_its_memory_is_shared() -> None:
    net = model_net("gpt", 0)
    weights = flat_weights(net)
    bind(net, weights)
    before = net(TEXT)
    weights[: 256 * 64] *= 2
    x = _hidden(net, dict(net.named_parameters()), TEXT) @ net.get_parameter("bytes.weight").T
    assert torch.allclose(net(TEXT), x.log_softmax(2).transpose(1, 2), atol=1e-4)
    assert not torch.allclose(net(TEXT), before, atol=1e-2)


def test_a_step_is_that_of_a_net_written_out() -> None:
    net, targets = model_net("gpt", 2), TEXT.long().roll(-1, 1)
    named = {name: each.detach().clone().requires_grad_() for name, each in net.named_parameters()}
    logits = _hidden(net, named, TEXT) @ named["bytes.weight"].T
    picked = logits.log_softmax(2).gather(2, targets.unsqueeze(2))
    (-picked.mean()).backward()  # type: ignore[no-untyped-call]
    weights = flat_weights(net)
    gradient = bind(net, weights)
    loss = nll_loss(net(TEXT), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    FlatSgd(weights, gradient, 0.5, 0.9).step()
    assert loss.item() == pytest.approx(-picked.mean().item(), rel=1e-5)
    for name, parameter in net.named_parameters():
        assert torch.allclose(parameter, named[name] - 0.5 * named[name].grad, atol=1e-5), name  # type: ignore[operator]


def _hidden(net: object, named: dict[str, Tensor], text: Tensor) -> Tensor:
    """Return the normalized outputs of the last block, head by head and byte by byte."""
    assert isinstance(net, Gpt)
    width = 64
    x = named["bytes.weight"][text.long()] + named["places.weight"][: text.shape[1]]
    future = torch.ones(text.shape[1], text.shape[1]).triu(1).bool()

    def apply(name: str, value: Tensor) -> Tensor:
        return value @ named[f"{name}.weight"].T + named[f"{name}.bias"]

    def norm(name: str, value: Tensor) -> Tensor:
        return layer_norm(value, (width,), named[f"{name}.weight"], named[f"{name}.bias"])

    for block in ("blocks.0", "blocks.1"):
        query, key, value = apply(f"{block}.qkv", norm(f"{block}.norm1", x)).split(width, 2)
        heads = []
        for head in range(4):
            q, k, v = (each[:, :, 16 * head : 16 * (head + 1)] for each in (query, key, value))
            heads.append((q @ k.transpose(1, 2) / math.sqrt(16)).masked_fill(future, -math.inf).softmax(2) @ v)
        x = x + apply(f"{block}.merge", torch.cat(heads, 2))
        x = x + apply(f"{block}.down", gelu(apply(f"{block}.up", norm(f"{block}.norm2", x))))
    return norm("norm", x)


def test_a_patch_is_a_square_of_the_image() -> None:
    net, image = model_net("vit", 0), torch.arange(784.0).view(1, 1, 28, 28)
    seen: list[Tensor] = []
    net.get_submodule("patches").register_forward_hook(lambda _, given, out: seen.append(given[0]))
    net(image)
    assert torch.equal(seen[0][0, 6].view(7, 7), image[0, 0, 7:14, 14:21])


def test_a_score_of_text_counts_bytes() -> None:
    net, targets = model_net("gpt", 0), TEXT.long()
    score = evaluate(net, TEXT, targets)
    scores = net(TEXT).detach()
    assert score.loss == pytest.approx(float(nll_loss(scores, targets)), rel=1e-5)
    assert score.accuracy == pytest.approx(100 * float((scores.argmax(1) == targets).double().mean()))
    assert score.metrics["test/bits_per_byte"] == pytest.approx(score.loss / math.log(2))
    images = evaluate(model_net("vit", 0), torch.zeros(2, 1, 28, 28), torch.zeros(2).long())
    assert set(images.metrics) == {"test/accuracy", "test/loss"}
