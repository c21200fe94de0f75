"""Real runs from the command line: launched, watched, cancelled, resumed, left; the runner started and stopped.

All tests share one home and, until one ends it, one runner: each run and each runner costs seconds.
"""

import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from engine.catalogue import FILES
from engine.data.added_files import checksum
from engine.home import ROOT, Home
from engine.store import ALIVE, Reader, Run, Status, Store
from engine.system.checkpoint_state import last_checkpoint
from engine.system.machine import machine
from engine.system.processes import session_members
from engine.system.runner_process import is_running, runner_process
from tests.cli.conftest import Parallab, environment
from tests.conftest import end_processes_of
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
Begin = Callable[..., subprocess.Popen[str]]


def setting(**settings: object) -> tuple[str, ...]:
    """Return the words that set these."""
    return tuple(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))


QUICK = ("hogwild", "--preset", "quick", *setting(device="cpu"))
CALM = (
    "sync_sgd",
    "--preset",
    "quick",
    *setting(device="cpu", threads_per_rank=1, trainers=1, rounds=100_000, transport="shared_memory", sleep_ms=20),
)
"""A run on one core that goes on for hours and sleeps most of the time."""
CHECKPOINTED = setting(
    device="cpu", threads_per_rank=1, batch_size=100, evaluate_every=0, checkpoint_every_s=0.1, epochs=1000
)
BATCHES = 15
"""Of one epoch of digits."""
LETTERS = ("run", "reference", "--preset", "quick", *setting(dataset="letters", epochs=2, batch_size=30, device="cpu"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Give all tests one home, whose folder others can read at first."""
    made = Home(tmp_path_factory.mktemp("lab") / "home").create()
    made.path.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARALLAB_HOME", str(made.path))
        yield made
    end_processes_of(made)


def read(home: Home, run_id: int) -> Run:
    with Reader.open(home, timeout_s=60.0) as reader:
        return reader.runs.one(run_id)


def newest(home: Home, *statuses: Status) -> int:
    """Return the newest run where it has one of these statuses, else 0."""
    with Reader.open(home, timeout_s=60.0) as reader:  # the command may be making the store this moment
        rows = reader.runs.find(limit=1)
    return rows[0].id if rows and rows[0].status in statuses else 0


def last_line(process: subprocess.Popen[str]) -> Any:
    out, complaint = process.communicate()
    assert out, complaint
    return json.loads(out.splitlines()[-1]) | {"stderr": complaint}


def test_run_starts_a_runner_and_another_when_that_is_killed_and_ends_with_one_json_object(
    begun: Begin, parallab: Parallab, home: Home
) -> None:
    (home.run_folder(1) / "hang").mkdir(parents=True)  # of a run of this number that this store never had
    (home.run_folder(1) / "checkpoint.pt").write_text("worth something")
    process = begun("run", *QUICK, *setting(epochs=3), "--name", "first light", "--json")
    wait_until(lambda: newest(home, *ALIVE), "the run is on")
    first = runner_process(home)
    assert first
    os.kill(first.pid, signal.SIGKILL)
    found = last_line(process)
    assert (process.returncode, found["stderr"]) == (0, ""), "no progress where nobody looks"
    assert runner_process(home) not in (None, first), "the runner outlives the command"
    assert (found["id"], found["status"], found["owner"], found["name"], found["preset"]) == (
        1,
        "finished",
        "ada",
        "first light",
        None,  # its epochs are not the preset's
    )
    assert found["cause"]
    assert found["execution_time_s"] > 0
    assert found["metrics"]["test/accuracy"] > 50
    assert found["metrics"]["perf/execution_time_s"] == pytest.approx(found["execution_time_s"], rel=0.01)
    assert found["config"]["epochs"] == 3
    written = (home.run_folder(1) / "logs" / "worker.log").read_text()
    assert re.search(
        r"INFO hogwild, seed \d+, ranks: trainer1 on cpu, trainer2 on cpu\.\n"
        r".* INFO finished after [\d.]+ s, execution [\d.]+ s: Completed successfully\n"
        r".* INFO Result: test accuracy [\d.]+ %",
        written,
    ), written
    shown = json.loads(parallab("show", "1", "--json").stdout)
    assert [rank["state"] for rank in shown["ranks"]] == ["done", "done"]
    assert shown["environment"]["packages"]["torch"]
    (moved,) = home.aside.glob("found-*/1")
    assert (moved / "checkpoint.pt").read_text() == "worth something"
    assert sorted(path.name for path in home.run_folder(1).iterdir()) == ["logs"]
    assert f"Files of another run of this number are in {moved}." in [event["detail"] for event in shown["events"]]


def test_the_first_interrupt_cancels_the_run_which_resumes_where_its_checkpoint_was(
    begun: Begin, parallab: Parallab, home: Home, store: Store
) -> None:
    process = begun("run", "reference", "--preset", "quick", *CHECKPOINTED, "--json")
    wait_until(lambda: newest(home, "running"), "the run trains")
    first = newest(home, "running")
    wait_until(lambda: last_checkpoint(home.run_folder(first)), "there is a checkpoint")
    worker = read(home, first).worker
    assert worker
    process.send_signal(signal.SIGINT)
    found = last_line(process)
    assert (process.returncode, found["status"]) == (1, "cancelled")
    assert found["cause"].startswith("Cancelled by ada."), (
        "and that it was killed, where the machine was too busy for it to end by itself"
    )
    wait_until(
        lambda: session_members(worker) == [], "all its processes end"
    )  # the worker itself leaves just after it wrote the status
    saved = last_checkpoint(home.run_folder(first))
    assert saved
    at, epochs = saved.step, saved.step // BATCHES + 2
    with (
        store.db.change() as connection
    ):  # it was to be long, so that the cancel finds it on its way; the rest is to be short
        connection.execute("UPDATE runs SET config = json_set(config, '$.epochs', ?) WHERE id = ?", [epochs, first])
    second = first + 1
    assert json.loads(parallab("resume", str(first), "--json").stdout) == {"id": second, "parent_id": first}
    wait_until(lambda: not read(home, second).active, "the resumed run ends")
    with Reader.open(home) as reader:
        run, events = reader.runs.one(second), {event.kind: event.detail for event in reader.details.events(second)}
        (loss,) = reader.curves.series(second, ["train/loss"])
    assert (run.status, run.cause) == ("finished", "Completed successfully")
    assert events["resumes"] == f"run {first} at step {at:,}"
    assert loss.steps == list(range(1, epochs * BATCHES + 1)), "every step once, wherever the cancel fell"
    assert loss.times_s == sorted(loss.times_s)
    assert f"resumes     run {first}" in parallab("show", str(second)).stdout
    shown = json.loads(parallab("show", str(first), "--json").stdout)
    assert (shown["resumed_as"], shown["parent_id"]) == ([second], None)


@pytest.mark.long
def test_the_second_interrupt_leaves_the_run_to_the_runner(begun: Begin, home: Home) -> None:
    process = begun("run", *CALM)
    wait_until(lambda: newest(home, "running"), "the run trains")
    run_id = newest(home, "running")
    assert process.stderr
    process.send_signal(signal.SIGINT)
    assert f"Cancelling run {run_id}" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    if process.returncode != 130:  # the run ended in between: then there was nothing to leave
        assert (process.returncode, read(home, run_id).status) == (1, "cancelled")
        return
    assert f"Detached from run {run_id}" in complaint
    wait_until(lambda: read(home, run_id).status == "cancelled", "the runner cancels it")


def lay(place: Path) -> None:
    """Write a small data set of four files."""
    place.mkdir(parents=True)
    draw = np.random.default_rng(3)
    for part, count in (("train", 90), ("t10k", 20)):
        (place / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, count, 28, 28) + draw.integers(0, 256, count * 784, np.uint8).tobytes()
        )
        (place / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, count) + (np.arange(count) % 10).astype(np.uint8).tobytes()
        )


def test_a_run_learns_from_the_files_of_the_folder_that_its_command_was_given(
    home: Home, parallab: Parallab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin added the data set. The run writes down which files they were, and ends the command with the cure where
    one has gone.
    """
    folder, elsewhere = home.path.parent / "data", home.path.parent / "elsewhere"
    lay(folder / "LETTERS")
    shutil.copytree(folder, elsewhere)
    (elsewhere / "LETTERS" / FILES[0]).unlink()
    monkeypatch.setenv("PARALLAB_DATA", str(folder))  # the runner was started with another one
    assert parallab("catalogue", "add-dataset", "letters", "--folder", "LETTERS").returncode == 0
    ended = json.loads(parallab(*LETTERS, "--json").stdout.splitlines()[-1])
    assert (ended["status"], ended["config"]["dataset"]) == ("finished", "letters"), ended
    shown = json.loads(parallab("show", str(ended["id"]), "--json").stdout)
    first = folder / "LETTERS" / FILES[0]
    assert (
        shown["environment"]["data_files"][f"LETTERS/{FILES[0]}"]
        == f"{16 + 90 * 784} bytes, SHA-256 {checksum(first, home)}"
    )
    assert len(shown["environment"]["data_files"]) == 4
    monkeypatch.setenv("PARALLAB_DATA", str(elsewhere))
    gone = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "engine", *LETTERS],
        cwd=ROOT,
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,  # followed without stderr
    )
    assert gone.returncode == 1
    assert f"Run {ended['id'] + 1} failed" in gone.stdout
    assert f"{elsewhere / 'LETTERS' / FILES[0]} doesn't exist. Restore it" in gone.stdout


@pytest.mark.skipif(len(machine().core_ids) < 2, reason="two runs at once need two cores")
def test_submit_cancel_and_stop_while_two_runs_are_on_each_on_cores_of_its_own(parallab: Parallab, home: Home) -> None:
    first, second = (json.loads(parallab("submit", *CALM, "--json").stdout)["id"] for _ in range(2))
    wait_until(lambda: {read(home, run_id).status for run_id in (first, second)} == {"running"}, "both runs train")
    assert [read(home, run_id).cores for run_id in (first, second)] == [machine().core_ids[:1], machine().core_ids[1:2]]
    for run_id, core in zip((first, second), machine().core_ids, strict=False):
        shown = json.loads(parallab("show", str(run_id), "--json").stdout)
        assert shown["pid"] == shown["worker"]["pid"] > 0
        with Reader.open(home) as reader:
            (rank,) = reader.details.ranks(run_id)
        assert [psutil.Process(pid).cpu_affinity() for pid in (shown["pid"], rank.pid)] == [[core]] * 2
    assert json.loads(parallab("cancel", str(first), "--wait", "--json").stdout) == {"id": first, "status": "cancelled"}
    waiting = parallab("stop", "--timeout", "1")
    assert waiting.returncode == 4
    assert re.search(rf"Waiting for run {second} \(running, \d+% done\)\. Cancel with", waiting.stderr)
    assert f"when these runs have ended: {second}" in waiting.stdout
    assert is_running(home)
    told = parallab("stop", "--cancel-runs")
    assert (told.returncode, told.stdout.strip()) == (0, "The runner has stopped.")
    assert (read(home, second).status, is_running(home)) == ("cancelled", False)


def test_a_second_runner_is_refused_and_sigterm_ends_the_first(
    begun: Begin, parallab_process: Parallab, home: Home, store: Store
) -> None:
    parallab_process("stop", "--cancel-runs")
    first = begun("serve")
    wait_until(lambda: store.read.runner.process() is not None, "the runner registers")
    second = parallab_process("serve")
    assert (second.returncode, f"pid {first.pid}" in second.stderr) == (4, True)
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    assert not is_running(home)


def test_without_a_runner_a_submitted_run_waits_for_one(parallab: Parallab, home: Home) -> None:
    run_id = json.loads(parallab("submit", *QUICK, "--no-runner", "--json").stdout)["id"]
    assert (read(home, run_id).status, is_running(home)) == ("queued", False)
    told = json.loads(parallab("stop", "--json").stdout)
    assert told == {"stopped": True, "was_running": False, "waiting_for": [], "queued": [run_id]}


def test_what_all_of_them_made_in_the_home_is_its_owners_alone_and_what_is_exported_follows_the_umask(
    home: Home, parallab_process: Parallab
) -> None:
    out = home.path.parent / "out"
    out.mkdir()
    commands = (
        ("users", "add", "ada", "--role", "admin", "--email", "ada@lab.org", "--no-password"),
        ("backup",),
        ("export", "1", "--out", str(out / "run.zip")),
        ("export", "1", "--out", str(out / "run.csv")),
    )
    for words in commands:
        ended = parallab_process(*words)
        assert ended.returncode == 0, ended.stderr
    found = {
        str(path.relative_to(home.path)): stat.S_IMODE(path.lstat().st_mode)
        for path in (home.path, *home.path.rglob("*"))
        if not path.is_symlink()
    }
    assert {
        "parallab.db",
        "accounts",
        "runner.log",
        "runner.lock",
        "spare.log",
        "runs/1/logs/worker.log",
    } <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in out.iterdir()} == {
        "run.zip": "0o644",
        "run.csv": "0o644",
    }
