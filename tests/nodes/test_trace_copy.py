"""The worker's copy of a trace on another node reads as the original, on the worker's clock."""

import random
import time

import numpy as np
import pytest

from engine.runtime.nodes import messages
from engine.runtime.nodes.messages import TraceSource, write
from engine.trace.layout import CAPACITY
from engine.trace.ring import TraceMemory, TraceWriter
from engine.trace.ring_reader import TraceCollector, TraceReader

SHIFT_NS = 1_000_000_007


def entries_of(seed: int, count: int) -> list[int]:
    numbers = random.Random(seed)
    return [numbers.randrange(1, 50) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, CAPACITY - 1, CAPACITY + 1000])
def test_a_copy_has_the_same_entries_later_by_the_difference_of_the_clocks(count: int) -> None:
    ours, theirs = TraceMemory(), TraceMemory()
    writer, source, direct, copied = (
        TraceWriter(theirs.memory),
        TraceSource(theirs.memory),
        TraceReader(theirs.memory),
        TraceReader(ours.memory),
    )
    written = 0
    while written < count:
        for number in range(min(300, count - written)):
            with writer.operation("rpc", "push", peer=3, number=written + number):
                pass
        written = min(count, written + 300)
        if part := source.changes():
            write(ours.memory, part, SHIFT_NS)
        found, expected = copied.drain(), direct.drain()
        assert len(found) == len(expected)
        for name in ("seq", "kind", "name", "peer", "number", "step"):
            assert np.array_equal(found[name], expected[name])
        assert np.array_equal(found["entered_ns"], expected["entered_ns"] + SHIFT_NS)
        assert np.array_equal(found["left_ns"], expected["left_ns"] + SHIFT_NS)
    assert copied.lost == direct.lost == 0
    assert copied.names() == direct.names()


def test_open_operations_and_sums_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = TraceMemory(), TraceMemory()
    writer, source = TraceWriter(theirs.memory), TraceSource(theirs.memory)
    with writer.phase("compute"), writer.operation("receive", "answer", peer=1, number=4):
        part = source.changes()
        assert part is not None
        write(ours.memory, part, SHIFT_NS)
        found, expected = TraceReader(ours.memory).open_operations(), TraceReader(theirs.memory).open_operations()
    assert [(one.kind, one.name, one.peer, one.number) for one in found] == [
        (one.kind, one.name, one.peer, one.number) for one in expected
    ]
    assert [one.entered_ns - SHIFT_NS for one in found] == [one.entered_ns for one in expected]


def test_a_question_for_stacks_outlives_an_update() -> None:
    ours, theirs = TraceMemory(), TraceMemory()
    reader, writer, source = TraceReader(ours.memory), TraceWriter(theirs.memory), TraceSource(theirs.memory)
    reader.ask_for_stacks()
    writer.log_step(3)
    part = source.changes()
    assert part is not None
    write(ours.memory, part, 0)
    assert (reader.asked, reader.step) == (1, 3)


def test_nothing_new_sends_nothing() -> None:
    memory = TraceMemory()
    source = TraceSource(memory.memory)
    TraceWriter(memory.memory).log_step(1)
    assert source.changes() is not None
    assert source.changes() is None


def test_a_look_sends_what_is_new_alone() -> None:
    memory = TraceMemory()
    writer, source = TraceWriter(memory.memory), TraceSource(memory.memory)
    for number in range(5000):
        with writer.operation("rpc", "push", peer=1, number=number):
            pass
    source.changes()
    with writer.operation("rpc", "push", peer=1, number=1):
        pass
    part = source.changes()
    assert part is not None and len(part.blocks) == 1
    assert messages.BLOCK * len(part.blocks) < 1000


def stored(memory: memoryview) -> list[str]:
    """Return the names of the operations that the worker would store of a copy."""
    collector = TraceCollector([TraceReader(memory)])
    collector.begin(time.monotonic() - 1.0)
    ((_, chunk),) = collector.collect(final=True)
    return [chunk.names[entry["name"]] for entry in chunk.entries] if chunk else []


def test_a_name_that_is_first_used_while_the_memory_is_read_comes_with_its_entry() -> None:
    """It came with the next copy, and its entry ended the run: "list index out of range"."""
    ours, theirs = TraceMemory(), TraceMemory()
    writer = TraceWriter(theirs.memory)

    class Memory:
        reads = 0

        def __getitem__(self, part: slice) -> bytes:
            found = bytes(theirs.memory[part])
            self.reads += 1
            if self.reads == 1:  # the header
                with writer.operation("rpc", "fetch"):
                    pass
            return found

    with writer.operation("rpc", "push"):
        pass
    part = TraceSource(Memory()).changes()  # type: ignore[arg-type]
    assert part is not None
    write(ours.memory, part, 0)
    assert stored(ours.memory) == ["push", "fetch"]


def test_a_copy_that_is_read_while_it_is_written_has_the_name_of_each_entry() -> None:
    ours, theirs = TraceMemory(), TraceMemory()
    writer, seen = TraceWriter(theirs.memory), list[list[str]]()

    class Memory:
        def __getitem__(self, part: slice) -> memoryview:
            return ours.memory[part]

        def __setitem__(self, part: slice, content: bytes) -> None:
            ours.memory[part] = content
            seen.append(stored(ours.memory))

    with writer.operation("rpc", "push"):
        pass
    part = TraceSource(theirs.memory).changes()
    assert part is not None
    write(Memory(), part, 0)  # type: ignore[arg-type]
    assert seen[-1] == ["push"] and all(names in ([], ["push"]) for names in seen)
