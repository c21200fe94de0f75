"""The recorder of a rank: what is sent, what is counted, whose clock runs."""

import os
import re
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.rank.channel_recorder import EAGER_FLUSH_S, EAGER_S, FLUSH_S, ChannelRecorder, Fields, Flush
from engine.system.run_files import READ, has_reader, note_reader
from tests.waiting import PATIENCE_S, wait_until


def test_points_arrive_in_order_and_none_twice() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic())
    for step in range(5000):
        recorder.log({"a": step}, step=step)
    recorder.close()
    assert [point[1] for flush in sent for point in flush.points] == list(range(5000))


def test_a_full_buffer_drops_and_counts_while_the_worker_is_slow() -> None:
    sent: list[Flush] = []
    logged = threading.Event()

    def slowly(flush: Flush) -> None:
        assert logged.wait(PATIENCE_S), "the recorder waited for the worker"
        sent.append(flush)

    recorder = ChannelRecorder(slowly, capacity=100)
    recorder.start(time.monotonic())
    for step in range(10_000):
        recorder.log({"a": step}, step=step)
    logged.set()
    recorder.close()
    kept = sum(len(flush.points) for flush in sent)
    assert kept + sent[-1].dropped == 10_000
    assert sent[-1].dropped > 0


def test_what_is_flushed_is_on_its_way_at_once() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic())
    for step in range(1_000):
        recorder.log({"a": step}, step=step)
        if step % 100 == 99:
            recorder.flush()
            assert [point[1] for flush in sent for point in flush.points] == list(range(step + 1)), (
                "in order, with the recorder's own thread beside it"
            )
    recorder.close()


def test_the_last_step_of_a_message_is_one_whose_points_are_all_sent() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)

    class Interrupting(dict[str, float]):
        """Values between two of which the recorder's thread sends."""

        def items(self) -> Any:
            yield "a", 1.0
            recorder.flush()
            yield "b", 2.0

    recorder.log(Interrupting(a=1.0, b=2.0), step=7)
    assert [flush.last_step for flush in sent] == [None] * len(sent)
    recorder.flush()
    assert (sent[-1].last_step, [point[0] for flush in sent for point in flush.points]) == (7, ["a", "b"])
    recorder.close()


def test_an_inner_phase_stops_the_outer_ones_clock() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic())
    began = time.monotonic()
    with recorder.phase("compute"):
        time.sleep(0.05)
        with recorder.phase("wait"):
            time.sleep(0.1)
        time.sleep(0.05)
    whole = time.monotonic() - began
    recorder.close()
    spent = recorder.trace.sums()
    assert min(spent["compute"], spent["wait"]) > 0.099
    assert spent["compute"] + spent["wait"] < whole + 0.001, "no moment counts twice"


def test_histogram_counts_are_sent_once() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    for bucket in (1, 1, 2):
        recorder.histogram("staleness", bucket)
    recorder.close()
    total: dict[tuple[str, int], int] = {}
    for flush in sent:
        for key, count in flush.histograms.items():
            total[key] = total.get(key, 0) + count
    assert total == {("staleness", 1): 2, ("staleness", 2): 1}


def test_what_was_exchanged_is_a_growing_curve_that_ends_with_all_of_it() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic(), before_s=100.0)
    recorder.log({"a": 1.0}, step=7)
    for _ in range(3):
        recorder.exchanged(1_500_000)
        time.sleep(0.3)
    wait_until(lambda: _exchanged(sent), "it is told on the way")
    recorder.exchanged(500_000)
    recorder.close()
    points = _exchanged(sent)
    values = [value for _, _, value, _, _ in points]
    assert values == sorted(set(values)) and values[-1] == 5.0
    assert 2 <= len(points) <= 4
    assert points[0][1] == 7 and points[0][3] > 100


def _exchanged(sent: list[Flush]) -> list[Fields]:
    return [point for flush in list(sent) for point in flush.points if point[0] == "perf/exchanged"]


def test_a_rank_that_exchanges_nothing_records_none() -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic())
    recorder.close()
    assert not [point for flush in sent for point in flush.points]


def test_a_summary_writes_a_line_with_the_means_since_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    recorder.start(time.monotonic(), before_s=100.0)
    for step, loss in enumerate((4.0, 2.0, 1.0, 0.5), start=1):
        recorder.log({"train/loss": loss, "perf/staleness": 1.0}, step=step)
        if step % 2 == 0:
            recorder.summarize("epoch", step // 2, 2)
    recorder.log({"perf/queue_depth": 7.0}, step=1_234)
    recorder.summarize("update", 1_234)
    recorder.summarize("end")
    recorder.close()
    lines = [line.split("Z INFO ") for line in capsys.readouterr().out.splitlines()]
    assert [re.sub(r"1\d\d\.\d s", "… s", line) for _, line in lines] == [
        "epoch 1 of 2, step 2, … s: train/loss 3",
        "epoch 2 of 2, step 4, … s: train/loss 0.75",
        "update 1,234, step 1,234, … s: perf/queue_depth 7",
        "end, step 1,234, … s",
    ]
    assert len([point for flush in sent for point in flush.points]) == 9


def test_a_log_that_can_not_be_written_loses_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Flush] = []
    recorder = ChannelRecorder(sent.append)
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        recorder.log({"a": 1.0}, step=1)
        recorder.summarize("epoch", 1, 2)
        recorder.log({"a": 2.0}, step=2)
        recorder.close()
        with suppress(OSError):
            full.close()
    assert [point[2] for flush in sent for point in flush.points] == [1.0, 2.0]


def test_points_are_sent_sooner_while_somebody_reads_them_and_no_link_is_followed(tmp_path: Path) -> None:
    recorder = ChannelRecorder(lambda message: None, is_read=partial(has_reader, tmp_path))
    recorder.start(time.monotonic() - 2 * EAGER_S)
    found = [recorder._pause_s()]
    note_reader(tmp_path)
    found.append(recorder._pause_s())
    os.utime(tmp_path / READ, (1.0, 1.0))
    found.append(recorder._pause_s())
    recorder.close(time.monotonic())
    assert found == [FLUSH_S, EAGER_FLUSH_S, FLUSH_S]
    (tmp_path / READ).unlink()
    (tmp_path / READ).symlink_to(tmp_path / "secret")
    note_reader(tmp_path)
    assert not (tmp_path / "secret").exists()
