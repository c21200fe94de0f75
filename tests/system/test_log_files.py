"""A log has a bound: its beginning and its end stay, who writes it never waits, and every reader is told how much is
missing.
"""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.run.log_tail import sources, tail
from engine.cli.runs import LogFollower, read_logs
from engine.home import ROOT, Home
from engine.runner.runner import folder_bytes
from engine.store import Reader, Store
from engine.store.records import RankRow, Status
from engine.store.timestamps import now
from engine.system.run_files import (
    HEAD_BYTES,
    SLACK_BYTES,
    TAIL_BYTES,
    close_up,
    cut,
    dropped_line,
    has_hole,
    offset_now,
    piece,
    pieces,
    trim,
)
from engine.transfer.bundles.bundle import write_bundle
from tests.labs import basic

BOUND = HEAD_BYTES + TAIL_BYTES + SLACK_BYTES
LINE = b"%09d a line that a rank prints\n"
WIDTH = len(LINE % 0)
MANY = 3 * BOUND // WIDTH


def lines(first: int, count: int) -> bytes:
    return b"".join(LINE % number for number in range(first, first + count))


@pytest.fixture(scope="module")
def text() -> bytes:
    return lines(0, MANY)


@pytest.fixture
def path(tmp_path: Path, text: bytes) -> Path:
    found = tmp_path / "trainer1.log"
    found.write_bytes(text)
    return found


def read(path: Path) -> bytes:
    return b"".join(each.text for each in pieces(path))


def test_the_middle_goes_the_beginning_and_the_end_stay_where_they_are(path: Path, text: bytes) -> None:
    trim(path)
    assert path.stat().st_size == len(text)
    assert folder_bytes(path.parent) <= HEAD_BYTES + TAIL_BYTES + 4096
    head, middle, end = read(path).partition(dropped_line(piece(path, HEAD_BYTES).start - HEAD_BYTES))
    assert head == text[:HEAD_BYTES] and middle
    assert len(end) >= TAIL_BYTES and text.endswith(end)


def test_a_log_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * BOUND)
    for act in (trim, close_up):
        act(path)
        assert path.read_bytes() == b"x" * BOUND
    trim(tmp_path / "nowhere.log")


@pytest.mark.processes
def test_who_writes_while_the_middle_goes_loses_no_byte_at_the_end(tmp_path: Path) -> None:
    """A process appends as a rank does; each of its writes is there or is counted as dropped, and none is torn."""
    path = tmp_path / "trainer1.log"
    program = (
        "import os, sys\nfile = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
        f"for first in range(0, {MANY}, 1000):\n    os.write(file, b''.join({LINE!r} % n for n in range(first, "
        f"min(first + 1000, {MANY}))))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT) as process:
        while process.poll() is None:
            trim(path)
    assert process.returncode == 0
    trim(path)
    assert path.stat().st_size == MANY * WIDTH
    kept = path.read_bytes()[-TAIL_BYTES:]
    assert kept == lines(MANY - TAIL_BYTES // WIDTH - 1, TAIL_BYTES // WIDTH + 1)[-TAIL_BYTES:]


def test_a_log_that_has_ended_is_plain_text_again(path: Path, text: bytes) -> None:
    trim(path)
    path.chmod(0o600)
    close_up(path)
    begin = len(text) - TAIL_BYTES
    assert path.read_bytes() == text[:HEAD_BYTES] + dropped_line(begin - HEAD_BYTES) + text[begin:]
    assert not has_hole(path) and path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_who_follows_a_log_reads_on_where_they_were_when_it_is_written_anew(path: Path, text: bytes) -> None:
    trim(path)
    before = len(text) - 1_000
    close_up(path)
    now = offset_now(path, before)
    assert path.read_bytes()[now:] == text[before:]
    assert offset_now(path, 100) == 100


def test_where_a_file_can_have_no_holes_the_beginning_stays_and_what_comes_then(path: Path, text: bytes) -> None:
    cut(path)
    with path.open("ab") as file:
        file.write(b"later\n")
    assert path.read_bytes() == text[:HEAD_BYTES] + dropped_line(len(text) - HEAD_BYTES) + b"later\n"
    cut(path)
    assert path.read_bytes() == text[:HEAD_BYTES] + dropped_line(len(text) + len(b"later\n") - HEAD_BYTES)


def test_every_reader_says_what_is_missing_and_shows_no_zeros(home: Home, text: bytes) -> None:
    run_id = basic.filled(home)["finished"]
    path = home.run_folder(run_id) / "logs" / "worker.log"
    path.write_bytes(text)
    trim(path)
    start = piece(path, HEAD_BYTES).start
    said = dropped_line(start - HEAD_BYTES).decode().strip()

    printed = [line for _, line in read_logs(home, run_id, ["worker"])]
    assert (printed[0], printed[-1]) == ((LINE % 0).decode().strip(), (LINE % (MANY - 1)).decode().strip())
    assert printed.count(said) == 1 and not any("\0" in line for line in printed)

    follower = LogFollower(path, HEAD_BYTES)
    assert next(iter(follower.read())) == "" and next(iter(follower.read())) != ""

    shown, offset = "", 0
    while (found := tail(path, offset)).text:
        shown, offset = shown + found.text, found.end
    assert shown.count(said) == 1 and "\0" not in shown and shown.endswith((LINE % (MANY - 1)).decode())
    assert "\0" not in tail(path, None).text

    file = io.BytesIO()
    with Reader.open(home) as reader:
        write_bundle(reader, [run_id], file, by="Ada")
        assert folder_bytes(home.run_folder(run_id)) <= HEAD_BYTES + TAIL_BYTES + 8192
    assert zipfile.ZipFile(file).read("logs/0.txt").decode() == shown


def test_a_worker_writes_the_logs_of_its_ranks_anew_and_goes_on_with_its_own(path: Path, text: bytes) -> None:
    from engine.runtime.worker.session import close_up_logs

    own = path.with_name("worker.log")
    own.write_bytes(text)
    for each in (path, own):
        trim(each)
    close_up_logs(path.parent)
    assert (has_hole(path), has_hole(own)) == (False, True)


@pytest.mark.parametrize(
    ("status", "cause", "failed", "texts", "order"),
    [
        ("running", "", [], ["worker"], ["worker", "trainer1", "trainer2"]),
        ("running", "", [], ["worker", "trainer2"], ["trainer2", "worker", "trainer1"]),
        ("finished", "", [], ["trainer1", "trainer2", "worker"], ["trainer1", "trainer2", "worker"]),
        ("failed", "The disk is full.", [], ["trainer2", "worker"], ["trainer2", "worker", "trainer1"]),
        ("failed", "It broke.", ["trainer2"], ["worker", "trainer1", "trainer2"], ["trainer2", "trainer1", "worker"]),
        (
            "failed",
            "trainer1 raised ValueError: no.",
            ["trainer1", "trainer2"],
            ["worker", "trainer1", "trainer2"],
            ["trainer1", "trainer2", "worker"],
        ),
        (
            "failed",
            "It broke.",
            ["trainer1", "trainer2"],
            ["worker", "trainer1", "trainer2"],
            ["trainer2", "trainer1", "worker"],
        ),
    ],
    ids=["all but one empty", "a rank with text", "ranks first", "no rank failed", "a rank failed", "cause", "newest"],
)
def test_the_log_tab_opens_on_the_failure_or_a_rank_and_on_a_log_that_has_text(
    home: Home, status: Status, cause: str, failed: list[str], texts: list[str], order: list[str]
) -> None:
    with Store.open(home) as store:
        run_id = basic.add(store, "Ada")
        basic.drive(store, home, run_id, "running")
        for rank, role in enumerate(basic.ROLES):
            store.worker.add_log(run_id, role, f"logs/{role}.log")
            if role in failed:
                store.worker.update_ranks(
                    run_id, [RankRow(rank, role, 4000 + rank, "cpu", "failed", 9, now(), 1, 480.0, 97.0)]
                )
        if status not in ("running", "queued"):
            store.claims.end(run_id, status, cause)
    for moment, source in enumerate(("worker", *basic.ROLES), start=1):
        path = home.run_folder(run_id) / "logs" / f"{source}.log"
        path.write_text("a line\n" if source in texts else "")
        os.utime(path, (moment, moment))
    with Reader.open(home) as reader:
        assert sources(home, reader.runs.one(run_id), reader) == order
