"""A trace in Chrome's JSON format, which Perfetto's viewer (ui.perfetto.dev) and chrome://tracing open.

Format: "Trace Event Format", Google. One thread per rank; operations of a rank's further threads, which may overlap,
are asynchronous events of the same thread.
"""

import json
from collections.abc import Iterator
from typing import Any

from engine.trace.layout import EVERYBODY, KINDS, NO_VERSION
from engine.trace.timeline import RunTrace

PROCESS = 1


def chrome_lines(trace: RunTrace, title: str) -> Iterator[str]:
    """Yield the file in pieces; times are in microseconds after all ranks were ready."""
    about = {"title": title, "operations": len(trace), "lost operations": trace.lost}
    yield '{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n'
    yield _line({"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": title}})
    for rank, role in enumerate(trace.roles):
        yield ",\n" + _line({"ph": "M", "pid": PROCESS, "tid": rank, "name": "thread_name", "args": {"name": role}})
        order = {"ph": "M", "pid": PROCESS, "tid": rank, "name": "thread_sort_index", "args": {"sort_index": rank}}
        yield ",\n" + _line(order)
    for position in range(len(trace)):
        for event in _events(trace, position):
            yield ",\n" + _line(event)
    messages = trace.messages
    for number, (sender, receiver, sent, got) in enumerate(
        zip(messages.senders, messages.receivers, messages.sent_ns, messages.got_ns, strict=True)
    ):
        flow = {"cat": "message", "name": "message", "id": number, "pid": PROCESS}
        start, end = _us(trace, int(sent)), _us(trace, max(int(sent), int(got)))
        yield ",\n" + _line({**flow, "ph": "s", "tid": int(trace.ranks[sender]), "ts": start})
        yield ",\n" + _line({**flow, "ph": "f", "bp": "e", "tid": int(trace.ranks[receiver]), "ts": end})
    yield "\n]}\n"


def _events(trace: RunTrace, position: int) -> Iterator[dict[str, Any]]:
    """Yield one event for an operation of a rank's main thread, and two for one of another thread."""
    entry = trace.entries[position]
    begin, end = _us(trace, int(entry["entered_ns"])), _us(trace, int(entry["left_ns"]))
    common = {
        "name": trace.label(position),
        "cat": KINDS[entry["kind"]],
        "pid": PROCESS,
        "tid": int(trace.ranks[position]),
    }
    if entry["lane"] == 0:
        yield {**common, "ph": "X", "ts": begin, "dur": round(end - begin, 3), "args": details(trace, position)}
        return
    own = {**common, "id": f"{trace.ranks[position]}.{entry['lane']}"}
    yield {**own, "ph": "b", "ts": begin, "args": details(trace, position)}
    yield {**own, "ph": "e", "ts": end}


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


def _us(trace: RunTrace, at_ns: int) -> float:
    return (at_ns - trace.zero_ns) / 1e3


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))
