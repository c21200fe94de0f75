"""One stage of the net: forward, backward and update of its own layers, and what it holds in between."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.data.weights import FlatSgd, bind, flat_weights
from engine.errors import RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.cutting import train_mode
from engine.experiments.pipeline.fault import Fault, named

MB = 1e6


class _Held(NamedTuple):
    """What a micro-batch leaves behind between its forward and its backward."""

    inputs: Tensor
    result: Tensor


class Stage:
    """Some layers of the net, their weights in one flat vector, and the activations that wait for their backward."""

    def __init__(self, config: PipelineConfig, number: int, layers: Sequence[nn.Module], device: torch.device) -> None:
        self.config = config
        self.number = number
        self.is_last = number == config.stages - 1
        self.role = config.stage_roles[number]
        self.net = nn.Sequential(*layers).to(device)
        train_mode(self.net, config)
        self.weights = flat_weights(self.net).to(device)
        self.gradient = bind(self.net, self.weights)
        self.optimizer = FlatSgd(self.weights, self.gradient, config.learning_rate, config.momentum)
        self.held: dict[int, _Held] = {}
        self.memory = Activations(self.weights)
        self.fault = Fault(config, number)
        self.strange = torch.zeros(3, dtype=torch.bool, device=device)
        """Whether what came in, what went out, and the gradient of that held a NaN or an infinity since the last
        update.
        """
        self.batch = 0
        self.net.register_forward_hook(self._look)

    def _look(self, net: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
        """Look out for numbers gone bad; a sum holds a NaN if any number does, and costs little beside the layers."""
        if not torch.is_grad_enabled():
            return
        self.strange[:2] |= torch.stack([inputs[0].detach().sum(), outputs.detach().sum()]).isfinite().logical_not_()
        if not self.is_last:
            outputs.register_hook(self._look_back)  # type: ignore[no-untyped-call]

    def _look_back(self, gradient: Tensor) -> None:
        self.strange[2] |= ~gradient.sum().isfinite()

    def forward(self, micro_batch: int, inputs: Tensor) -> Tensor:
        """Return the activations [n, …] of a micro-batch, and hold what its backward needs."""
        inputs = inputs.detach().requires_grad_(self.number > 0)
        with named(self.role, "forward", self.batch, micro_batch), self.memory.kept(micro_batch):
            outputs: Tensor = self.net(inputs)
        self.held[micro_batch] = _Held(inputs, outputs)
        return outputs

    def loss(self, micro_batch: int, targets: Tensor) -> Tensor:
        """Return the last stage's share [] of the batch's mean loss; its backward starts there."""
        held = self.held[micro_batch]
        with named(self.role, "loss", self.batch, micro_batch), self.memory.kept(micro_batch):
            loss = loss_of(held.result, targets, self.config) * (len(targets) / self.config.batch_size)
        self.held[micro_batch] = held._replace(result=loss)
        return loss.detach()

    def backward(self, micro_batch: int, gradient: Tensor | None) -> Tensor | None:
        """Add the micro-batch's gradient to the stage's; return that of what came in [n, …], None for the
        first stage.
        """
        held = self.held.pop(micro_batch)
        with named(self.role, "backward", self.batch, micro_batch):
            self.fault.strike(self.batch, micro_batch, self.weights)
            torch.autograd.backward(held.result, gradient)
        self.memory.freed(micro_batch)
        return held.inputs.grad

    def update(self) -> None:
        """Make one step of SGD with the gradient of the whole batch, and begin the next. Raises RunFailed as `check`
        does.
        """
        self.check(self.gradient)
        self.optimizer.step()
        self.gradient.zero_()
        self.memory.counting = False
        self.batch += 1

    def check(self, gradient: Tensor) -> None:
        """Raise RunFailed where numbers went bad in this stage first: in what it gave on, or in `gradient` (or the
        weights that it went into).
        """
        came, went, came_back = self.strange.tolist()
        self.strange.zero_()
        what = "activations" if went and not self.is_last else "loss" if went else "gradient"
        if not came and (went or (not came_back and not gradient.sum().isfinite())):
            raise RunFailed(
                f"{self.role}'s {what} became NaN or infinite in batch {self.batch + 1}, from finite inputs. "
                f"Lower learning_rate ({self.config.learning_rate})."
            )

    @torch.no_grad()
    def test(self, inputs: Tensor, net: nn.Module | None = None) -> Tensor:
        """Return the activations of images that are only tested on: batch-norm by its running statistics, nothing held.

        `net` is the stage's as another shape of its inputs wants it.
        """
        self.net.eval()
        outputs: Tensor = (net or self.net)(inputs)
        train_mode(self.net, self.config)
        return outputs


def loss_of(outputs: Tensor, targets: Tensor, config: PipelineConfig) -> Tensor:
    """Return the mean loss of outputs [n, classes] against targets: one-hot [n, classes] for mse, classes [n] for
    cross_entropy.
    """
    return mse_loss(outputs, targets) if config.loss == "mse" else cross_entropy(outputs, targets)


class Activations:
    """Bytes that wait for backwards, counted in the first batch, in which each micro-batch's tensors are told apart by
    their memory.
    """

    def __init__(self, weights: Tensor) -> None:
        self._own = weights.untyped_storage().data_ptr()
        self._sizes: dict[int, dict[int, int]] = {}
        self.counting = True
        """Whether sizes are not known yet."""
        self._held: dict[int, int] = {}
        self.most = 0
        """The most bytes held at one time."""

    @contextmanager
    def kept(self, micro_batch: int) -> Iterator[None]:
        """Count what autograd keeps for the way back in the block."""
        with (
            torch.autograd.graph.saved_tensors_hooks(self._count_in(micro_batch), _same)
            if self.counting
            else nullcontext()
        ):
            yield
        self._held[micro_batch] = sum(self._sizes.get(micro_batch, {}).values())
        self.most = max(self.most, sum(self._held.values()))

    def _count_in(self, micro_batch: int):  # type: ignore[no-untyped-def]
        sizes = self._sizes.setdefault(micro_batch, {})

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() != self._own:
                slot = storage.is_shared()  # part of a larger memory
                sizes[tensor.data_ptr() if slot else storage.data_ptr()] = tensor.nbytes if slot else storage.nbytes()
            return tensor.detach()  # the tensor itself would keep its own graph alive

        return pack

    def freed(self, micro_batch: int) -> None:
        """Count a micro-batch out."""
        self._held.pop(micro_batch, None)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def forget_peak(device: torch.device) -> None:
    """Let the peak of memory count from now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb(device: torch.device) -> float:
    """Return the most memory that this process had since then, in MB: of the GPU where it computes on one, of the
    machine otherwise.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / MB
    with suppress(OSError, StopIteration):
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
