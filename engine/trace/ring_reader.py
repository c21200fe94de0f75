"""The worker's side of the ranks' traces: reads them without a rank's help, so also where it is stuck or dead, and
chooses what is stored.

The rank can write anything into the memory: no value of it is used as a size, a place or a time unchecked.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.trace.chunk import DTYPE, Entries, TraceChunk
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    DEPTH,
    ENTRY,
    HEAD,
    KINDS,
    LANE_WORDS,
    LANES,
    LATEST_NS,
    MOST_NAMES,
    MOVED,
    NAME_BYTES,
    NAMES,
    NAMES_AT,
    OPEN,
    PICKED,
    RING_AT,
    SLOT,
    STEP,
    WORD,
    TraceWindow,
    unpacked,
)
from engine.trace.ring import sums_of


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """What a thread of a rank is doing: the time it entered (monotonic clock, ns), and what the entry will say."""

    entered_ns: int
    kind: str
    name: str
    peer: int
    number: int
    step: int
    lane: int


class TraceReader:
    """Reads one rank's memory; `lost` counts entries that were overwritten before they were read."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("q")
        self._ring = np.frombuffer(memory, DTYPE, CAPACITY, RING_AT)
        self._read = 0
        self._held_back_at = -1
        self.lost = 0

    @property
    def written(self) -> int:
        """Number of entries that the rank has written."""
        return self._words[HEAD]

    @property
    def has_begun(self) -> bool:
        """Whether the rank's process runs so far that it can write."""
        return self._words[NAMES] > 0

    @property
    def moved(self) -> int:
        """A number that changes with each finished operation that is not a wait."""
        return self._words[MOVED]

    @property
    def step(self) -> int:
        """The rank's last logged step."""
        return self._words[STEP]

    @property
    def asked(self) -> int:
        """How often the rank was asked for its stacks."""
        return self._words[ASKED]

    def ask_for_stacks(self) -> None:
        """Ask the rank to write its stacks."""
        self._words[ASKED] = (self._words[ASKED] + 1) % LATEST_NS

    def sums(self) -> dict[str, float]:
        """Return the seconds of each phase that has any."""
        return sums_of(self._words)

    def names(self) -> list[str]:
        """Return the names by number."""
        found = [""]
        for number in range(1, min(self._words[NAMES], MOST_NAMES)):
            at = NAMES_AT + number * NAME_BYTES
            found.append(
                bytes(self._memory[at : at + NAME_BYTES]).rstrip(b"\0").decode(errors="ignore")
            )  # one that is cut
        return found

    def drain(self) -> Entries:
        """Return the entries written since the last call, in order; count those that were overwritten meanwhile.

        An entry that a thread is just writing is left for the next call, once: if it is still not complete then, its
        rank was stopped while it wrote. Entries that no writer makes are left out and count as lost.
        """
        # a thread that was interrupted may set the head back for a moment
        head = max(self._read, min(self.written, LATEST_NS - 1))
        while self._words[(RING_AT + head % CAPACITY * ENTRY.size) // WORD] == head + 1:
            head += 1
        first = max(self._read, head - CAPACITY)
        self.lost += first - self._read
        found = self._copy(first, head)
        expected = np.arange(first + 1, head + 1, dtype=np.uint64)
        written = found["seq"]
        unfinished = np.flatnonzero(written < expected)
        if len(unfinished) and self._held_back_at != (held := first + int(unfinished[0])):
            self._held_back_at, head = held, held
            count = held - first
            found, expected, written = found[:count], expected[:count], written[:count]
        still = self._ring["seq"][np.arange(first, head) % CAPACITY]
        valid = (written == expected) & (still == expected) & _is_possible(found)
        self.lost += int(len(valid) - valid.sum())
        self._read = head
        whole: Entries = found[valid]
        return whole

    def _copy(self, first: int, end: int) -> Entries:
        copied: Entries = self._ring[np.arange(first, end) % CAPACITY]
        return copied

    def open_operations(self) -> list[OpenOperation]:
        """Return what each thread is doing, the outermost operation first; the main thread's come first."""
        names, found = self.names(), []
        for lane in range(LANES):
            at = OPEN + lane * LANE_WORDS
            for depth in range(min(DEPTH, max(0, self._words[at]))):
                entered, what, number, step = self._words[at + 1 + depth * SLOT : at + 1 + (depth + 1) * SLOT]
                kind, name, peer = unpacked(what)
                if kind < len(KINDS) and name < len(names):
                    found.append(OpenOperation(entered, KINDS[kind], names[name], peer, number, step, lane))
        return found


def _is_possible(entries: Entries) -> Entries:
    """Return which entries have values that can be stored."""
    times = (entries["entered_ns"] >= 0) & (entries["left_ns"] >= entries["entered_ns"])
    known = (entries["kind"] < len(KINDS)) & (entries["lane"] < LANES) & (entries["name"] < MOST_NAMES)
    found: Entries = times & known & (entries["left_ns"] < LATEST_NS)
    return found


# ---- Which operations of a run are stored --------------------------------------------------------------------------
# Those of its start, of samples in between, of its end, and what was asked for. Everything is recorded, but a run of
# hours has more operations than anybody can look at. A window is the same stretch of time for all ranks, and holds
# several steps of the slowest one.

SECOND = 1_000_000_000
START_S, END_S = 2.0, 0.5
"""Seconds stored at the start and at the end."""
EVERY_S = 5.0
"""Seconds between samples at first; later it is a share of the run's age, so that samples cover a run of any length."""
PER_AGE = 20
"""Samples within a run's age at most: after 20 minutes, one a minute."""
DOUBLINGS = 16
"""Times that a run's age may double, from seconds to days, before its budget is used."""
STEPS = 4
"""Steps of the slowest rank in a sample."""
SHORTEST_S, LONGEST_S = 0.2, 5.0
"""Limits of a sample's length."""
PER_WINDOW = 20_000
"""Entries of one rank after which a window ends early, for all ranks."""
BUDGET = 300_000
"""Entries of a run, beside those at its end and those asked for."""
TAIL = 5_000
"""Latest entries of one rank that are kept in memory until the run's end."""


class TraceSampler:
    """Chooses the entries to store."""

    def __init__(self, ranks: int) -> None:
        self.windows: list[TraceWindow] = []
        self._tails: list[deque[Entries]] = [deque() for _ in range(ranks)]
        self._counts = [0] * ranks
        """Entries of each rank in the last window."""
        self._kept = self._kept_at_start = 0
        self._next_ns = 0
        self._seen: tuple[int, list[int]] = (0, [0] * ranks)
        """The time of the last sample, and the steps that each rank had made by then."""

    def begin(self, zero_ns: int) -> None:
        """Begin with the window of the start, when all ranks are ready."""
        self._seen = (zero_ns, self._seen[1])
        self._open(TraceWindow(zero_ns, zero_ns + round(START_S * SECOND), "start"))

    def extend(self, now_ns: int, steps: Sequence[int]) -> None:
        """Open the next sample if it is due; `steps` are the steps that each rank has made."""
        if not self.windows or now_ns < self._next_ns or self._kept >= BUDGET:
            return
        at, before = self._seen
        slowest = min((step - then for step, then in zip(steps, before, strict=True) if step > then), default=0)
        step_s = (now_ns - at) / SECOND / slowest if slowest else SHORTEST_S
        self._seen = (now_ns, list(steps))
        length_s = min(max(STEPS * step_s, SHORTEST_S), LONGEST_S)
        self._open(TraceWindow(now_ns, now_ns + round(length_s * SECOND), "sample"))

    def request(self, now_ns: int, seconds: float) -> None:
        """Store everything from now on for that long."""
        self._open(TraceWindow(now_ns, now_ns + round(seconds * SECOND), "request"))

    def choose(self, rank: int, entries: Entries) -> Entries:
        """Return those of a rank's next entries that are stored now; keep the latest others for the end."""
        inside = self._inside(entries["entered_ns"])
        chosen: Entries = entries[inside]
        self._limit(rank, chosen)
        self._remember(rank, entries[~inside])
        return chosen

    def finish(self, now_ns: int) -> list[Entries]:
        """Return the last entries of each rank that are not stored yet, those since `END_S` before the end."""
        begin = now_ns - round(END_S * SECOND)
        if self.windows and (last := self.windows[-1]).end_ns > begin:
            begin = min(now_ns, last.end_ns)
            self.windows[-1] = TraceWindow(last.begin_ns, begin, last.reason)
        if begin < now_ns:
            self.windows.append(TraceWindow(begin, now_ns, "end"))
        found = []
        for tail in self._tails:
            entries = np.concatenate(list(tail)) if tail else np.empty(0, DTYPE)
            found.append(entries[entries["left_ns"] >= begin])
            tail.clear()
        return found

    def _open(self, window: TraceWindow) -> None:
        if self.windows and self.windows[-1].end_ns > window.begin_ns:
            last = self.windows.pop()
            window = TraceWindow(last.begin_ns, max(last.end_ns, window.end_ns), window.reason)
        else:
            self._counts = [0] * len(self._counts)
        self.windows.append(window)
        self._next_ns = window.end_ns + self._wait_ns(window.end_ns)

    def _wait_ns(self, now_ns: int) -> int:
        """Return the time until the next sample: longer where samples hold much, so that the budget lasts."""
        samples = len(self.windows) - 2  # those that are complete
        if samples <= 0:
            self._kept_at_start = self._kept
            return round(EVERY_S * SECOND)
        cost = (self._kept - self._kept_at_start) / samples
        share = max(1 / PER_AGE, cost * DOUBLINGS / max(1, BUDGET - self._kept_at_start))
        return round(max(EVERY_S * SECOND, share * (now_ns - self.windows[0].begin_ns)))

    def _inside(self, entered: Entries) -> Entries:
        """Return which of these times lie in a window."""
        if not self.windows:
            return np.zeros(len(entered), bool)
        begins = np.array([window.begin_ns for window in self.windows])
        ends = np.array([window.end_ns for window in self.windows])
        at = np.searchsorted(begins, entered, "right") - 1
        inside: Entries = (at >= 0) & (entered < ends[at])
        return inside

    def _limit(self, rank: int, chosen: Entries) -> None:
        """Count what is stored; end the window where a rank has stored enough of it."""
        if not len(chosen):
            return
        self._kept += len(chosen)
        last = self.windows[-1]
        self._counts[rank] += int((chosen["entered_ns"] >= last.begin_ns).sum())
        if self._counts[rank] > PER_WINDOW and last.reason != "request":
            end = min(last.end_ns, int(chosen["entered_ns"].max()) + 1)
            self.windows[-1] = TraceWindow(last.begin_ns, end, last.reason)

    def _remember(self, rank: int, entries: Entries) -> None:
        tail = self._tails[rank]
        if len(entries):
            tail.append(entries[-TAIL:])
        while len(tail) > 1 and sum(map(len, tail)) - len(tail[0]) >= TAIL:
            tail.popleft()


class TraceCollector:
    """Reads what the ranks have traced, and keeps what is to be stored."""

    def __init__(self, readers: Sequence[TraceReader]) -> None:
        self._readers = readers
        self.sampler = TraceSampler(len(readers))
        self._lost = [0] * len(readers)
        self._told: list[TraceWindow] = []

    def begin(self, zero_s: float) -> None:
        """Begin with the run, whose ranks have all been ready since that time (monotonic, s)."""
        self.sampler.begin(round(zero_s * 1e9))

    def request(self, seconds: float) -> None:
        """Store all operations from now on for so long."""
        self.sampler.request(time.monotonic_ns(), seconds)

    def collect(self, final: bool = False) -> list[tuple[TraceChunk | None, TraceChunk | None]]:
        """Return each rank's new picked operations, and the operations to store now."""
        now, found = time.monotonic_ns(), []
        drained = [reader.drain() for reader in self._readers]
        self.sampler.extend(now, [reader.step for reader in self._readers])
        chosen = [self.sampler.choose(rank, entries) for rank, entries in enumerate(drained)]
        if final:
            chosen += self.sampler.finish(now)
        for rank, reader in enumerate(self._readers):
            names = reader.names()
            entries = [each for each in chosen[rank :: len(self._readers)] if len(each)]
            lost, self._lost[rank] = reader.lost - self._lost[rank], reader.lost
            picked = drained[rank][drained[rank]["flags"] & PICKED > 0]
            found.append(
                (
                    TraceChunk.of(rank, names, [picked]) if len(picked) else None,
                    TraceChunk.of(rank, names, entries, lost) if entries else None,
                )
            )
        return found

    def new_windows(self) -> list[TraceWindow]:
        """Return the windows that are new, or have changed, since the last call."""
        new = [window for window in self.sampler.windows if window not in self._told]
        self._told = list(self.sampler.windows)
        return new
