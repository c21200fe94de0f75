"""Arguments of ranks on another node. Large tensors are copied; small ones in shared memory, through which ranks tell
each other something, are kept the same on all nodes: each element has one writer, and its changes are sent on.
"""

import io
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.runtime.nodes.messages import FlagChange
from engine.trace.ring import TraceMemory

SMALL_BYTES = 16_384
"""A shared tensor of up to this size is kept the same on all nodes."""
_WHOLE = (torch.uint8, torch.int32, torch.int64)


class SharedFlags:
    """The small shared tensors of a run on one node, by number."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._known: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._lock = threading.Lock()

    def number_of(self, tensor: Tensor) -> int:
        """Return the number of a tensor, adding it if it is new."""
        key = tensor.data_ptr()
        if key not in self._numbers:
            self._numbers[key] = self.add(tensor)
        return self._numbers[key]

    def add(self, tensor: Tensor) -> int:
        """Add a tensor under the next number, and return that."""
        with self._lock:
            self.tensors.append(tensor)
            self._known.append(tensor.clone())
            return len(self.tensors) - 1

    def changes(self) -> Iterator[FlagChange]:
        """Yield what was written here since the last call."""
        with self._lock:
            all_ = list(zip(self.tensors, self._known, strict=True))
        for number, (tensor, known) in enumerate(all_):
            now = tensor.clone()
            if not torch.equal(now, known):
                places = torch.nonzero(now.flatten() != known.flatten()).flatten().tolist()
                known.copy_(now)
                flat = now.flatten()
                yield FlagChange(number, places, [int(flat[place]) for place in places])

    def take(self, change: FlagChange) -> None:
        """Write what was written on another node."""
        for tensor in (self.tensors[change.number], self._known[change.number]):
            flat = tensor.view(-1)
            for place, value in zip(change.places, change.values, strict=True):
                flat[place] = value


def dumps(value: Any, flags: SharedFlags) -> bytes:
    """Pickle a value for another node; raises what pickle raises for what can't leave this machine."""
    file = io.BytesIO()
    _Pickler(file, flags).dump(value)
    return file.getvalue()


def loads(content: bytes, flags: SharedFlags) -> Any:
    """Return a value that `dumps` pickled on another node; its small shared tensors are added to `flags`."""
    return _Unpickler(io.BytesIO(content), flags).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, flags: SharedFlags) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._flags = flags

    def persistent_id(self, value: Any) -> tuple[Any, ...] | None:
        if isinstance(value, TraceMemory):
            return ("trace",)
        if not isinstance(value, Tensor) or value.device.type != "cpu" or value.requires_grad:
            return None
        is_shared = bool(value.is_shared())  # type: ignore[no-untyped-call]
        if is_shared and value.dtype in _WHOLE and value.nbytes <= SMALL_BYTES and value.is_contiguous():
            return ("flags", self._flags.number_of(value), value.numpy().copy())
        if type(value) is Tensor and value.dtype is not torch.bfloat16 and not value.is_sparse:
            return ("copy", is_shared, np.ascontiguousarray(value.numpy()))
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, flags: SharedFlags) -> None:
        super().__init__(file)
        self._flags = flags

    def persistent_load(self, found: tuple[Any, ...]) -> Any:
        makers: dict[str, Callable[..., Any]] = {"trace": TraceMemory, "flags": self._flag, "copy": _copied}
        return makers[found[0]](*found[1:])

    def _flag(self, number: int, values: Any) -> Tensor:
        if number == len(self._flags.tensors):  # tensors are numbered in the order in which they are first met
            self._flags.add(torch.from_numpy(values.copy()).share_memory_())  # type: ignore[no-untyped-call]
        return self._flags.tensors[number]


def _copied(was_shared: bool, values: Any) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor.share_memory_() if was_shared else tensor  # type: ignore[no-untyped-call]
