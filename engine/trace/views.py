"""A trace for viewers: the rectangles of our picture, and Chrome's format."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.trace.layout import EVERYBODY, KINDS, NO_VERSION
from engine.trace.timeline import Messages, Positions, RunTrace

# ---- What is drawn in one picture: at most `MOST` rectangles, whatever the number of operations --------------------

MOST = 2_000
"""Rectangles in a picture."""
MOST_ARROWS = 300
"""Messages above which a picture shows none, since their arrows would hide everything."""

MOST_ANALYSED = 50_000
"""Operations of a stretch up to which its messages and its critical path are found."""


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Operations to draw. A row is 2 x rank for its main thread, and one more for its other threads."""

    rows: NDArray[np.int64]
    inner: NDArray[np.bool_]
    """Whether it lies inside another operation of its thread."""
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kinds: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Operations that a rectangle stands for; one that stands for several has the kind that takes the most time."""
    positions: Positions
    """The operation, or one of several."""

    def __len__(self) -> int:
        return len(self.rows)


def rectangles(trace: RunTrace, begin_ns: int, end_ns: int) -> Rectangles:
    """Return what to draw of the operations between two times; short neighbours are drawn as one."""
    entries = trace.entries
    until = int(np.searchsorted(entries["entered_ns"], end_ns))
    left = entries["left_ns"][:until]
    at = np.flatnonzero((left >= begin_ns) & (left > entries["entered_ns"][:until]))
    whole = _whole(trace, at)
    if len(at) <= MOST:
        return whole
    groups, group = _dense(whole.rows * 2 + whole.inner)
    bins = max(1, MOST // (2 * len(groups)))
    width = -(-(end_ns - begin_ns) // bins)
    is_long = whole.end_ns - whole.begin_ns >= width
    merged = _merged(_some(whole, ~is_long), groups, group[~is_long], begin_ns, width, bins)
    long = _some(whole, is_long)
    return Rectangles(*(np.concatenate([getattr(part, name) for part in (long, merged)]) for name in _NAMES))


def _dense(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct small values, and the index of each value among them."""
    used = np.flatnonzero(np.bincount(values))
    index = np.zeros(int(values.max()) + 1, np.int64)
    index[used] = np.arange(len(used))
    return used, index[values]


_NAMES = ("rows", "inner", "begin_ns", "end_ns", "kinds", "counts", "positions")


def _whole(trace: RunTrace, at: Positions) -> Rectangles:
    found = trace.entries[at]
    return Rectangles(
        trace.ranks[at].astype(np.int64) * 2 + (found["lane"] > 0),
        found["depth"] > 0,
        found["entered_ns"].astype(np.int64),
        found["left_ns"].astype(np.int64),
        found["kind"].astype(np.int64),
        np.ones(len(at), np.int64),
        at,
    )


def _some(all_of_them: Rectangles, chosen: NDArray[np.bool_]) -> Rectangles:
    return Rectangles(*(getattr(all_of_them, name)[chosen] for name in _NAMES))


def _merged(
    short: Rectangles, groups: NDArray[np.int64], group: NDArray[np.int64], begin_ns: int, width: int, bins: int
) -> Rectangles:
    """Return one rectangle for the operations of a row that begin in the same bin: from the first to the last, with the
    kind that takes the most time.
    """
    cell = group * bins + np.clip((short.begin_ns - begin_ns) // width, 0, bins - 1)
    count, kinds = len(groups) * bins, len(KINDS)
    time = np.bincount(cell * kinds + short.kinds, short.end_ns - short.begin_ns, count * kinds).reshape(count, kinds)
    begin, end, position = (np.zeros(count, np.int64) for _ in range(3))
    begin[cell[::-1]] = short.begin_ns[::-1]  # of several values the last is kept: the first, as they are sorted
    np.maximum.at(end, cell, short.end_ns)
    position[cell] = short.positions
    counts = np.bincount(cell, minlength=count)
    used = np.flatnonzero(counts)
    row = groups[used // bins]
    return Rectangles(
        row // 2, row % 2 == 1, begin[used], end[used], time[used].argmax(1), counts[used], position[used]
    )


def arrows(messages: Messages, begin_ns: int, end_ns: int) -> tuple[Positions, int]:
    """Return the messages between two times, by index, and their number; none if too many."""
    found = np.flatnonzero((messages.got_ns >= begin_ns) & (messages.sent_ns <= end_ns))
    return (found if len(found) <= MOST_ARROWS else found[:0]), len(found)


# ---- A trace in Chrome's JSON format, which Perfetto's viewer (ui.perfetto.dev) and chrome://tracing open ----------
# Format: "Trace Event Format", Google. One thread per rank; operations of a rank's further threads, which may overlap,
# are asynchronous events of the same thread.

PROCESS = 1
FIRST_THREAD = 1
"""The thread of rank 0. Perfetto takes thread 0 for a core's idle task and leaves its name out."""


def chrome_lines(trace: RunTrace, title: str) -> Iterator[str]:
    """Yield the file in pieces; times are in microseconds after all ranks were ready."""
    about = {"title": title, "operations": len(trace), "lost operations": trace.lost}
    yield '{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n'
    yield _line({"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": title}})
    for thread, role in enumerate(trace.roles, FIRST_THREAD):
        about_it = {"ph": "M", "pid": PROCESS, "tid": thread}
        yield ",\n" + _line({**about_it, "name": "thread_name", "args": {"name": role}})
        yield ",\n" + _line({**about_it, "name": "thread_sort_index", "args": {"sort_index": thread}})
    for position in range(len(trace)):
        for event in _events(trace, position):
            yield ",\n" + _line(event)
    messages = trace.messages
    for number, (sender, receiver, sent, got) in enumerate(
        zip(messages.senders, messages.receivers, messages.sent_ns, messages.got_ns, strict=True)
    ):
        for phase, position, at in (("s", sender, int(sent)), ("f", receiver, max(int(sent), int(got)))):
            for event in _arrow_end(trace, phase, number, int(position), at):
                yield ",\n" + _line(event)
    yield "\n]}\n"


def _events(trace: RunTrace, position: int) -> Iterator[dict[str, Any]]:
    """Yield one event for an operation of a rank's main thread, and two for one of another thread."""
    entry = trace.entries[position]
    begin, end = _us(trace, int(entry["entered_ns"])), _us(trace, int(entry["left_ns"]))
    common = {
        "name": trace.label(position),
        "cat": KINDS[entry["kind"]],
        "pid": PROCESS,
        "tid": _thread(trace, position),
    }
    if entry["lane"] == 0:
        yield {**common, "ph": "X", "ts": begin, "dur": round(end - begin, 3), "args": details(trace, position)}
        return
    own = {**common, "id": f"{trace.ranks[position]}.{entry['lane']}"}
    yield {**own, "ph": "b", "ts": begin, "args": details(trace, position)}
    yield {**own, "ph": "e", "ts": end}


def _arrow_end(trace: RunTrace, phase: str, number: int, position: int, at_ns: int) -> Iterator[dict[str, Any]]:
    """Yield one end of a message's arrow. It is tied to the operation of the rank's main thread at that time, so one in
    another thread gets an operation of 1 ns there.
    """
    here = {"cat": "message", "pid": PROCESS, "tid": _thread(trace, position), "ts": _us(trace, at_ns)}
    if trace.entries[position]["lane"]:
        yield {**here, "ph": "X", "name": trace.label(position), "dur": 0.001, "args": details(trace, position)}
    yield {**here, "ph": phase, "name": "message", "id": number, **({"bp": "e"} if phase == "f" else {})}


def details(trace: RunTrace, position: int) -> dict[str, int | str]:
    """Return what is known of an operation beside its name and time."""
    entry = trace.entries[position]
    found: dict[str, int | str] = {"step": int(entry["step"]), "number": int(entry["number"])}
    if peer := trace.peer(position):
        found["peer"] = peer
    elif entry["peer"] == EVERYBODY:
        found["peer"] = "all ranks"
    if entry["bytes"]:
        found["bytes"] = int(entry["bytes"])
    if entry["version"] != NO_VERSION:
        found["version"] = int(entry["version"])
        found["staleness"] = int(entry["value"])
    return found


def _thread(trace: RunTrace, position: int) -> int:
    return FIRST_THREAD + int(trace.ranks[position])


def _us(trace: RunTrace, at_ns: int) -> float:
    return (at_ns - trace.zero_ns) / 1e3


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))
