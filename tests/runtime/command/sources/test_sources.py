"""The measurements of a script come once, from whichever files it writes, however these grow."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from platform import node

import pytest
from hypothesis import strategies as some

from engine.home import ROOT
from engine.runtime.command.sources import duplicates
from engine.runtime.command.sources import sources as sources_module
from engine.runtime.command.sources.event_files import EventFile
from engine.runtime.command.sources.readings import Reading
from engine.runtime.command.sources.sources import Sources
from tests.inputs import drawn
from tests.transfer.readers import events
from tests.waiting import wait_until

FOR_SCRIPTS = ROOT / "engine" / "script" / "for_scripts"
NOW = time.time()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "1"
    (folder / "logs").mkdir(parents=True)
    return folder


def rest(sources: Sources) -> Iterator[Reading]:
    """Yield what is left after a script's end."""
    return chain.from_iterable(sources.rest())


def curves(readings: Iterator[Reading] | list[Reading]) -> dict[tuple[str, int | None], list[tuple[int, float]]]:
    found: dict[tuple[str, int | None], list[tuple[int, float]]] = {}
    for rank, _, point in readings:
        found.setdefault((point.name, rank), []).append((point.step, round(point.value, 6)))
    return found


def name(pid: int, at: float = NOW, number: int = 0) -> str:
    return f"events.out.tfevents.{int(at)}.{node()}.{pid}.{number}"


def record(tag: str, step: int, value: float, at: float = NOW) -> bytes:
    return events.record(events.event(at, step, events.scalar(tag, value)))


def ended() -> int:
    """Return the id of a process that has ended."""
    return int(subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout)


# ---- Event files ---------------------------------------------------------------------------------------------------

BOARD = b"".join(
    [
        events.record(events.event(NOW, 0) + events.field(3, b"brain.Event:2")),
        events.record(events.event(NOW, 0, events.hparams("lr", 0.25))),
        *(record("loss", step, 1 / (step + 1)) for step in range(30)),
        events.record(b"\x0a\xff"),
        *(record("a/long tag", step * 1_000_000, -step) for step in range(20)),
        events.record(events.event(NOW, 7, events.tensor("accuracy", 0.5))),
        events.record(events.event(NOW, 8, events.scalar("x", 1) + events.scalar("y", float("inf")))),
        record("loss", 2**40, float("nan")),
    ]
)


@drawn(cuts=some.lists(some.integers(0, len(BOARD)), max_size=20))
def test_an_event_file_gives_the_same_values_however_it_grows(tmp_path: Path, cuts: list[int]) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"")
    file, found, done = EventFile(path), list[tuple[str, int, str]](), 0
    for cut in [*sorted(cuts), len(BOARD)]:
        with path.open("ab") as growing:
            growing.write(BOARD[done:cut])
        done = max(done, cut)
        found += [(each.name, each.step, f"{each.value:.6g}") for each in file.read(NOW, final=False)[0]]
    assert found == [
        *(("loss", step, f"{1 / (step + 1):.6g}") for step in range(30)),
        *(("a/long tag", step * 1_000_000, f"{-step:.6g}") for step in range(20)),
        *[("accuracy", 7, "0.5"), ("x", 8, "1"), ("y", 8, "inf"), ("loss", 2**40, "nan")],
    ]
    assert file.hyperparameters == {"lr": 0.25}
    assert file.left_out == {"records that are not events of TensorBoard": 1}


def test_a_damaged_record_is_counted_and_a_damaged_length_ends_the_file(tmp_path: Path) -> None:
    path, records = tmp_path / "events.out.tfevents.1", [record("loss", step, step) for step in range(100)]
    records[50] = records[50][:-1] + bytes([records[50][-1] ^ 1])
    path.write_bytes(b"".join(records) + b"\0" * 20 + records[0])
    file = EventFile(path)
    assert [each.step for each in file.read(NOW, final=False)[0]] == [*range(50), *range(51, 100)]
    assert not file.note  # the rest may still arrive from another machine
    file.read(NOW, final=True)
    assert (file.left_out, "is damaged from byte" in file.note) == ({"damaged records": 1}, True)


def test_only_event_files_of_the_run_are_followed(folder: Path, tmp_path: Path) -> None:
    work, mine, other = tmp_path / "work", os.getpid(), os.getppid()
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "er" / name(mine)).write_bytes(record("mine", 1, 1))
    (work / name(mine, NOW - 100)).write_bytes(record("before the start", 1, 1))
    (work / name(other)).write_bytes(record("of another process", 1, 1))
    (work / f"{name(mine)}.9").write_bytes(record("without a process", 1, 1))
    (folder / name(other, NOW - 100)).write_bytes(record("in the run's folder", 1, 1))
    held = (work / f"events.out.tfevents.{int(NOW)}.{node()}").open("wb", buffering=0)
    with held:
        held.write(record("held open", 1, 1))
        sources, found = Sources(folder, work, since=NOW, pids=lambda: {mine: 0}), list[Reading]()
        wait_until(lambda: found.extend(sources.poll()) or len(found) >= 3)
        assert {name for name, _ in curves(found)} == {"in the run's folder", "mine", "held open"}
    last = {name for name, _ in curves(rest(sources))}
    assert last == {"without a process"}


def test_the_file_of_a_rank_that_ended_before_it_was_met_keeps_its_rank(folder: Path, tmp_path: Path) -> None:
    ranks = {2**22 + rank: rank for rank in range(2)}  # beyond all pids
    for pid, rank in ranks.items():
        (tmp_path / name(pid)).write_bytes(record("loss", 1, float(rank)))
    found = rest(Sources(folder, tmp_path, since=NOW, pids=lambda: ranks))
    assert sorted((reading.rank or 0, reading.point.value) for reading in found) == [(0, 0.0), (1, 1.0)]


@pytest.mark.processes
def test_a_file_of_an_ended_process_is_the_runs_unless_another_run_has_it(folder: Path, tmp_path: Path) -> None:
    work, pid = tmp_path / "work", ended()
    work.mkdir()
    for number in range(2):
        (work / name(pid, number=number)).write_bytes(record(f"metric {number}", 1, 1))
    beside = folder.parent / "2"
    beside.mkdir()
    (beside / "sources.jsonl").write_text(json.dumps({"file": str(work / name(pid, number=1))}) + "\n{cut")
    sources = Sources(folder, work, since=NOW)
    assert not sources.poll()
    assert curves(rest(sources)) == {("metric 0", None): [(1, 1)]}


def test_a_reader_follows_no_file_outside_the_runs_folders_whatever_its_memory_says(
    folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / name(1)
    other.parent.mkdir()
    other.write_bytes(record("secret", 1, 1))
    (folder / name(2)).symlink_to(other)
    told = [{"file": str(path), "rank": None, "prefix": ""} for path in (other, folder / name(2), folder / ".." / "x")]
    (folder / "sources.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))
    assert not curves(rest(Sources(folder, since=NOW)))


def test_folders_of_event_files_tell_equal_tags_apart(folder: Path) -> None:
    for inner, tag in [("", "loss"), ("validation", "loss"), ("Acc_a", "Acc"), ("1700000000.25", "hparam/best")]:
        (folder / "board" / inner).mkdir(parents=True, exist_ok=True)
        (folder / "board" / inner / name(1, NOW + len(inner))).write_bytes(record(tag, 1, 1))
    assert {name for name, _ in curves(rest(Sources(folder, since=NOW)))} == {
        *("loss", "validation/loss", "Acc/a", "hparam/best")
    }


# ---- A reader after another ----------------------------------------------------------------------------------------


@drawn(kill=some.integers(0, 400), grown=some.lists(some.integers(0, 99), min_size=1, max_size=4))
def test_a_new_reader_continues_after_what_is_stored(tmp_path: Path, kill: int, grown: list[int]) -> None:
    folder = tmp_path / f"{kill}-{grown}"
    (folder / "logs").mkdir(parents=True)
    log, board = folder / "logs" / "script.log", folder / name(1)
    lines = [f"step {step}: loss {step / 8}, acc {step / 4}\n" for step in range(100)]
    records = [record("loss", step, step / 8) for step in range(100)]
    first, stored, done = Sources(folder, since=NOW), list[Reading](), 0
    for end in sorted(grown):
        with log.open("a") as text, board.open("ab") as data:
            text.write("".join(lines[done:end]))
            data.write(b"".join(records[done:end]))
        done = max(done, end)
        stored += first.poll()
    stored = stored[:kill]
    with log.open("a") as text, board.open("ab") as data:
        text.write("".join(lines[done:]))
        data.write(b"".join(records[done:]))
    second = Sources(folder, since=NOW)
    second.skip(curves(stored))
    assert curves([*stored, *rest(second)]) == {
        ("loss", None): [(step, step / 8) for step in range(100)],
        ("acc", None): [(step, step / 4) for step in range(100)],
    }


def logged(folder: Path, file: str, steps: range, **values: float) -> None:
    """Append records of parallab_log to a file of a process: each value, plus the step."""
    (folder / "recorded").mkdir(exist_ok=True)
    with (folder / "recorded" / file).open("a") as into:
        for step in steps:
            of = {name: value + step for name, value in values.items()}
            into.write(json.dumps({"t": time.time(), "s": step, "m": of}) + "\n")


def test_a_new_reader_continues_a_curve_of_several_files_whatever_their_order(folder: Path) -> None:
    first, stored = Sources(folder, since=NOW), list[Reading]()
    for begin in range(0, 40, 10):
        for file in ("x-2-1.jsonl", "x-3-1.jsonl"):
            logged(folder, file, range(begin, begin + 10), loss=float(file[2]))
            stored += first.poll()
    stored = stored[:-7]
    logged(folder, "x-1-1.jsonl", range(40), loss=0.5)
    second = Sources(folder, since=NOW)
    second.skip(curves(stored))
    expected = [(step, step + value) for value in (0.5, 2, 3) for step in range(40)]
    assert sorted(curves([*stored, *rest(second)])[("loss", None)]) == sorted(expected)


def test_a_new_reader_knows_copies_whose_steps_are_other_ones(folder: Path) -> None:
    first, stored = Sources(folder, since=NOW), list[Reading]()
    for epoch in range(1, 6):
        logged(folder, "0-1-1.jsonl", range(100 * epoch, 100 * epoch + 1), loss=0.123)
        with (folder / "logs" / "rank 0.log").open("a") as log:
            log.write(f"epoch {epoch}: loss {100 * epoch + 0.12}\n")
        stored += first.poll()
    with (folder / "logs" / "rank 0.log").open("a") as log:
        log.write("epoch 6: loss 3.5\n")
    os.utime(folder / "logs" / "rank 0.log", (NOW - 60, NOW - 60))
    second = Sources(folder, since=NOW)
    second.skip({("loss", 0): [(reading.point.step, reading.point.value) for reading in stored]})
    assert curves([*stored, *rest(second)]) == {
        ("loss", 0): [(100 * epoch, 100 * epoch + 0.123) for epoch in range(1, 6)],
        ("loss (printed)", 0): [(6, 3.5)],
    }


def test_the_rest_of_a_printed_curve_has_the_time_of_its_log(folder: Path) -> None:
    (folder / "logs" / "script.log").write_text("step 1: loss 0.5\n")
    os.utime(folder / "logs" / "script.log", (NOW - 3_000, NOW - 3_000))
    (found,) = rest(Sources(folder, since=NOW - 3_600))
    assert found.point.time_s == pytest.approx(600, abs=0.01)


# ---- Several sources -----------------------------------------------------------------------------------------------


def test_a_value_that_is_logged_and_printed_is_one_curve_at_full_precision(folder: Path) -> None:
    values = [(step, 1 / (step + 3)) for step in range(20)]
    (folder / name(1)).write_bytes(b"".join(record("Loss/train", *each) for each in values))
    (folder / "logs" / "rank 0.log").write_text("".join(f"step {step}: loss {value:.3f}\n" for step, value in values))
    (folder / "logs" / "rank 1.log").write_text("".join(f"step {step}: loss {value:.3f}\n" for step, value in values))
    sources = Sources(folder, since=NOW)
    assert curves(rest(sources)) == {
        ("Loss/train", None): [(step, round(value, 6)) for step, value in values],
        ("loss", 1): [(step, round(value, 3)) for step, value in values],
    }
    assert sources.recognised["loss (printed)"].same_as == "Loss/train"


def test_each_rank_logs_and_prints_one_curve(folder: Path) -> None:
    for rank in range(2):
        logged(folder, f"{rank}-{rank}-1.jsonl", range(20), loss=rank)
        lines = (f"step {step}: loss {step + rank}, acc {step}\n" for step in range(20))
        (folder / "logs" / f"rank {rank}.log").write_text("".join(lines))
    (folder / "logs" / "rank 2.log").write_text("step 1: loss 1\n")
    assert curves(rest(Sources(folder, since=NOW))) == {
        **{("loss", rank): [(step, step + rank) for step in range(20)] for rank in range(2)},
        **{("acc", rank): [(step, step) for step in range(20)] for rank in range(2)},
        ("loss", 2): [(1, 1)],
    }


def test_the_log_of_another_rank_does_not_rename_a_logged_metric(folder: Path) -> None:
    (folder / "logs" / "rank 1.log").write_text("step 1: loss 5\n")
    sources, found = Sources(folder, since=NOW), list[Reading]()
    wait_until(lambda: found.extend(sources.poll()) or found, "the printed value is not held any more")
    for rank in range(2):
        logged(folder, f"{rank}-1-1.jsonl", range(2), loss=1)
    assert curves([*found, *rest(sources)]) == {
        ("loss", 1): [(1, 5)],
        ("loss", 0): [(0, 1), (1, 2)],
        ("loss (parallab_log)", 1): [(0, 1), (1, 2)],
    }


def test_a_backlog_of_logged_and_printed_values_is_one_curve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "MOST_READINGS", 500)
    for bound, value in {"MOST_HELD": 400, "FULL": 200, "MOST_KEPT": 1_000, "LEAST_KEPT": 1_000}.items():
        monkeypatch.setattr(duplicates, bound, value)
    logged(folder, "0-1-1.jsonl", range(6_000), loss=0.5, other=0)
    lines = (f"step {step}: loss {step + 0.5}\n" for step in range(6_000))
    (folder / "logs" / "rank 0.log").write_text("".join(lines))
    found = curves(rest(Sources(folder, since=NOW)))
    assert {key: len(points) for key, points in found.items()} == {("loss", 0): 6_000, ("other", 0): 6_000}


def test_where_two_sources_disagree_both_are_kept(folder: Path) -> None:
    (folder / name(1)).write_bytes(b"".join(record("loss", step, step) for step in range(10)))
    lines = [f"step {step}: loss {step + (0.5 if step == 7 else 0)}, acc {step}\n" for step in range(10)]
    (folder / "logs" / "script.log").write_text("".join(lines))
    assert curves(rest(Sources(folder, since=NOW))) == {
        ("loss", None): [(step, step) for step in range(10)],
        ("loss (printed)", None): [(step, 7.5 if step == 7 else step) for step in range(10)],
        ("acc", None): [(step, step) for step in range(10)],
    }


def test_printed_values_do_not_wait_for_logged_ones_that_are_past_them(folder: Path) -> None:
    (folder / name(1)).write_bytes(record("other", 1, 1, NOW + 1_000))
    (folder / "logs" / "script.log").write_text("step 3: loss 0.5\n")
    sources, found = Sources(folder, since=NOW), list[Reading]()
    wait_until(lambda: found.extend(sources.poll()) or len(found) >= 2)  # a poll may end before it has seen all files
    assert curves(found) == {("other", None): [(1, 1)], ("loss", None): [(3, 0.5)]}


def test_trackios_fragments_are_read_once_by_log_id(folder: Path) -> None:
    inbox = folder / "trackio" / "inbox" / "writer"
    inbox.mkdir(parents=True)
    (inbox / "1.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "kind": kind,
                    "metrics": {"a": {"b": value}},
                    "step": step,
                    "log_id": key,
                    "timestamp": "2026-11-27T10:00:00+00:00",
                }
            )
            + "\n"
            for kind, value, step, key in [
                ("metric", 1.5, 0, "x"),
                ("metric", "NaN", 1, "y"),
                ("metric", 1.5, 0, "x"),
                ("alert", 2, 2, "z"),
            ]
        )
        + '{"cut'
    )
    sources = Sources(folder, since=NOW)
    assert str(curves(sources.poll())) == "{('a/b', None): [(0, 1.5), (1, nan)]}"
    with (inbox / "1.jsonl").open("a") as file:
        file.write('": 1}\n' + json.dumps({"metrics": {"c": 1}, "step": 2}) + "\n")
    assert curves(sources.poll()) == {("c", None): [(2, 1)]}


# ---- parallab_log --------------------------------------------------------------------------------------------------

SCRIPT = """
import os, threading, time
from parallab_log import log, phase, progress
def many(number):
    for step in range(100):
        log({f"thread {number}": step}, step=step)
threads = [threading.Thread(target=many, args=[number]) for number in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
log({"forked": 1})
if (child := os.fork()) == 0:
    log({"child": 2}, step=5)
    time.sleep(0.5)
    os._exit(0)
os.waitpid(child, 0)
with phase("data"):
    time.sleep(0.02)
    with phase("wait"):
        time.sleep(0.02)
log({"loss": float("nan")}, step=1)
log("nonsense")
log({"loss": "nonsense"})
progress(3, 10)
progress("nonsense", None)
"""


def run_script(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(FOR_SCRIPTS), "PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.processes
def test_parallab_log_records_each_process_threads_phases_and_progress(folder: Path) -> None:
    ran = run_script(SCRIPT, PARALLAB_RUN_FOLDER=str(folder), RANK="3")
    sources = Sources(folder, since=NOW)
    found = curves(rest(sources))
    assert found[("thread 0", 3)] == found[("thread 1", 3)] == [(step, step) for step in range(100)]
    assert [len(found[name, 3]) for name in ("forked", "child", "loss")] == [1, 1, 1]
    assert (sources.progress, sources.phases[3].keys()) == ((3, 10, "steps"), {"data", "wait"})
    assert sources.phases[3]["data"] > 0.015
    assert ran.stderr.count("was ignored") == 2  # log and progress, once each


@pytest.mark.processes
def test_parallab_log_does_nothing_without_a_run_or_a_folder_to_write(tmp_path: Path) -> None:
    assert run_script(SCRIPT).stderr == ""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recorded").write_text("in the way")
    run_script(SCRIPT, PARALLAB_RUN_FOLDER=str(folder))
    assert (folder / "recorded").read_text() == "in the way"


FULL = """
import resource, parallab_log
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
for step in range(100):
    parallab_log.log({"loss": step}, step=step)
parallab_log._writer.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
parallab_log.log({"after": 1}, step=0)
"""


@pytest.mark.processes
def test_a_full_disk_drops_values_counts_them_and_harms_neither_script_nor_later_ones(folder: Path) -> None:
    assert run_script(FULL, PARALLAB_RUN_FOLDER=str(folder)).stderr == ""
    sources = Sources(folder, since=NOW)
    found = curves(rest(sources))
    assert found["after", None] == [(0, 1)]
    assert found["loss", None] == [(step, step) for step in range(len(found["loss", None]))]
    assert any("a full disk dropped" in sentence for sentence in sources.left_out)


@pytest.mark.processes
def test_records_of_a_running_script_come_while_it_runs(folder: Path) -> None:
    script = "import time, parallab_log\nparallab_log.log({'loss': 1})\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(FOR_SCRIPTS), "PARALLAB_RUN_FOLDER": str(folder)},
        stdin=subprocess.PIPE,
    )
    try:
        sources, found = Sources(folder, since=NOW), list[Reading]()
        wait_until(lambda: found.extend(sources.poll()) or found)
        assert curves(found) == {("loss", None): [(0, 1)]}
    finally:
        process.communicate(b"\n")
