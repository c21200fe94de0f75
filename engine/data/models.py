"""The nets that a run can choose by name: the published nets' convolutions, a vision transformer, and GPTs on bytes.

All return log-probabilities with the classes as dimension 1, so that `nll_loss` and `evaluate` take each of them.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that torch's own texts use)

from engine.data.catalogue import ModelName
from engine.data.nets import drawn_from, mnist_net
from engine.data.stdlib import BYTES, WINDOW

SIDE, PATCH = 28, 7
"""Pixels along an image's edge, and along that of its patches."""


def model_net(name: ModelName, seed: int) -> nn.Module:
    """Return the net with the initial weights of `seed`; the caller's random state is unchanged.

    mnist_net and vit take images [B, 1, 28, 28] and return [B, 10]; gpt and gpt_base take bytes [B, T], T at most 128,
    and return [B, 256, T], for each byte the log-probabilities of the one after it.
    """
    if name == "mnist_net":
        return mnist_net(seed)
    with drawn_from(seed):
        if name == "vit":
            return VisionTransformer(width=64, layers=2, heads=4)
        return Gpt(width=64, layers=2, heads=4) if name == "gpt" else Gpt(width=384, layers=6, heads=6)


class Block(nn.Module):
    """A pre-norm transformer block: x <- x + attention(norm x), x <- x + mlp(norm x), for x [B, T, width].

    It may be one rank's part of a block, with fewer heads and neurons and other linear layers.
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.merge(mixed.transpose(1, 2).flatten(2))
        changed: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return changed


class Gpt(nn.Module):
    """A GPT on bytes (Radford et al. 2019) without dropout; its embedding is also its last layer's weight."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, width), nn.Embedding(WINDOW, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        _initialize(self)

    def forward(self, text: Tensor) -> Tensor:
        # no view: FSDP warns of one, and nll_loss would make this copy
        return F.log_softmax(self.logits(text), dim=2).transpose(1, 2).contiguous()

    def logits(self, text: Tensor) -> Tensor:
        """Return the logits [B, T, 256] of the byte after each one."""
        x = self.bytes(text.int()) + self.places.weight[: text.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.bytes.weight)


class VisionTransformer(nn.Module):
    """A ViT (Dosovitskiy et al. 2021) on 16 patches of 7x7 pixels, without dropout; it classifies their mean."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.patches, self.places = nn.Linear(PATCH**2, width), nn.Embedding((SIDE // PATCH) ** 2, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)
        _initialize(self)

    def forward(self, images: Tensor) -> Tensor:
        across = SIDE // PATCH
        cut = images.reshape(-1, across, PATCH, across, PATCH).transpose(2, 3).reshape(-1, across**2, PATCH**2)
        x = self.blocks(self.patches(cut) + self.places.weight)
        return F.log_softmax(self.head(self.norm(x).mean(1)), dim=1)


# ---- The same nets as layers one after another, for pipelines: no weight is shared between two of them -----------


class TextInput(nn.Module):
    """Bytes [B, T] as vectors [B, T, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, width), nn.Embedding(WINDOW, width)

    def forward(self, text: Tensor) -> Tensor:
        found: Tensor = self.bytes(text.int()) + self.places(torch.arange(text.shape[1], device=text.device))
        return found


class TextOutput(nn.Module):
    """The logits [B, 256, T] of the byte after each one, from vectors [B, T, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, BYTES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(x))
        return logits.transpose(1, 2)


class PatchInput(nn.Module):
    """Images [B, 1, 28, 28] as vectors of their patches [B, 16, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patches, self.places = nn.Linear(PATCH**2, width), nn.Embedding((SIDE // PATCH) ** 2, width)

    def forward(self, images: Tensor) -> Tensor:
        across = SIDE // PATCH
        cut = images.reshape(-1, across, PATCH, across, PATCH).transpose(2, 3).reshape(-1, across**2, PATCH**2)
        found: Tensor = self.patches(cut) + self.places(torch.arange(across**2, device=images.device))
        return found


class PatchOutput(nn.Module):
    """The logits [B, classes] of images, from the vectors of their patches."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(x).mean(1))
        return logits


def transformer_layers(name: Literal["gpt", "vit"], blocks: int, classes: int, seed: int) -> nn.Sequential:
    """Return a GPT or ViT of that many blocks of width 64 as its layers: input, blocks, output.

    Unlike in `Gpt`, the last layer has weights of its own, since the embedding may be in another process; there is no
    softmax.
    """
    width, is_text = 64, name == "gpt"
    with drawn_from(seed):
        first: nn.Module = TextInput(width) if is_text else PatchInput(width)
        inner = [Block(width, heads=4, causal=is_text) for _ in range(blocks)]
        net = nn.Sequential(first, *inner, TextOutput(width) if is_text else PatchOutput(width, classes))
        _initialize(net)
        return net


def _initialize(net: nn.Module) -> None:
    """Draw embeddings with deviation 0.1; the other weights are as torch draws them."""
    for module in net.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
