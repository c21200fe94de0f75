"""What the timeline of a run shows of a stretch: rectangles, messages, the critical path, and what bounds it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.core.caches import VersionedCache
from engine.analysis.timeline import bounds
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader
from engine.trace.critical_path import critical_path
from engine.trace.layout import KINDS, TraceWindow
from engine.trace.timeline import Messages, RunTrace
from engine.trace.views import MOST_ANALYSED, arrows, details, rectangles

OPERATIONS = 60
"""Operations of the busiest rank in the stretch shown first."""
SHORTEST_US = 0.5
"""The shortest stretch that can be shown."""
FAR_US = 1e15
"""A time that no run reaches: thirty years."""
MOST_DETAILED = 400
"""Rectangles up to which each comes with its details; more are too narrow to be read one by one."""
_traces = VersionedCache[RunTrace](most=4)


def load(home: Home, run_id: int) -> tuple[int, RunTrace, Mapping[str, Any]]:
    """Return a run's stored trace, its version, and the run's config; raises NoSuchRun."""
    with Reader.open(home) as reader, reader.db.snapshot():
        config = reader.runs.one(run_id).config
        newest = reader.traces.newest(run_id)

        def made() -> RunTrace:
            roles = [rank.role for rank in reader.details.ranks(run_id)]
            return RunTrace.of(reader.traces.windows(run_id), reader.traces.chunks(run_id), roles)

        return newest, _traces.get((home.path, run_id), newest, made), config


def picture(
    home: Home, run_id: int, begin_us: float | None, end_us: float | None, *, newest: bool = False
) -> dict[str, Any]:
    """Return the picture of a stretch, in microseconds after all ranks were ready; by default a few steps
    at the start, or the newest ones.

    Rectangles are [row, inner, begin, length, kind, number of operations, text]; messages [row, sent, row, received].
    """
    version, trace, config = load(home, run_id)
    if not len(trace):
        return {"version": version, "roles": list(trace.roles), "operations": 0, "windows": []}
    whole, rows = trace, _rows(trace)
    first, last = _limits(whole)
    begin, end = _stretch(trace, begin_us, end_us, newest)
    begin, end = max(first, min(begin, last - 1)), min(last, max(end, first + 1))
    trace = whole.between(begin, end)
    shown = rectangles(trace, begin, end)
    few = len(trace) <= MOST_ANALYSED
    messages = trace.messages if few else Messages.none()
    drawn, count = arrows(messages, begin, end)
    is_stored = any(window.begin_ns <= begin and end <= window.end_ns for window in whole.windows)
    path = critical_path(trace, begin, end) if few and is_stored else []
    row_of = {row: index for index, (row, _) in enumerate(rows)}
    return {
        "version": version,
        "operations": len(whole),
        "lost": trace.lost,
        "rows": [label for _, label in rows],
        "kinds": list(KINDS),
        "windows": [[_us(trace, one.begin_ns), _us(trace, one.end_ns), one.reason] for one in trace.windows],
        "all": [_us(trace, first), _us(trace, last)],
        "begin": _us(trace, begin),
        "end": _us(trace, end),
        "rectangles": [
            [
                row_of[int(row)],
                int(inner),
                _us(trace, first),
                round((last - first) / 1e3, 3),
                int(kind),
                int(many),
                _text(trace, int(position)) if many == 1 and len(shown) <= MOST_DETAILED else "",
            ]
            for row, inner, first, last, kind, many, position in zip(
                shown.rows.tolist(),
                shown.inner.tolist(),
                shown.begin_ns.tolist(),
                shown.end_ns.tolist(),
                shown.kinds.tolist(),
                shown.counts.tolist(),
                shown.positions.tolist(),
                strict=True,
            )
        ],
        "labels": {str(kind): _label(trace, kind, shown) for kind in sorted(set(shown.kinds.tolist()))},
        "messages": [
            [
                row_of[_row(trace, int(messages.senders[at]))],
                _us(trace, int(messages.sent_ns[at])),
                row_of[_row(trace, int(messages.receivers[at]))],
                _us(trace, int(messages.got_ns[at])),
            ]
            for at in drawn.tolist()
        ],
        "message_count": count if few else None,
        "totals": _totals(trace, row_of, begin, end),
        "path": [
            [row_of.get(part.rank * 2, 0), _us(trace, part.begin_ns), _us(trace, part.end_ns), part.kind]
            for part in path[:1_000]
        ],
        "sentences": bounds(trace, path, begin, end, config),
    }


def _totals(trace: RunTrace, row_of: Mapping[int, int], begin: int, end: int) -> list[list[float]]:
    """Return [row, kind, operations, milliseconds] of the operations in a stretch, as far as they lie in it."""
    entries = trace.entries
    inside = (entries["left_ns"] > begin) & (entries["entered_ns"] < end)
    found = entries[inside]
    rows = trace.ranks[inside].astype(np.int64) * 2 + (found["lane"] > 0)
    spent = np.minimum(found["left_ns"], end) - np.maximum(found["entered_ns"], begin)
    keys, index = np.unique(rows * len(KINDS) + found["kind"], return_inverse=True)
    counts, times = np.bincount(index), np.bincount(index, spent)
    return [
        [row_of[key // len(KINDS)], key % len(KINDS), count, round(time / 1e6, 6)]
        for key, count, time in zip(keys.tolist(), counts.tolist(), times.tolist(), strict=True)
    ]


def _stretch(trace: RunTrace, begin_us: float | None, end_us: float | None, newest: bool) -> tuple[int, int]:
    """Return the stretch to show; raises ConfigError for one that is empty."""
    if begin_us is None or end_us is None:
        return some_steps(trace, newest=newest)
    if not end_us - begin_us >= SHORTEST_US:
        what = f"The stretch from {begin_us:g} to {end_us:g} µs is too short: at least {SHORTEST_US} µs are shown."
        raise ConfigError.of("to", what)
    begin, end = (round(max(-FAR_US, min(FAR_US, each)) * 1e3) for each in (begin_us, end_us))
    return trace.zero_ns + begin, trace.zero_ns + end


def _limits(trace: RunTrace) -> tuple[int, int]:
    """Return the times between which there is anything to show."""
    begins = [window.begin_ns for window in trace.windows] or [int(trace.entries["entered_ns"].min())]
    ends = [window.end_ns for window in trace.windows] + [int(trace.entries["left_ns"].max())]
    return min(begins), max(ends)


def some_steps(trace: RunTrace, *, newest: bool = False) -> tuple[int, int]:
    """Return a stretch that shows some steps: `OPERATIONS` of the busiest rank, a third into the middle window of those
    that are stored nearly whole before the run's end, or into the newest one.
    """
    latest = int(trace.entries["left_ns"].max())
    windows = trace.windows or [TraceWindow(trace.zero_ns, latest, "")]
    whole = [each for each in windows if each.reason != "end" and latest > 0.1 * each.begin_ns + 0.9 * each.end_ns]
    window = whole[-1 if newest else len(whole) // 2] if whole else windows[0]
    entered = trace.entries["entered_ns"]
    inside = (entered >= window.begin_ns) & (entered < window.end_ns)
    counts = np.bincount(trace.ranks[inside], minlength=1)
    length = window.end_ns - window.begin_ns
    if int(counts.max()) <= OPERATIONS:
        return window.begin_ns, window.end_ns
    length = max(1_000, length * OPERATIONS // int(counts.max()))
    begin = window.begin_ns + (window.end_ns - window.begin_ns - length) // 3
    return begin, begin + length


def _rows(trace: RunTrace) -> list[tuple[int, str]]:
    """Return the rows that have operations, with their labels: of each rank its main thread, and its other ones."""
    others = trace.entries["lane"] > 0
    used = set((trace.ranks.astype(np.int64) * 2 + others).tolist())
    servers = set(trace.ranks[others & (trace.entries["kind"] == KINDS.index("serve"))].tolist())
    return [
        (row, role if row % 2 == 0 else f"{role}: {'requests' if index in servers else 'background'}")
        for index, role in enumerate(trace.roles)
        for row in (2 * index, 2 * index + 1)
        if row % 2 == 0 or row in used
    ]


def _row(trace: RunTrace, position: int) -> int:
    return int(trace.ranks[position]) * 2 + int(trace.entries["lane"][position] > 0)


def _label(trace: RunTrace, kind: int, shown: Any) -> str:
    """Return what rectangles of a kind are called in the legend: "communicate (push, fetch)"."""
    positions = shown.positions[shown.kinds == kind]
    names = sorted({trace.names[name] for name in np.unique(trace.entries["name"][positions]).tolist()} - {""})
    names = [name for name in names if name != KINDS[kind]]
    return f"{KINDS[kind]} ({', '.join(names[:4])}{', …' if len(names) > 4 else ''})" if names else KINDS[kind]


def _text(trace: RunTrace, position: int) -> str:
    """Return what is said of one operation beside its times."""
    known = details(trace, position)
    said = [trace.label(position)]
    if number := known.get("number"):
        said[0] += f" #{number}"
    if peer := known.get("peer"):
        said.append(f"with {peer}")
    if size := known.get("bytes"):
        said.append(f"{int(size) / 1e6:.3g} MB")
    if "version" in known:
        said.append(f"weights version {known['version']}")
        if known["staleness"]:
            said.append(f"staleness {known['staleness']}")
    return ", ".join(said)


def _us(trace: RunTrace, at_ns: int) -> float:
    return round((at_ns - trace.zero_ns) / 1e3, 3)
