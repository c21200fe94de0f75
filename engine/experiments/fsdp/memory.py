"""A trainer's memory by kind over the moments of a step, exact to the byte.

Each storage counts once, for what it holds: `parameters` (a trainer's parts, and blocks that are gathered), `gradients`
(of a whole block until they are reduced, then the trainer's parts), `optimizer` (its state), `activations` (what
autograd keeps for the backward) and `buffers` (of collective operations). Intermediate results of an operator, and
copies for a collective operation in another precision, are not seen. Only memory on the trainer's own device counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer

from engine.experiments.fsdp.collectives import TrainerLinks
from engine.plugin import Rank

STATE, OTHERS = ("parameters", "gradients", "optimizer"), ("activations", "buffers")
MB = 1e6


class MemoryMeter:
    """Measures one trainer's memory in chosen steps; in others it costs a call per block and per gradient."""

    def __init__(self, rank: Rank, blocks: Sequence[nn.Module], optimizer: Optimizer, links: TrainerLinks) -> None:
        self._rank = rank
        self._links = links
        self._optimizer = optimizer
        self._is_on = False
        self._parts = list(blocks[-1].parameters())
        """A trainer's parts of all parameters, whole ones in DDP."""
        self._whole: dict[int, Tensor] = {}
        """Parameters of blocks by storage, which is empty while they are not gathered."""
        self._held: dict[StorageWeakRef, tuple[str, int]] = {}
        """Kind and bytes of other storages, until they are freed."""
        for block in blocks:
            block.register_forward_pre_hook(self._before_forward)
            block.register_forward_hook(self._after_forward, prepend=True)  # before FSDP frees its parameters

    @contextmanager
    def step(self, number: int, passes: float) -> Iterator[None]:
        """Measure the step in the block, and record its moments."""
        self._is_on, self._links.tag, self._peak, self._at = True, self._tag, 0, (number, passes)
        try:
            self.moment()
            with torch.autograd.graph.saved_tensors_hooks(self._save, _restore):
                yield
            self.moment()
        finally:
            self._is_on, self._links.tag = False, lambda kind, tensor: None
        self._log({"perf/memory_state": self._peak / MB})

    def moment(self) -> None:
        """Record the memory of each kind now, if this step is measured."""
        if self._is_on:
            for part in self._parts:
                if part.grad is not None:
                    self._tag("gradients", part.grad)  # DDP's buckets stay when this is None
            sizes = self.sizes()
            self._peak = max(self._peak, sum(sizes[kind] for kind in STATE))
            self._log({f"perf/memory_{kind}": size / MB for kind, size in sizes.items()})

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each kind."""
        found: dict[str, dict[int, int]] = {kind: {} for kind in (*STATE, *OTHERS)}
        for held, (kind, size) in list(self._held.items()):
            if held.expired():  # type: ignore[no-untyped-call]
                del self._held[held]
            else:
                found[kind][held.cdata] = size
        state = [each for own in self._optimizer.state.values() for each in own.values() if isinstance(each, Tensor)]
        for kind, tensors in (("parameters", [*self._parts, *self._whole.values()]), ("optimizer", state)):
            for storage in map(_storage, tensors):
                if self._is_here(storage):
                    found[kind][storage._cdata] = storage.nbytes()
        return {kind: sum(each.values()) for kind, each in found.items()}

    def _log(self, values: Mapping[str, float]) -> None:
        number, passes = self._at
        self._rank.recorder.log(values, step=number, passes=passes)

    # ---- What happens during a step ------------------------------------------------------------------------------

    def _before_forward(self, block: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Follow a block's gathered parameters, and measure; in the backward too, before its gradients are reduced."""
        for parameter in block.parameters():
            if not isinstance(parameter, DTensor) and (key := _storage(parameter)._cdata) not in self._whole:
                self._whole[key] = parameter
                parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
        self.moment()
        for tensor in inputs if self._is_on else ():
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda gradient: self.moment())  # type: ignore[no-untyped-call]

    def _after_forward(self, block: nn.Module, inputs: Any, output: Any) -> None:
        self.moment()

    def _accumulated(self, parameter: Tensor) -> None:
        self._links.gradient_ready()
        if self._is_on and parameter.grad is not None:
            self._tag("gradients", parameter.grad)

    def _save(self, tensor: Tensor) -> Tensor:
        """Note a tensor that autograd keeps; return it without its graph, which would keep itself alive."""
        if _storage(tensor)._cdata not in self._whole:
            self._tag("activations", tensor)
        return tensor.detach()

    def _tag(self, kind: str, tensor: Tensor) -> None:
        storage = _storage(tensor)
        if self._is_here(storage):
            self._held[StorageWeakRef(storage)] = kind, storage.nbytes()  # type: ignore[no-untyped-call]
        if kind == "buffers":
            self.moment()

    def _is_here(self, storage: torch.UntypedStorage) -> bool:
        return storage.device.type == self._rank.device.type


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    with torch.no_grad():
        return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).untyped_storage()


def _restore(tensor: Tensor) -> Tensor:
    return tensor
