"""A transformer's blocks divided among ranks (Shoeybi et al. 2019, section 3).

Attention and MLP are two linear layers each, with heads or neurons between them:

    y = g(W2 h(W1 f(x) + b1)) + b2      W1's rows, with b1, and W2's columns are divided among the ranks

    f    forward: identity          backward: all-reduce
    g    forward: all-reduce        backward: identity

With sequence parallelism (Korthikanti et al. 2022, section 4.2.2) a rank has only its part of the sequence outside of
attention and MLP, where the norms are:

    f    forward: all-gather        backward: reduce-scatter
    g    forward: reduce-scatter    backward: all-gather

With loss parallelism (Shoeybi et al., section 3) the table of bytes, which is the last weight too, is divided by its
rows. A looked-up vector is a sum over ranks, g; the last layer is column parallel, f; and the loss needs of each byte's
logits only their maximum, the sum of their exponentials and the logit of the right one, over all ranks.

The layouts before and after each are DTensor's placements: Replicate (all have the whole), Partial (each has a
summand), Shard(1) (each has a part of the sequence), Shard(2) (each has a part of the logits).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.nn import functional as F  # noqa: N812  (the name that torch's own texts use)

from engine.plugin import Recorder

WHOLE, SUMMANDS, SEQUENCE, LOGITS = Replicate(), Partial(), Shard(1), Shard(2)
Way = tuple[Placement, Placement]
COLLECTIVES: dict[Way, str] = {
    (SUMMANDS, WHOLE): "all-reduce",
    (SEQUENCE, WHOLE): "all-gather",
    (LOGITS, WHOLE): "all-gather",
    (SUMMANDS, SEQUENCE): "reduce-scatter",
    (WHOLE, SEQUENCE): "",  # each takes its part: nothing is sent
}


def bytes_sent(collective: str, size: int, ranks: int) -> int:
    """Return the bytes that each rank sends in a ring of ranks, for a whole tensor of `size` bytes."""
    return {"all-reduce": 2, "": 0}.get(collective, 1) * (ranks - 1) * size // ranks


# ---- The conjugate operators f and g -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conjugate:
    """An operator between two layouts, and what its backward does to the gradient."""

    forward: Way
    backward: Way


F_WHOLE, G_WHOLE = Conjugate((WHOLE, WHOLE), (SUMMANDS, WHOLE)), Conjugate((SUMMANDS, WHOLE), (WHOLE, WHOLE))
F_SEQUENCE = Conjugate((SEQUENCE, WHOLE), (SUMMANDS, SEQUENCE))
G_SEQUENCE = Conjugate((SUMMANDS, SEQUENCE), (SEQUENCE, WHOLE))
SPLIT, GATHER = Conjugate((WHOLE, SEQUENCE), (SEQUENCE, WHOLE)), Conjugate((SEQUENCE, WHOLE), (WHOLE, SEQUENCE))
"""Before the first block, and after the last norm: the same gradients are on all ranks there."""


@dataclass
class TensorGroup:
    """The ranks that a model is divided among; records each collective and counts the bytes of those in blocks."""

    mesh: DeviceMesh
    meeting: Callable[[str, str], AbstractContextManager[None]]
    """Records a joint operation: of what, and its name."""
    record: Recorder
    step: int = 0
    sent_in_blocks: int = field(default=0, init=False)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.mesh.size()

    def part(self, whole: Tensor, dimension: int) -> Tensor:
        """Return this rank's part of a tensor that all ranks have."""
        return distribute_tensor(whole.detach(), self.mesh, [Shard(dimension)], src_data_rank=None).to_local()

    def apply(self, operator: Conjugate, x: Tensor, place: str) -> Tensor:
        """Return x in the operator's new layout; `place` names it in the trace."""
        applied: Tensor = _Apply.apply(x, self, operator, place)
        return applied

    def move(self, x: Tensor, way: Way, place: str) -> Tensor:
        """Return a tensor without a gradient in another layout."""
        source, target = way
        if source == target or self.size == 1:
            return x
        collective = COLLECTIVES[way]
        if not collective:
            return self._moved(x, way)
        is_test = torch.is_inference_mode_enabled()  # it counts as the phase evaluate
        is_timed = x.device.type == "cpu" and not is_test  # a GPU sums later, and its backward has a thread of its own
        with (
            self.record.phase("communicate", place) if is_timed else nullcontext(),
            self.meeting(f"step {self.step}", f"{place} {collective}"),
        ):
            moved = self._moved(x, way)
        sent = bytes_sent(collective, max(x.nbytes, moved.nbytes), self.size)
        self.record.exchanged(sent)
        if not is_test:
            self.sent_in_blocks += sent * place.startswith("block")
        return moved

    def _moved(self, x: Tensor, way: Way) -> Tensor:
        tensor = DTensor.from_local(x, self.mesh, [way[0]], run_check=False)
        return tensor.redistribute(placements=[way[1]]).to_local()

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of targets [B, T] by this rank's part of their logits [B, T, 256 / ranks].

        In torch's `loss_parallel`, which sums three numbers per target over the ranks.
        """
        divided = DTensor.from_local(logits.transpose(1, 2), self.mesh, [Shard(1)], run_check=False)
        with self.meeting(f"step {self.step}", "loss all-reduces"):
            loss: Any = F.cross_entropy(divided, targets)
        self.record.exchanged(3 * bytes_sent("all-reduce", targets.numel() * logits.itemsize, self.size))
        whole: Tensor = loss.to_local()
        return whole

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum the gradients of parameters that each rank applied to its part of the sequence."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if gradients:
            total = self.move(torch.cat([each.flatten() for each in gradients]), (SUMMANDS, WHOLE), "norms")
            for each, summed in zip(gradients, torch.split(total, [each.numel() for each in gradients]), strict=True):
                each.copy_(summed.view_as(each))


class _Apply(torch.autograd.Function):
    """A conjugate operator for autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: TensorGroup, operator: Conjugate, place: str) -> Tensor:
        ctx.group, ctx.operator, ctx.place = group, operator, place
        return group.move(x, operator.forward, f"{place} forward")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        moved = ctx.group.move(gradients[0].contiguous(), ctx.operator.backward, f"{ctx.place} backward")
        return moved, None, None, None


# ---- Linear layers of which each rank has a part -------------------------------------------------------------------


class ColumnParallel(nn.Module):
    """W f(x) + b for this rank's rows of W and b: a part of the outputs of a linear layer.

    The rows are of `kinds` equal blocks, as of queries, keys and values; each rank has its part of every block.
    """

    def __init__(self, linear: nn.Linear, f: Callable[[Tensor], Tensor], group: TensorGroup, kinds: int = 1) -> None:
        super().__init__()
        self.f = f
        weight, bias = (
            group.part(whole.view(kinds, -1, *whole.shape[1:]), 1).flatten(0, 1)
            for whole in (linear.weight, linear.bias)
        )
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.f(x), self.weight, self.bias)


class RowParallel(nn.Module):
    """g(W x) + b for this rank's columns of W and its part x of the inputs: a linear layer's whole output."""

    def __init__(self, linear: nn.Linear, g: Callable[[Tensor], Tensor], group: TensorGroup) -> None:
        super().__init__()
        self.g = g
        self.weight, self.bias = nn.Parameter(group.part(linear.weight, 1)), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.g(F.linear(x, self.weight)) + self.bias


class VocabularyParallel(nn.Module):
    """This rank's rows of a table of bytes, and their parts of a GPT's embedding."""

    def __init__(self, table: nn.Embedding, group: TensorGroup) -> None:
        super().__init__()
        self.group, self.weight = group, nn.Parameter(group.part(table.weight, 0))
        self.first = group.mesh.get_local_rank() * len(self.weight)

    def forward(self, text: Tensor) -> Tensor:
        place = text - self.first
        is_own = (place >= 0) & (place < len(self.weight))
        found = F.embedding(place * is_own, self.weight) * is_own.unsqueeze(2)
        return self.group.apply(G_WHOLE, found, "embedding")


class LossParallelGpt(nn.Module):
    """A GPT whose table of bytes is divided, so that each rank computes its part of the logits."""

    def __init__(self, net: Any, group: TensorGroup) -> None:
        super().__init__()
        self.net, self.group = net, group
        net.bytes = VocabularyParallel(net.bytes, group)

    def forward(self, text: Tensor) -> Tensor:
        """Return the log-probabilities [B, 256, T] of a test, for which the logits are gathered."""
        logits = self.group.move(self.net.logits(text), (LOGITS, WHOLE), "logits")
        return F.log_softmax(logits, dim=2).transpose(1, 2)

    def loss(self, text: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss, for which they are not."""
        return self.group.loss(self.net.logits(text), targets)


def divide(net: nn.Module, group: TensorGroup, *, sequence_parallel: bool, loss_parallel: bool) -> list[nn.Parameter]:
    """Divide the blocks of a transformer among the ranks, in place; return the parameters whose gradients are to be
    summed, since each rank applies them to its part of the sequence. With `loss_parallel`, the gradients after the last
    norm are summands.
    """
    f, g = (F_SEQUENCE, G_SEQUENCE) if sequence_parallel else (F_WHOLE, G_WHOLE)
    blocks: Any = net.blocks

    def at(operator: Conjugate, place: str) -> Callable[[Tensor], Tensor]:
        return lambda x: group.apply(operator, x, place)

    summed = [*net.norm.parameters()]  # type: ignore[union-attr]
    for number, block in enumerate(blocks, start=1):
        block.heads //= group.size
        attention, mlp = f"block {number} attention", f"block {number} MLP"
        block.qkv, block.merge = (
            ColumnParallel(block.qkv, at(f, attention), group, kinds=3),
            RowParallel(block.merge, at(g, attention), group),
        )
        block.up, block.down = (
            ColumnParallel(block.up, at(f, mlp), group),
            RowParallel(block.down, at(g, mlp), group),
        )
        summed += [*block.norm1.parameters(), *block.norm2.parameters(), block.merge.bias, block.down.bias]
    after = f if loss_parallel else GATHER
    if sequence_parallel:
        blocks.register_forward_pre_hook(lambda _, given: (at(SPLIT, "sequence")(given[0]),))
    if sequence_parallel or loss_parallel:
        place = "logits" if loss_parallel else "sequence"
        net.norm.register_forward_hook(lambda _, given, normed: at(after, place)(normed))  # type: ignore[union-attr]
    return summed if sequence_parallel else []
