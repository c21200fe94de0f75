"""What the worker and the agents of further nodes send each other: messages, arguments of ranks, and their traces.
Times are the sender's monotonic clock.
"""

import io
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.trace.chunk import DTYPE
from engine.trace.health import ProcessState
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    DEPTH,
    ENTRY,
    HEAD,
    LANE_WORDS,
    LANES,
    NAMES,
    NAMES_AT,
    OPEN,
    RING_AT,
    SIZE,
    SLOT,
    WORD,
)
from engine.trace.ring import TraceMemory


@dataclass(frozen=True)
class ClockPing:
    """The worker asks for the agent's time; also tells that the worker lives."""

    sent: float


@dataclass(frozen=True)
class ClockPong:
    """The answer to a ping."""

    sent: float
    here: float


@dataclass(frozen=True)
class SharedArguments:
    """What all ranks of a node get: the function and its arguments, pickled by `dumps`."""

    content: bytes


@dataclass(frozen=True)
class StartRank:
    """Start a rank; `plan` is pickled by `dumps`."""

    index: int
    plan: bytes


@dataclass(frozen=True)
class WorkerMessage:
    """A message of the worker to a rank."""

    index: int
    message: Any


@dataclass(frozen=True)
class StackQuestion:
    """Ask a rank for its stacks."""

    index: int


@dataclass(frozen=True)
class EndRanks:
    """End the ranks that still run: terminate, then kill after `grace_s`."""

    grace_s: float


@dataclass(frozen=True)
class AgentLeave:
    """The agent's work is done."""


@dataclass(frozen=True)
class RankStarted:
    """A rank's process runs."""

    index: int
    pid: int


@dataclass(frozen=True)
class RankMessage:
    """A message of a rank to the worker."""

    index: int
    message: Any


@dataclass(frozen=True)
class RankClosed:
    """A rank's process has ended."""

    index: int
    exit_code: int | None


@dataclass(frozen=True)
class RankRefused:
    """A rank could not be started."""

    index: int
    why: str


@dataclass(frozen=True)
class FlagChange:
    """Elements of a shared tensor that were written on the sender's node."""

    number: int
    places: Sequence[int]
    values: Sequence[int]


@dataclass(frozen=True)
class TracePart:
    """Parts of a rank's trace memory that have changed: the header, and blocks of the ring by place."""

    index: int
    header: bytes
    blocks: Mapping[int, bytes]


@dataclass(frozen=True)
class ProcessReport:
    """A rank's process as its node sees it."""

    state: ProcessState
    used_s: float
    """Seconds in which its threads have used a core."""
    waited_s: float
    """Seconds in which they have waited for one."""
    memory_mb: float | None
    cpu_percent: float | None


@dataclass(frozen=True)
class NodeReport:
    """The processes of a node's ranks, by rank."""

    processes: Mapping[int, ProcessReport]


# ---- Arguments of ranks on another node ----------------------------------------------------------------------------
# Large tensors are copied; small ones in shared memory, through which ranks tell each other something, are kept the
# same on all nodes: each element has one writer, and its changes are sent on.

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


# ------------------------------------------------------------------------------------------------------------------
# Copies of a rank's trace memory from its node to the worker's, by changed parts, with times of the worker's clock.

BLOCK = 64
"""Entries of a block."""
BLOCK_BYTES = BLOCK * ENTRY.size
BEFORE = 256
"""Entries before the newest one of the last look that are compared again: threads may still have been writing them."""


class TraceSource:
    """The parts of a trace memory that have changed since the last look."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._sent = bytearray(SIZE)
        self._looked_to = 0

    def changes(self) -> TracePart | None:
        """Return the changed parts for rank 0 of a message, None if there are none. The header is read first, so that
        it counts no entry that the blocks lack, and its names again afterwards, so that no entry lacks its name.
        """
        header = bytes(self._memory[:RING_AT])
        if header == self._sent[:RING_AT]:
            return None
        head = int.from_bytes(header[HEAD * WORD : (HEAD + 1) * WORD], "little")
        first = max(0, self._looked_to - BEFORE, head - CAPACITY)
        blocks = {}
        for number in {place % CAPACITY // BLOCK for place in range(first, head + BLOCK, BLOCK)} | {
            head % CAPACITY // BLOCK
        }:
            at = RING_AT + number * BLOCK_BYTES
            content = bytes(self._memory[at : at + BLOCK_BYTES])
            if content != self._sent[at : at + BLOCK_BYTES]:
                blocks[number] = content
                self._sent[at : at + BLOCK_BYTES] = content
        self._sent[:RING_AT] = header
        self._looked_to = head
        return TracePart(0, _with_names(header, self._memory), blocks)


def _with_names(header: bytes | memoryview, names: bytes | memoryview) -> bytes:
    """Return a header with the names of another one."""
    count = slice(NAMES * WORD, (NAMES + 1) * WORD)
    found = bytearray(header[:NAMES_AT]) + bytes(names[NAMES_AT:RING_AT])
    found[count] = names[count]
    return bytes(found)


def write(memory: memoryview, part: TracePart, shift_ns: int) -> None:
    """Bring the worker's copy up to date: names, then the entries that use them, then their count; `shift_ns` is what
    the worker's clock is ahead of the node's.
    """
    memory[:RING_AT] = _with_names(memory[:RING_AT], part.header)
    for number, content in part.blocks.items():
        entries = np.frombuffer(bytearray(content), DTYPE)
        begun = entries["seq"] > 0
        entries["entered_ns"][begun] += shift_ns
        entries["left_ns"][begun] += shift_ns
        at = RING_AT + number * BLOCK_BYTES
        memory[at : at + BLOCK_BYTES] = entries.tobytes()
    words = np.frombuffer(bytearray(part.header), np.int64)
    lanes = words[OPEN : OPEN + LANES * LANE_WORDS].reshape(LANES, LANE_WORDS)[:, 1:].reshape(LANES, DEPTH, SLOT)
    entered = lanes[:, :, 0]
    entered[entered > 0] += shift_ns
    asked = bytes(memory[ASKED * WORD : (ASKED + 1) * WORD])
    memory[:RING_AT] = words.tobytes()
    memory[ASKED * WORD : (ASKED + 1) * WORD] = asked
