"""The trace of one rank, in memory shared with its worker: the rank writes what it does, and pays about a microsecond
for an operation.
"""

import fcntl
import itertools
import mmap
import os
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from multiprocessing.reduction import DupFd
from types import TracebackType
from typing import Any

from engine.errors import UnknownName
from engine.metrics import PHASES
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    DEPTH,
    ENTRY,
    HEAD,
    KINDS,
    LANE_WORDS,
    LANES,
    MOST_NAMES,
    MOVED,
    NAME_BYTES,
    NAMES,
    NAMES_AT,
    NO_VERSION,
    NOBODY,
    OPEN,
    PICKED,
    RING_AT,
    SIZE,
    SLOT,
    STEP,
    SUMS,
    WORD,
)


class _Numbers(dict[str, int]):
    """The numbers of names; an unknown name raises `UnknownName`, at no cost for the known ones."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        super().__init__({name: number for number, name in enumerate(names)})
        self.kind = kind

    def __missing__(self, name: str) -> int:
        raise UnknownName(self.kind, str(name), self)


KIND_NUMBERS, PHASE_NUMBERS = _Numbers("kind of operation", KINDS), _Numbers("phase", PHASES)
WAITING = KIND_NUMBERS["wait"]
SHARED = LANES - 1
"""The lane of threads beyond `LANES`; what they are doing is not kept."""
MASK, ENTRY_BYTES = CAPACITY - 1, ENTRY.size
LARGEST = 2**63 - 1
RANGES = {
    "peer": (-(2**15), 2**15 - 1),
    "bytes": (-LARGEST, LARGEST),
    "number": (-LARGEST, LARGEST),
    "version": (-(2**31), 2**31 - 1),
    "value": (-(2**31), 2**31 - 1),
}
"""The smallest and the largest value of an entry's fields."""
_pack = ENTRY.pack_into
_now = time.monotonic_ns


class TraceMemory:
    """Memory for one rank's trace; the worker creates it, and it reaches the rank as an inherited descriptor.

    It has no name, so nothing is left of it once both processes have ended, and it takes nothing of /dev/shm.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = _new_memory()
        self.descriptor = descriptor
        self.memory = memoryview(mmap.mmap(descriptor, SIZE))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (DupFd(self.descriptor),)

    def close(self) -> None:
        """Close the descriptor; the memory stays mapped."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _new_memory() -> int:
    """Return a descriptor of `SIZE` bytes; on Linux no process can change its size, so that no reader is killed."""
    if not sys.platform.startswith("linux"):
        with tempfile.TemporaryFile() as file:
            file.truncate(SIZE)
            return os.dup(file.fileno())
    descriptor = os.memfd_create("trace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def _reopened(descriptor: Any) -> TraceMemory:
    return TraceMemory(descriptor.detach())


class Operation:
    """One operation of a rank, entered and left once: a `with` block. Set `bytes`, `version` and `value` inside it."""

    __slots__ = (
        "_lane",
        "_writer",
        "bytes",
        "entered_ns",
        "flags",
        "kind",
        "name",
        "number",
        "peer",
        "value",
        "version",
    )

    def __init__(self, writer: "TraceWriter", kind: int, name: int, peer: int, number: int, flags: int = 0) -> None:
        self._writer = writer
        self.kind, self.name, self.peer, self.number, self.flags = kind, name, peer, number, flags
        self.bytes = self.value = 0
        self.version = NO_VERSION

    def __enter__(self) -> "Operation":
        writer = self._writer
        self._lane = lane = writer.lane()
        self.entered_ns = now = _now()
        writer.open(lane, now, self.kind | self.name << 8 | (self.peer & 0xFFFF) << 24, self.number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        words, lane, depth = self._writer.words, self._lane, 0
        if lane != SHARED:
            at = OPEN + lane * LANE_WORDS
            words[at] = depth = words[at] - 1
        self._writer.write(self, lane, depth, _now())


class Phase(Operation):
    """A phase of the rank's main thread: its time, less that of the phases inside, counts in the phase's sum."""

    __slots__ = ()

    def __enter__(self) -> "Phase":  # without super(), which takes a fifth of the time of an operation
        writer = self._writer
        self._lane = lane = writer.lane()
        self.entered_ns = now = _now()
        if writer.phases:
            writer.words[SUMS + writer.phases[-1]] += now - writer.since_ns
        writer.phases.append(self.kind)
        writer.since_ns = now
        writer.open(lane, now, self.kind | self.name << 8 | (self.peer & 0xFFFF) << 24, self.number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        writer, lane, depth, now = self._writer, self._lane, 0, _now()
        words = writer.words
        words[SUMS + writer.phases.pop()] += now - writer.since_ns
        writer.since_ns = now
        if lane != SHARED:
            at = OPEN + lane * LANE_WORDS
            words[at] = depth = words[at] - 1
        writer.write(self, lane, depth, now)


class TraceWriter:
    """The rank's side of its trace. Any thread may write; each has a lane. A process that the rank forks writes into a
    copy that nobody reads.
    """

    def __init__(self, memory: memoryview | None = None) -> None:
        self._memory = memoryview(bytearray(SIZE)) if memory is None else memory
        self.words = self._memory.cast("q")
        self._next = itertools.count(self.words[HEAD]).__next__
        self._names: dict[str, int] = {}
        self.words[NAMES] = 1  # the worker sees that the rank has begun
        self._naming = threading.Lock()
        self._lanes: dict[int, int] = {threading.get_ident(): 0}
        self.phases: list[int] = []
        """The phases that the main thread is in, by number; `since_ns` is when the innermost one's time last began."""
        self.since_ns = 0
        os.register_at_fork(after_in_child=_leave(weakref.ref(self)))

    # ---- operations

    def operation(
        self, kind: str, name: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> Operation:
        """Return an operation to use as a `with` block; `kind` is one of `layout.KINDS`, `peer` a rank's index."""
        return Operation(self, KIND_NUMBERS[kind], self.name(name), peer, number, PICKED if picked else 0)

    def phase(self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False) -> Phase:
        """Return a phase (one of engine.metrics.PHASES) to use as a `with` block in the rank's main thread."""
        return Phase(self, PHASE_NUMBERS[name], self.name(what), peer, number, PICKED if picked else 0)

    def note(
        self, kind: str, name: str, *, peer: int = NOBODY, number: int = 0, version: int = NO_VERSION, value: int = 0
    ) -> None:
        """Write an entry without duration."""
        operation = Operation(self, KIND_NUMBERS[kind], self.name(name), peer, number)
        operation.version, operation.value = version, value
        operation.entered_ns = now = _now()
        lane = self.lane()
        self.write(operation, lane, self.words[OPEN + lane * LANE_WORDS], now)

    # ---- what operations are made of

    def name(self, text: str) -> int:
        """Return the number of a name, which is written down at its first use; number 0 stands for further names."""
        number = self._names.get(text)
        if number is None:
            with self._naming:
                number = self._names.get(text)
                if number is None:
                    number = len(self._names) + 1
                    if number >= MOST_NAMES:
                        return 0
                    at = NAMES_AT + number * NAME_BYTES
                    encoded = text.encode(errors="replace")[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
                    self._memory[at : at + NAME_BYTES] = encoded
                    self._names[text] = number
                    self.words[NAMES] = number + 1
        return number

    def lane(self) -> int:
        """Return the lane of the calling thread."""
        ident = threading.get_ident()
        lane = self._lanes.get(ident)
        if lane is None:
            with self._naming:
                lane = self._lanes[ident] = self._free_lane()
        return lane

    def _free_lane(self) -> int:
        """Return a lane that no thread has, if need be that of a thread that runs no Python code any more."""
        if len(self._lanes) >= SHARED:
            alive = sys._current_frames()
            self._lanes = {ident: lane for ident, lane in self._lanes.items() if ident in alive or not lane}
        lane: int = min(set(range(LANES)) - {each for each in self._lanes.values() if each != SHARED})
        if lane != SHARED:
            self.words[OPEN + lane * LANE_WORDS] = 0
        return lane

    def open(self, lane: int, entered_ns: int, what: int, number: int) -> None:
        """Note what a thread does from now on, around further operations."""
        if lane == SHARED:
            return
        words, at = self.words, OPEN + lane * LANE_WORDS
        depth = words[at]
        if depth < DEPTH:
            slot = at + 1 + depth * SLOT
            words[slot] = entered_ns
            words[slot + 1] = what
            words[slot + 3] = words[STEP]
            try:
                words[slot + 2] = number
            except ValueError:  # it does not fit
                words[slot + 2] = 0
        words[at] = depth + 1

    def write(self, done: Operation, lane: int, depth: int, left_ns: int) -> None:
        """Write the entry of an operation; its sequence number, which makes it valid, last."""
        words, index = self.words, self._next()
        at = RING_AT + (index & MASK) * ENTRY_BYTES
        while True:
            try:
                _pack(
                    self._memory,
                    at,
                    0,
                    done.entered_ns,
                    left_ns,
                    done.kind,
                    lane,
                    done.name,
                    done.peer,
                    depth,
                    done.flags,
                    done.bytes,
                    words[STEP],
                    done.number,
                    done.version,
                    done.value,
                )
                break
            except struct.error:  # a number that does not fit: seldom, so that a check of each would cost more
                depth = max(0, min(depth, 255))
                for field, (low, high) in RANGES.items():
                    setattr(done, field, max(low, min(high, getattr(done, field))))
        index += 1
        words[at // WORD] = words[HEAD] = index
        if done.kind != WAITING:
            words[MOVED] = index

    @property
    def asked(self) -> int:
        """How often the worker has asked for the stacks."""
        return self.words[ASKED]

    # ---- phases

    def spend(self, phase: str, seconds: float) -> None:
        """Add to the sum of a phase, from any thread; negative seconds subtract."""
        with self._naming:
            self.words[SUMS + PHASE_NUMBERS[phase]] += round(seconds * 1e9)

    def log_step(self, step: int) -> None:
        """Note the rank's last logged step, which further entries carry."""
        self.words[STEP] = step
        self.words[MOVED] = -step  # a step is progress even where it leaves no entry

    def sums(self) -> dict[str, float]:
        """Return the seconds of each phase that has any."""
        return sums_of(self.words)

    def clear_sums(self) -> None:
        """Set the sums to 0."""
        self.since_ns = _now()
        for phase in range(len(PHASES)):
            self.words[SUMS + phase] = 0


def _leave(reference: "weakref.ref[TraceWriter]") -> Callable[[], None]:
    """Return the function that a forked process calls, so that its operations don't mix with those of its parent."""

    def leave() -> None:
        if (writer := reference()) is not None:
            writer._memory = memoryview(bytearray(writer._memory))
            writer.words = writer._memory.cast("q")
            writer._naming = threading.Lock()

    return leave


def sums_of(words: memoryview) -> dict[str, float]:
    """Return the seconds of each phase that has any."""
    return {phase: words[SUMS + number] / 1e9 for number, phase in enumerate(PHASES) if words[SUMS + number]}
