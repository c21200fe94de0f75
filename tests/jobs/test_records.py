"""A job's records come back as they were written, each once, whatever becomes of the file."""

import math
import os
import random
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StoreFull, StoreGone
from engine.recorder import Point, Span
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.records import (
    EventRecord,
    Line,
    LogRecord,
    RecordFile,
    WriteRecord,
    line_of,
    read_records,
    tail_of,
)
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.store.timestamps import now
from engine.trace.health import Health, RankState, Verdict
from engine.trace.layout import PackedChunk, TraceWindow
from tests.doubles import MemorySink

AT = "2026-11-26T10:00:00.000Z"


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    made = JobFolder(tmp_path / "job")
    made.run.mkdir(parents=True)
    return made


def lines(*texts: str, first: int = 1) -> bytes:
    return b"".join(
        line_of(number, AT, EventRecord(event="e", detail=text)) for number, text in enumerate(texts, first)
    )


def test_every_report_of_a_worker_arrives_as_it_was(folder: JobFolder) -> None:
    batch = RankBatch(
        1,
        [
            Point("train/loss", 3, math.nan, 0.1, 0.5),
            Point("train/loss", 4, -math.inf, 0.2),
            Point("x", 5, 1e-300, 1.0),
        ],
        {"compute": 1.25},
        [Span("forward", 1, 2, 3, 4, 5, "stage2")],
        {("staleness", 2): 7},
        5,
        1,
        PackedChunk(1, 2, 3, '["a"]', "eJw="),
    )
    row = RankRow(0, "trainer1", 12, "cpu", "running", 4, now(), None, 1.5, 90.0)
    health = Health(now(), (RankState(0, "trainer1", 12, "running", "compute", "", 4),), Verdict("RUNNING"))
    sample, window = MachineSample(now(), "host", "cpu_percent", 12.5), TraceWindow(1, 2, "start")
    file = RecordFile(folder)
    file.ranks([row])
    file.note("network", "host")
    file.running(1.5)
    file.write([batch], [Point("perf/x", 1, 2.0, 3.0)], (1, 2, "samples"), [sample], [window])
    file.note("other_programs", [["python", 0.5]])
    file.standstill("hung", "It hangs.")
    file.health(health)
    file.event("kind", "détail\nof two lines")

    found = tail_of(read_records(folder.records, 0, 1 << 20), 0)
    sink = MemorySink()
    for line in found.lines:
        line.record().apply(sink)  # type: ignore[arg-type]

    assert [line.sequence for line in found.lines] == list(range(1, 9))
    assert sink.rows == {0: row}
    assert sink.notes == {"network": "host", "other_programs": [["python", 0.5]]} and sink.startup_time_s == 1.5
    assert repr(sink.batches) == repr([batch])  # NaN does not equal itself
    assert sink.run_points == [Point("perf/x", 1, 2.0, 3.0)]
    assert (sink.progress, sink.samples, sink.windows) == ((1, 2, "samples"), [sample], [window])
    assert sink.healths == [health]
    assert sink.events == [("hung", "It hangs."), ("kind", "détail\nof two lines")]


def test_records_of_a_job_that_began_before_the_upgrade_arrive_too() -> None:
    """Lines as version 0.3.0 wrote them."""
    earlier = (
        '{"kind":"log","source":"rank 0","path":"logs/rank-0.log"}',
        '{"kind":"network","level":"namespace"}',
        '{"kind":"programs","programs":[["python",0.5]]}',
        f'{{"kind":"ranks","rows":[[0,"trainer1",7,"cpu","running",3,"{AT}",null,12.5,90.0,0]]}}',
        '{"kind":"write","batches":[{"rank":0,"points":[["train/loss",3,NaN,1.5,0.1]]}],"points":[],"progress":[3,9,"samples"],'
        f'"samples":[["{AT}","host","cpu_percent",83.0]],"windows":[[5,9,"asked"]]}}',
    )
    content = b""
    for number, text in enumerate(earlier, 1):
        rest = f"{number} {AT} {text}".encode()
        content += b"%08x %s\n" % (crc32(rest), rest)
    log, *records = [line.record() for line in tail_of(content, 0).lines]
    assert isinstance(log, LogRecord) and log.path == "logs/rank-0.log"
    sink = MemorySink()
    for record in records:
        record.apply(sink)  # type: ignore[arg-type]
    assert sink.notes == {"network": "namespace", "other_programs": [["python", 0.5]]}
    assert [row.role for row in sink.rows.values()] == ["trainer1"]
    (batch,) = sink.batches
    assert batch.points[0].name == "train/loss" and math.isnan(batch.points[0].value)
    assert [sample.value for sample in sink.samples] == [83.0]
    with pytest.raises(ValueError, match="lag"):
        Line(1, AT, b'{"kind":"lag"}').record()


def test_ranks_that_have_not_changed_are_not_written_again(folder: JobFolder) -> None:
    file, row = RecordFile(folder), RankRow(0, "trainer1", 12, "cpu", "running", 4, None, None)
    file.ranks([row])
    size = folder.records.stat().st_size
    file.ranks([row])
    assert folder.records.stat().st_size == size


def test_the_beginning_of_a_line_waits_for_its_end() -> None:
    whole = lines("first", "second")
    for cut in range(len(whole)):
        found = tail_of(whole[:cut], 0)
        rest = tail_of(whole[found.position :], found.position)
        assert [line.sequence for line in [*found.lines, *rest.lines]] == [1, 2]
        assert rest.position == len(whole)


def test_a_damaged_line_is_passed_over_once_a_good_one_follows() -> None:
    good, broken = lines("first"), bytearray(lines("second", first=2))
    broken[20] ^= 1
    found = tail_of(good + bytes(broken), 0)
    assert (len(found.lines), found.position) == (1, len(good)), "the file system may show it whole the next time"
    found = tail_of(good + bytes(broken) + lines("third", first=3), 0)
    assert ([line.sequence for line in found.lines], found.damaged) == ([1, 3], 1)
    found = tail_of(good + bytes(broken), 0, last=True)
    assert (found.damaged, found.position) == (1, len(good) + len(broken))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(content: bytes) -> None:
    found = tail_of(content, 0, last=True)
    assert found.position == len(content)


def test_a_full_file_system_keeps_the_record_for_the_next_try(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, write = RecordFile(folder), os.write
    file.event("first", "")
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:7]))
    with pytest.raises(StoreFull, match="shared file system is full"):
        file.event("second", "")
    monkeypatch.setattr(os, "write", write)
    file.event("second", "")
    found = tail_of(read_records(folder.records, 0, 1 << 20), 0)
    assert [line.sequence for line in found.lines] == [1, 2]


def test_a_second_worker_does_not_mix_its_records_with_the_first_ones(folder: JobFolder) -> None:
    RecordFile(folder).event("first", "")
    with pytest.raises(FileExistsError):
        RecordFile(folder)


def test_a_line_longer_than_a_chunk_is_read_whole(folder: JobFolder) -> None:
    file = RecordFile(folder)
    file.event("long", "x" * 10_000)
    file.event("short", "")
    content = read_records(folder.records, 0, 100)
    assert len(tail_of(content, 0).lines) >= 1


def test_records_read_in_pieces_of_any_size_are_the_same(folder: JobFolder) -> None:
    file, numbers = RecordFile(folder), random.Random(0)
    for step in range(200):
        file.write([RankBatch(0, [Point("train/loss", step, float(step), 0.0)])], [], (step, 200, ""), [], [])
    position, steps = 0, []
    while content := read_records(folder.records, position, numbers.randrange(1, 2000)):
        found = tail_of(content, position)
        for line in found.lines:
            record = line.record()
            assert isinstance(record, WriteRecord)
            steps += [point[1] for batch in record.batches for point in batch.points]
        position = found.position
    assert steps == list(range(200))


def test_a_request_for_a_trace_is_told_once(folder: JobFolder) -> None:
    file = RecordFile(folder)
    assert file.trace_requests() == []
    folder.request_traces([1.0])
    assert file.trace_requests() == [1.0]
    folder.request_traces([1.0, 2.0])
    assert (file.trace_requests(), file.trace_requests()) == ([2.0], [])


def test_a_worker_whose_jobs_folder_was_deleted_does_not_go_on(folder: JobFolder) -> None:
    file = RecordFile(folder)
    file.sync()
    folder.records.unlink()
    with pytest.raises(StoreGone, match="was deleted during the run, which ends"):
        file.sync()
