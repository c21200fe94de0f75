"""Logs: all of them, one of them, and as they grow."""

import json
import subprocess
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli.runs import LogFollower, read_logs
from engine.home import Home
from engine.store import Store
from tests.cli.conftest import Parallab, write_log
from tests.waiting import wait_until


def test_logs_carry_the_name_of_their_source(parallab: Parallab, store: Store, home: Home, ended: int) -> None:
    write_log(home, ended, "trainer1", "one\ntwo\nwithout an end")
    store.worker.add_log(ended, "trainer1", "logs/trainer1.log")
    lines = parallab("logs", str(ended)).stdout.splitlines()
    assert "worker    | the worker speaks" in lines
    assert lines[:3] == ["trainer1  | one", "trainer1  | two", "trainer1  | without an end"]


def test_one_source_is_printed_as_it_is(parallab: Parallab, ended: int) -> None:
    assert parallab("logs", str(ended), "--source", "worker").stdout == "the worker speaks\n"


def test_only_the_last_lines_where_asked(parallab: Parallab, home: Home, ended: int) -> None:
    write_log(home, ended, "worker", "".join(f"line {number}\n" for number in range(100)))
    assert parallab("logs", str(ended), "--source", "worker", "--lines", "2").stdout == "line 98\nline 99\n"
    assert parallab("logs", str(ended), "--source", "worker", "--lines", "0").stdout == ""


def test_json_is_one_object_a_line(parallab: Parallab, ended: int) -> None:
    assert json.loads(parallab("logs", str(ended), "--json").stdout) == {
        "source": "worker",
        "line": "the worker speaks",
    }


def test_a_source_that_does_not_exist_gets_a_suggestion(parallab: Parallab, ended: int) -> None:
    told = parallab("logs", str(ended), "--source", "wroker")
    assert (told.returncode, "Did you mean 'worker'?" in told.stderr) == (2, True)


@pytest.mark.processes
def test_following_prints_what_comes_and_ends_with_the_run(
    begun: Callable[..., subprocess.Popen[str]], store: Store, home: Home, live: int
) -> None:
    process = begun("logs", str(live), "--follow")
    assert process.stdout
    seen: list[str] = []
    reading = threading.Thread(target=lambda: seen.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    wait_until(lambda: "worker    | the worker speaks\n" in seen, "the first line is printed")
    write_log(home, live, "trainer1", "a source that comes later\n")
    store.worker.add_log(live, "trainer1", "logs/trainer1.log")
    wait_until(lambda: "trainer1  | a source that comes later\n" in seen, "the line of the new source is printed")
    write_log(home, live, "worker", "last words")
    store.claims.end(live, "finished", "Done.")
    assert process.wait() == 0
    reading.join()
    assert seen[-1] == "worker    | last words\n"


def test_a_line_is_given_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    tail = LogFollower(path)
    assert list(tail.read()) == []
    path.write_bytes(b"gr" + "ü".encode()[:1])
    assert list(tail.read()) == []
    with path.open("ab") as file:
        file.write("ü".encode()[1:] + b"n\nrest")
    assert list(tail.read()) == ["grün"]
    assert list(tail.read(final=True)) == ["rest"]


@pytest.mark.parametrize("line", [b"a line of a training run\n", b"no end "])
def test_a_long_log_is_read_in_the_room_of_a_short_one(
    home: Home, store: Store, ended: int, tmp_path: Path, line: bytes
) -> None:
    """A log of 300 MB was copied anew for each megabyte of it."""
    path = home.run_folder(ended) / "logs" / "worker.log"
    path.write_bytes(line * (20_000_000 // len(line)))
    tracemalloc.start()
    length = sum(len(text) for _, text in read_logs(home, ended, ["worker"]))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length >= 0.95 * path.stat().st_size
    assert most < 12_000_000
    assert [text for _, text in read_logs(home, ended, ["worker"], lines=2)][-1] == line.decode().rstrip(
        "\n"
    ) or b"\n" not in line
