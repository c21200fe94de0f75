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
