"""A rank's ring: what the worker reads of it while the rank writes, hangs or dies."""

import multiprocessing as mp
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from engine.errors import UnknownName
from engine.trace.chunk import DTYPE, Entries, TraceChunk
from engine.trace.layout import (
    ASKED,
    CAPACITY,
    EVERYBODY,
    HEAD,
    KINDS,
    LANES,
    LATEST_NS,
    MOST_NAMES,
    NAMES,
    NOBODY,
    RING_AT,
    SIZE,
)
from engine.trace.ring import TraceMemory, TraceWriter
from engine.trace.ring_reader import TraceCollector, TraceReader
from tests.child_functions import stuck_at_a_barrier
from tests.waiting import wait_until


def pair() -> tuple[TraceWriter, TraceReader]:
    memory = TraceMemory()
    return TraceWriter(memory.memory), TraceReader(memory.memory)


def kinds(entries: Entries) -> list[str]:
    return [KINDS[kind] for kind in entries["kind"]]


def test_an_entry_says_all_that_is_known_of_an_operation() -> None:
    writer, reader = pair()
    writer.log_step(7)
    before = time.monotonic_ns()
    with (
        writer.phase("communicate", "push", peer=3, number=41) as sent,
        writer.operation("collective", "average", peer=EVERYBODY),
    ):
        sent.bytes, sent.version, sent.value = 5_000_000_000, 12, 2
    inner, outer = reader.drain()
    assert (
        before
        <= outer["entered_ns"]
        <= inner["entered_ns"]
        <= inner["left_ns"]
        <= outer["left_ns"]
        <= time.monotonic_ns()
    )
    assert (kinds(np.array([inner, outer])), inner["depth"], outer["depth"]) == (["collective", "communicate"], 1, 0)
    assert (inner["peer"], outer["peer"], outer["number"], outer["step"]) == (EVERYBODY, 3, 41, 7)
    assert (outer["bytes"], outer["version"], outer["value"]) == (5_000_000_000, 12, 2)
    assert [reader.names()[entry["name"]] for entry in (inner, outer)] == ["average", "push"]
    assert (inner["version"], reader.lost, len(reader.drain())) == (-1, 0, 0)


def test_what_is_overwritten_before_it_is_read_is_counted() -> None:
    writer, reader = pair()
    for number in range(CAPACITY + 1000):
        writer.note("send", "answer", number=number)
    found = reader.drain()
    assert (len(found), reader.lost) == (CAPACITY, 1000)
    assert found["number"].tolist() == list(range(1000, CAPACITY + 1000))
    writer.note("send", "answer", number=-1)
    assert reader.drain()["number"].tolist() == [-1] and reader.lost == 1000


def test_a_half_written_entry_is_left_for_the_next_time_and_then_counted_as_lost() -> None:
    writer, reader = pair()
    for number in range(5):
        writer.note("send", "answer", number=number)
    writer.words[(RING_AT + 2 * 64) // 8] = 0  # its thread was stopped before it wrote the sequence number
    assert reader.drain()["number"].tolist() == [0, 1]
    assert reader.drain()["number"].tolist() == [3, 4] and reader.lost == 1


def test_many_threads_write_while_the_worker_reads_and_no_entry_is_torn_or_doubled() -> None:
    writer, reader = pair()
    each, threads = 4_000, 6
    written = [0] * threads

    def write(thread: int) -> None:
        for number in range(each):
            with writer.operation("rpc", f"thread{thread}", peer=thread, number=number) as done:
                done.bytes = thread * each + number
            written[thread] += 1

    found: list[Entries] = []
    at_work = [threading.Thread(target=write, args=(thread,)) for thread in range(threads)]
    for thread in at_work:
        thread.start()
    while any(thread.is_alive() for thread in at_work):
        found.append(reader.drain())
        before = list(written)
        wait_until(  # an entry that is incomplete in two calls counts as lost; a thread may rest longer
            lambda before=before: all(
                now > earlier or not thread.is_alive()
                for now, earlier, thread in zip(written, before, at_work, strict=True)
            ),
            "each thread has completed an entry",
        )
    found += [reader.drain(), reader.drain()]
    entries = np.concatenate(found)
    assert len(entries) + reader.lost == each * threads
    assert reader.lost == 0
    assert (entries["bytes"] == entries["peer"].astype(int) * each + entries["number"]).all()
    assert len(set(entries["bytes"].tolist())) == each * threads
    names = reader.names()
    assert {(names[entry["name"]], int(entry["peer"])) for entry in entries} == {
        (f"thread{n}", n) for n in range(threads)
    }
    lanes = {int(peer): set(entries["lane"][entries["peer"] == peer].tolist()) for peer in range(threads)}
    assert all(len(found) == 1 for found in lanes.values()), "a thread has one lane"


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_what_a_stopped_or_dead_rank_was_doing_can_still_be_read(how: signal.Signals) -> None:
    memory = TraceMemory()
    process = mp.get_context("spawn").Process(target=stuck_at_a_barrier, args=(memory,))
    process.start()
    reader = TraceReader(memory.memory)
    try:
        wait_until(lambda: len(reader.open_operations()) == 2, "it is at the barrier")
        assert process.pid
        os.kill(process.pid, how)
        outer, inner = reader.open_operations()
        assert (outer.kind, outer.name, outer.peer, outer.number, outer.step) == ("wait", "activations", 1, 9, 3)
        assert (inner.kind, inner.name, inner.peer, inner.lane) == ("barrier", "trained", EVERYBODY, 0)
        assert outer.entered_ns <= inner.entered_ns <= time.monotonic_ns()
    finally:
        process.kill()
        process.join()


def test_sums_are_exact_and_an_inner_phase_stops_the_outer_one() -> None:
    writer, reader = pair()
    writer.clear_sums()
    with writer.phase("compute"), writer.operation("lock", "weights"), writer.phase("wait"):
        time.sleep(0.05)
    writer.spend("wait", -0.02)
    writer.spend("serve", 1.5)
    wait, compute = (entry["left_ns"] - entry["entered_ns"] for entry in reader.drain()[[0, 2]])
    assert reader.sums()["wait"] == pytest.approx(wait / 1e9 - 0.02, abs=1e-4)
    assert reader.sums()["compute"] == pytest.approx((compute - wait) / 1e9, abs=1e-4)
    assert reader.sums()["serve"] == 1.5


def test_an_unknown_phase_or_kind_is_refused_with_the_known_ones() -> None:
    writer, reader = pair()
    with pytest.raises(
        UnknownName, match=r"Unknown phase 'exchange'\. Known: compute, communicate, wait, update, data"
    ):
        writer.phase("exchange")
    with pytest.raises(UnknownName, match=r"Unknown phase 'computation'\. Did you mean 'compute'\?"):
        writer.phase("computation")
    with pytest.raises(UnknownName, match="Unknown phase 'exchange'"):
        writer.spend("exchange", 1)
    with pytest.raises(UnknownName, match="Unknown kind of operation 'gather'"):
        writer.operation("gather")
    assert not len(reader.drain()) and not reader.sums().get("exchange")


def test_a_wait_is_no_progress_and_a_step_is() -> None:
    writer, reader = pair()
    seen = [reader.moved]
    with writer.phase("wait"):
        pass
    seen.append(reader.moved)
    writer.log_step(1)
    seen.append(reader.moved)
    with writer.phase("compute"):
        pass
    seen.append(reader.moved)
    assert seen[0] == seen[1] and len(set(seen[1:])) == 3


def test_names_beyond_the_table_are_empty_and_long_ones_are_cut() -> None:
    writer, reader = pair()
    for number in range(MOST_NAMES + 10):
        writer.note("send", f"name {number}")
    names = reader.names()
    assert len(names) == MOST_NAMES and names[1] == "name 0"
    assert [names[entry["name"]] for entry in reader.drain()[-13:]] == ["name 253", "name 254", *[""] * 11]
    writer, reader = pair()
    writer.note("send", "é" * 100, peer=NOBODY)
    assert reader.names()[1] == "é" * 24


def test_a_slower_thread_that_sets_the_counter_back_makes_no_entry_read_twice() -> None:
    writer, reader = pair()
    for number in range(3):
        writer.note("send", "answer", number=number)
    assert reader.drain()["number"].tolist() == [0, 1, 2]
    writer.words[HEAD] = 2  # a thread that took its place earlier, and was interrupted before it set the counter
    assert len(reader.drain()) == 0
    writer.note("send", "answer", number=3)
    assert reader.drain()["number"].tolist() == [3] and reader.lost == 0


def test_the_last_entries_are_read_though_the_counter_is_behind_them() -> None:
    writer, reader = pair()
    for number in range(3):
        writer.note("send", "answer", number=number)
    writer.words[HEAD] = 1
    assert reader.drain()["number"].tolist() == [0, 1, 2]


def test_more_threads_than_lanes_leave_no_operation_open_and_end_no_thread() -> None:
    writer, reader = pair()
    failures: list[BaseException] = []
    ready = threading.Barrier(3 * LANES)

    def write() -> None:
        try:
            ready.wait()
            for _ in range(500):
                with writer.operation("serve", "request"), writer.operation("rpc", "ask"):
                    pass
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write) for _ in range(3 * LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and reader.open_operations() == []
    assert len(reader.drain()) == 3 * LANES * 500 * 2


def test_lanes_of_threads_that_have_ended_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = pair()
    for ident in range(1, LANES + 5):
        monkeypatch.setattr(threading, "get_ident", lambda ident=ident: ident)
        with writer.operation("serve", f"thread{ident}"):
            [found] = reader.open_operations()
            assert found.name == f"thread{ident}" and found.lane < LANES - 1


def test_time_spent_in_several_threads_is_added_up_exactly() -> None:
    writer, reader = pair()

    def spend() -> None:
        for _ in range(5_000):
            writer.spend("serve", 1e-3)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert reader.sums()["serve"] == pytest.approx(20.0)


def test_numbers_that_do_not_fit_are_cut_and_end_nothing() -> None:
    writer, reader = pair()
    writer.log_step(2**40)
    writer.note("send", "answer", version=2**31, value=-(2**35), number=2**70, peer=40_000)
    with writer.operation("rpc", "ask", number=-(2**80)) as asked:
        asked.bytes, asked.version = 2**64, 2**33
    first, second = reader.drain()
    assert (first["step"], first["version"], first["value"]) == (2**40, 2**31 - 1, -(2**31))
    assert (first["number"], first["peer"]) == (2**63 - 1, 2**15 - 1)
    assert (second["bytes"], second["version"], second["number"]) == (2**63 - 1, 2**31 - 1, 1 - 2**63)


def test_any_text_can_be_a_name_and_a_long_one_is_cut_between_letters() -> None:
    writer, reader = pair()
    for name in ("\ud800", "a" + "é" * 100, ""):
        writer.note("send", name)
    assert reader.names()[1:] == ["?", "a" + "é" * 23, ""]


@pytest.mark.processes
def test_a_process_that_a_rank_forks_does_not_write_into_its_trace() -> None:
    writer, reader = pair()
    writer.note("send", "answer", number=1)
    child = os.fork()
    if not child:
        try:
            for number in range(10):
                with writer.operation("compute", "in the child", number=number):
                    pass
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    writer.note("send", "answer", number=2)
    assert reader.drain()["number"].tolist() == [1, 2] and reader.names() == ["", "answer"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux seals memory")
def test_a_rank_can_not_take_the_memory_from_its_reader() -> None:
    """A read beyond a shortened file kills the process."""
    memory = TraceMemory()
    for size in (0, SIZE + 4096):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.descriptor, size)


@pytest.mark.parametrize("number", [-(2**63), -1, MOST_NAMES, 2**40, 2**63 - 1])
def test_whatever_a_rank_writes_into_its_memory_its_reader_goes_on(number: int) -> None:
    memory = TraceMemory()
    writer, collector = TraceWriter(memory.memory), TraceCollector([reader := TraceReader(memory.memory)])
    collector.begin(time.monotonic() - 1.0)
    with writer.operation("rpc", "push"):
        pass
    for _ in range(4):
        with writer.operation("rpc", "fetch"):
            pass
    writer.words[NAMES] = writer.words[ASKED] = number
    words = np.frombuffer(memory.memory, DTYPE, CAPACITY, RING_AT)
    words["name"][1], words["kind"][2], words["left_ns"][3], words["lane"][4] = 65_535, 255, -1, 99
    assert len(reader.names()) <= MOST_NAMES
    reader.ask_for_stacks()
    writer.words[HEAD] = max(number, writer.words[HEAD])
    ((_, chunk),) = collector.collect(final=True)
    if number > CAPACITY:
        assert chunk is None or chunk.lost < LATEST_NS
    else:
        assert chunk is not None and len(chunk) == 1, "four of five entries are none that a writer makes"
        assert TraceChunk.unpacked(0, *chunk.packed(), len(chunk)).names == chunk.names
    assert len(reader.open_operations()) == 0
