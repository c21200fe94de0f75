"""A run's stored operations as one table: order, names, and the messages found in them."""

import json

import numpy as np
import pytest

from engine.errors import StoreDamaged
from engine.trace.chunk import DTYPE, MOST_ENTRIES, Entries, TraceChunk
from engine.trace.layout import EVERYBODY, NOBODY, TraceWindow
from engine.trace.timeline import KIND, RunTrace
from engine.trace.views import chrome_lines

ROLES = ("ps", "trainer1", "trainer2")
ZERO = 5_000_000_000


def entry(kind: str, name: int, entered_us: float, left_us: float, **rest: int) -> Entries:
    found = np.zeros(1, DTYPE)
    found["kind"], found["name"], found["peer"], found["version"] = KIND[kind], name, NOBODY, -1
    found["entered_ns"], found["left_ns"] = ZERO + int(entered_us * 1e3), ZERO + int(left_us * 1e3)
    for column, value in rest.items():
        found[column] = value
    return found


def served() -> RunTrace:
    """Return a push of each of two trainers to a server that answers both at once."""
    names = ["", "push", "request", "answer"]
    server = [
        entry("serve", 2, 30, 40, peer=1, number=7, lane=1),
        entry("serve", 2, 50, 70, peer=2, number=7, lane=2),
        entry("send", 3, 60, 60, peer=1, number=7, lane=2, version=4, value=1),
        entry("send", 3, 65, 65, peer=2, number=7, lane=2, version=4),
        entry("wait", 0, 0, 100),
    ]
    trainers = [
        [entry("compute", 0, 0, 20), entry("communicate", 1, 20, 80, peer=0, number=7, bytes=12, version=4, value=1)],
        [entry("compute", 0, 0, 45), entry("communicate", 1, 45, 90, peer=0, number=7, bytes=12, version=4)],
    ]
    chunks = [
        TraceChunk.of(0, names, server, lost=3),
        *(TraceChunk.of(rank + 1, names, of) for rank, of in enumerate(trainers)),
    ]
    return RunTrace.of([TraceWindow(ZERO, ZERO + 100_000, "start")], chunks, ROLES)


def test_operations_of_all_ranks_are_in_order_of_time_with_common_names() -> None:
    trace = served()
    assert len(trace) == 9 and trace.lost == 3
    assert (np.diff(trace.entries["entered_ns"]) >= 0).all()
    pushes = [at for at in range(len(trace)) if trace.label(at) == "push"]
    assert [(ROLES[trace.ranks[at]], trace.peer(at)) for at in pushes] == [("trainer1", "ps"), ("trainer2", "ps")]
    assert trace.seconds(int(trace.entries["left_ns"][pushes[0]])) == 80e-6
    assert {trace.label(at) for at in range(len(trace))} == {"push", "request", "answer", "compute", "wait"}


def test_a_push_and_its_answer_are_two_messages() -> None:
    trace = served()
    found = [
        (ROLES[trace.ranks[one]], ROLES[trace.ranks[other]], (sent - ZERO) / 1e3, (got - ZERO) / 1e3)
        for one, other, sent, got in zip(
            trace.messages.senders, trace.messages.receivers, trace.messages.sent_ns, trace.messages.got_ns, strict=True
        )
    ]
    assert found == [
        ("trainer1", "ps", 20, 30),
        ("trainer2", "ps", 45, 50),
        ("ps", "trainer1", 60, 80),
        ("ps", "trainer2", 65, 90),
    ]


def test_sends_are_paired_with_receives_in_order_even_where_numbers_repeat() -> None:
    names = ["", "send", "receive"]
    first = [entry("communicate", 1, at, at + 1, peer=1, number=number) for at, number in ((0, 0), (10, 1), (20, 0))]
    second = [entry("communicate", 2, at, at + 2, peer=0, number=number) for at, number in ((3, 0), (13, 1), (23, 0))]
    lone = entry("communicate", 2, 30, 31, peer=0, number=9)
    trace = RunTrace.of(
        [], [TraceChunk.of(0, names, first), TraceChunk.of(1, names, [*second, lone])], ("stage1", "stage2")
    )
    assert [(sent - ZERO) / 1e3 for sent in trace.messages.sent_ns] == [0, 10, 20]
    assert [(got - ZERO) / 1e3 for got in trace.messages.got_ns] == [5, 15, 25]


def test_a_batch_in_a_queue_goes_from_who_puts_it_to_who_takes_it() -> None:
    names = ["put", "get"]
    put = [entry("queue", 0, 5, 5, peer=0, number=3, value=1)]
    get = [entry("queue", 1, 9, 9, peer=1, number=3)]
    trace = RunTrace.of([], [TraceChunk.of(1, names, put), TraceChunk.of(0, names, get)], ("learner", "collector1"))
    assert trace.ranks[trace.messages.senders].tolist() == [1]
    assert trace.ranks[trace.messages.receivers].tolist() == [0]


def test_the_chrome_file_has_a_thread_per_rank_and_every_operation_and_message() -> None:
    trace = served()
    found = json.loads("".join(chrome_lines(trace, "Run 1, async_sgd")))
    events = found["traceEvents"]
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert threads == dict(enumerate(ROLES, 1))  # Perfetto shows no name of thread 0
    whole = [event for event in events if event["ph"] == "X" and event["cat"] != "message"]
    begun, ended = ([event for event in events if event["ph"] == phase] for phase in "be")
    assert len(whole) + len(begun) == len(trace) and len(begun) == len(ended) == 4
    push = next(event for event in whole if event["name"] == "push")
    assert (push["tid"], push["ts"], push["dur"], push["cat"]) == (2, 20.0, 60.0, "communicate")
    assert push["args"] == {"step": 0, "number": 7, "peer": "ps", "bytes": 12, "version": 4, "staleness": 1}
    starts, ends = ([event for event in events if event["ph"] == phase] for phase in "sf")
    assert [event["id"] for event in starts] == [event["id"] for event in ends] == [0, 1, 2, 3]
    assert all(start["ts"] <= end["ts"] for start, end in zip(starts, ends, strict=True))


def test_an_operation_with_all_ranks_says_so() -> None:
    chunk = TraceChunk.of(0, ["average"], [entry("collective", 0, 0, 1, peer=EVERYBODY, number=2)])
    events = json.loads("".join(chrome_lines(RunTrace.of([], [chunk], ROLES), "Run 1")))["traceEvents"]
    assert next(event for event in events if event["ph"] == "X")["args"]["peer"] == "all ranks"


def test_a_trace_without_operations_is_an_empty_table() -> None:
    trace = RunTrace.of([], [], ROLES)
    assert len(trace) == 0 and len(trace.messages.senders) == 0
    assert json.loads("".join(chrome_lines(trace, "Run 1")))["otherData"]["operations"] == 0


def test_a_chunk_survives_the_way_through_the_store() -> None:
    chunk = TraceChunk.of(2, ["", "ünïcode", "push"], [entry("rpc", 2, 0, 1), entry("rpc", 1, 2, 3)])
    names, content = chunk.packed()
    back = TraceChunk.unpacked(2, names, content, 2)
    assert back.names == ("ünïcode", "push") and (back.entries == chunk.entries).all()


@pytest.mark.parametrize(
    ("change", "count", "sentence"),
    [
        ({}, 3, "2 operations instead of 3"),
        ({}, 1, "operations instead of 1"),
        ({}, MOST_ENTRIES + 1, "operations instead of"),
        ({"name": 9}, 2, "an operation without a name"),
        ({"kind": 200}, 2, "an operation of the unknown kind 200"),
        ({"left_ns": 1}, 2, "an operation that ends before it starts"),
        ({"entered_ns": -5}, 2, "an operation that ends before it starts"),
    ],
)
def test_a_damaged_chunk_is_refused(change: dict[str, int], count: int, sentence: str) -> None:
    entries = np.concatenate([entry("rpc", 0, 0, 1), entry("rpc", 0, 2, 3)])
    for column, value in change.items():
        entries[column][1] = value
    names, content = TraceChunk(0, ("push",), entries).packed()
    with pytest.raises(StoreDamaged, match=sentence):
        TraceChunk.unpacked(0, names, content, count)


@pytest.mark.parametrize("content", ["", "no base64!", "AAAA"])
def test_content_that_is_no_chunk_is_refused(content: str) -> None:
    with pytest.raises(StoreDamaged, match="of the trace of rank 3 is damaged"):
        TraceChunk.unpacked(3, '["push"]', content, 1)
