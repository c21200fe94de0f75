"""Compression of gradients on their way to the mean, with error feedback: what is not sent in one step is added in the
next (Seide et al. 2014; Karimireddy et al. 2019). Without it, of what DiLoCo's trainers send.

    d <- g + e                  in each step, for each trainer
    g <- mean of all C(d)       what the optimizers take for their gradient, the same for all
    e <- d - C(d)

    g: a trainer's gradient, e: its error so far, at first 0, C: what the others read from what it sent

So the sum of all that was sent is the sum of all gradients, but for the last errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, prod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.seeding import COMPRESSION, seed_of

Shapes = Sequence[Sequence[int]]
"""The shapes of a net's tensors, whose numbers follow one another in the gradient."""
LEAST_SAVING = 1.0
"""PowerSGD sends a matrix as it is where its factors are not this many times smaller."""


class Ring(Protocol):
    """What all trainers do together (`GlooRing`)."""

    world: int

    def mean(self, vector: Tensor) -> None:
        """Replace a vector by the mean over all trainers."""

    def gather(self, vector: Tensor) -> list[Tensor]:
        """Return the vectors of all trainers in their order."""


class Compressor(ABC):
    """One trainer's side of a compressed mean of gradients [P]."""

    def __init__(self, size: int, kept: int = 0) -> None:
        self.state = torch.zeros(size + kept)
        """All that it keeps between steps: the error, then what a method adds."""
        self.error = self.state[:size]

    def average(self, gradient: Tensor, ring: Ring) -> float:
        """Replace `gradient` by the mean of all trainers' compressed ones; return how much of the whole was not sent,
        as a fraction of its length.
        """
        whole = gradient + self.error if len(self.error) else gradient.clone()
        length = whole.norm()
        lost = whole - self.exchange(whole, gradient, ring)
        if len(self.error):
            self.error.copy_(lost)
        return float(lost.norm() / length) if length else 0.0

    @abstractmethod
    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        """Send `whole` in its compressed form, write the mean over all trainers into `mean`, and return what the others
        read from this trainer's.
        """


class Bfloat16(Compressor):
    """Half the bytes: 8 instead of 24 significant bits of each number, also of sums on their way round the ring; no
    error feedback.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        own = whole.bfloat16()
        total = own.clone()
        ring.mean(total)
        mean.copy_(total)
        return own.float()


class FourBits(Compressor):
    """Four bits of each number: its sign and three of exponent (E3M0, as Douillard et al. 2025 send), times the
    magnitude of the largest number of its block of 256: 0, 1/64, 1/32 … 1, whichever is nearest.
    """

    BLOCK = 256
    MAGNITUDES = torch.tensor([0.0, *(2.0**power for power in range(-6, 1))])
    _MIDDLES = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2

    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        sent = self._packed(whole)
        mean.zero_()
        for each in ring.gather(sent):
            mean.add_(self._read(each, len(whole)))
        mean.div_(ring.world)
        return self._read(sent, len(whole))

    @classmethod
    def size(cls, numbers: int) -> int:
        """Return the bytes of a vector."""
        return -(-numbers // 2) + 4 * -(-numbers // cls.BLOCK)

    def _packed(self, vector: Tensor) -> Tensor:
        scales = torch.stack([part.abs().amax() for part in torch.split(vector, self.BLOCK)])
        relative = vector.abs() / self._spread(scales, len(vector)).clamp(min=1e-38)
        codes = torch.bucketize(relative, self._MIDDLES).byte() | (vector < 0).byte() << 3
        low, high = torch.cat([codes, codes.new_zeros(len(codes) % 2)]).view(-1, 2).unbind(1)
        return torch.cat([scales.view(torch.uint8), low | high << 4])

    def _read(self, sent: Tensor, numbers: int) -> Tensor:
        bytes_of_scales = 4 * -(-numbers // self.BLOCK)
        scales, packed = sent[:bytes_of_scales].clone().view(torch.float32), sent[bytes_of_scales:]
        codes = torch.stack([packed & 15, packed >> 4], 1).flatten()[:numbers].int()
        signs = 1.0 - 2.0 * (codes >> 3)
        return signs * self.MAGNITUDES[codes & 7] * self._spread(scales, numbers)

    def _spread(self, scales: Tensor, numbers: int) -> Tensor:
        return scales.repeat_interleave(self.BLOCK)[:numbers]


class FactoredMatrix(NamedTuple):
    """One of the net's matrices M in PowerSGD."""

    place: slice
    """Its numbers in the gradient."""
    shape: tuple[int, int]
    right: Tensor
    """Q [columns, rank], which the next step starts from."""


class PowerSgd(Compressor):
    """Each matrix as the product of two with few columns, by one step of a power iteration that starts from the last
    step's factor (Vogels, Karimireddy and Jaggi 2019, Algorithms 1 and 2):

        P <- mean of all M Q;    P <- an orthonormal basis of P;    Q <- mean of all M^T P;    C(M) = P Q^T

    C is the same for all trainers. Vectors, and matrices that are no larger than their factors, are sent as they are.
    """

    def __init__(self, shapes: Shapes, rank: int, seed: int) -> None:
        sizes = [prod(shape) for shape in shapes]
        starts, size = [0, *accumulate(sizes)], sum(sizes)
        worth = {
            start: (shape[0], numbers // shape[0], min(rank, shape[0], numbers // shape[0]))
            for start, numbers, shape in zip(starts, sizes, shapes, strict=False)
            if len(shape) > 1 and LEAST_SAVING * rank * (shape[0] + numbers // shape[0]) < numbers
        }
        self._factors = [columns * width for _, columns, width in worth.values()]
        super().__init__(size, sum(self._factors))
        self._rights = self.state[size:]
        self._rights.normal_(generator=torch.Generator().manual_seed(seed))
        self._matrices = [
            FactoredMatrix(slice(start, start + rows * columns), (rows, columns), right.view(columns, width))
            for (start, (rows, columns, width)), right in zip(
                worth.items(), torch.split(self._rights, self._factors), strict=True
            )
        ]
        self._is_rest = torch.ones(size, dtype=torch.bool)
        for matrix in self._matrices:
            self._is_rest[matrix.place] = False

    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        gradients = [whole[each.place].view(each.shape) for each in self._matrices]
        lefts = [gradient @ each.right for gradient, each in zip(gradients, self._matrices, strict=True)]
        sent = torch.cat([*(left.flatten() for left in lefts), whole[self._is_rest]])
        ring.mean(sent)
        sizes = [left.numel() for left in lefts]
        *means, rest = torch.split(sent, [*sizes, len(sent) - sum(sizes)])
        bases = [torch.linalg.qr(each.view(left.shape)).Q for each, left in zip(means, lefts, strict=True)]
        for gradient, base, each in zip(gradients, bases, self._matrices, strict=True):
            each.right.copy_(gradient.T @ base)
        ring.mean(self._rights)
        mean[self._is_rest] = rest
        for base, each in zip(bases, self._matrices, strict=True):
            mean[each.place] = (base @ each.right.T).flatten()
        return torch.where(self._is_rest, whole, mean)


class TopK(Compressor):
    """The numbers of largest magnitude with their places, eight bytes each (Aji and Heafield 2017; Stich, Cordonnier
    and Jaggi 2018).
    """

    def __init__(self, size: int, share: float) -> None:
        super().__init__(size)
        self._count = max(1, ceil(share * size))

    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        places = whole.abs().topk(self._count, sorted=False).indices.int()
        sent = torch.cat([places.view(torch.uint8), whole[places].view(torch.uint8)])
        mean.zero_()
        for each in ring.gather(sent):
            where, values = torch.split(each, 4 * self._count)
            mean.index_add_(0, where.clone().view(torch.int32), values.clone().view(torch.float32))
        mean.div_(ring.world)
        return torch.zeros_like(whole).index_copy_(0, places.long(), whole[places])


class ScaledSigns(Compressor):
    """One bit for each number, and for each of the net's tensors the mean magnitude (Seide et al. 2014; Karimireddy et
    al. 2019, scaled signs).
    """

    def __init__(self, shapes: Shapes) -> None:
        self._sizes = [prod(shape) for shape in shapes]
        super().__init__(sum(self._sizes))

    def exchange(self, whole: Tensor, mean: Tensor, ring: Ring) -> Tensor:
        scales = torch.stack([part.abs().mean() for part in torch.split(whole, self._sizes)])
        bits = torch.from_numpy(np.packbits((whole >= 0).numpy()))
        sent = torch.cat([scales.view(torch.uint8), bits])
        mean.zero_()
        for each in ring.gather(sent):
            mean.add_(self._read(each))
        mean.div_(ring.world)
        return self._read(sent)

    def _read(self, sent: Tensor) -> Tensor:
        """Return the numbers that a trainer sent: its signs times its scales."""
        scales, bits = torch.split(sent, [4 * len(self._sizes), len(sent) - 4 * len(self._sizes)])
        signs = torch.from_numpy(np.unpackbits(bits.numpy(), count=sum(self._sizes))).float().mul_(2).sub_(1)
        return signs.mul_(scales.clone().view(torch.float32).repeat_interleave(torch.tensor(self._sizes)))


def compressor_of(config: SyncSgdConfig, net: nn.Module) -> Compressor | None:
    """Return one trainer's compressor of the net's gradients, or of what DiLoCo sends instead; None if it is sent
    whole, or by torch.
    """
    if config.sync not in ("gradients", "diloco"):
        return None
    shapes = [parameter.shape for parameter in net.parameters()]
    match config.compression:
        case "bf16":
            return Bfloat16()
        case "e3m0":
            return FourBits(sum(map(prod, shapes)) if config.has("sync gradients") else 0)
        case "powersgd":
            return PowerSgd(shapes, config.compression_rank, seed_of(config.seed, COMPRESSION))
        case "topk":
            return TopK(sum(map(prod, shapes)), config.compression_share / 100)
        case "sign":
            return ScaledSigns(shapes)
        case "none":
            return None
