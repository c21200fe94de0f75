"""Real runs from the command line: launched, watched, cancelled, left; the runner started and stopped. One run of each kind, since each costs seconds."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from engine.home import Home
from engine.runtime.processes import session_members
from engine.runtime.running import is_running, runner_process
from engine.store import ALIVE, Reader, Run, Status, Store
from tests.cli.conftest import Parallab, wait

QUICK = ("hogwild", "--preset", "quick", "--set", "device=cpu")
LONG = ("hogwild", "--preset", "quick", "--set", "device=cpu", "--set", "epochs=1000")
Begin = Callable[..., subprocess.Popen[str]]


def read(home: Home, run_id: int = 1) -> Run:
    with Reader.open(home) as reader:
        return reader.run(run_id)


def is_in(home: Home, *statuses: Status) -> Callable[[], bool]:
    """Give the question whether the first run is there and has one of these statuses."""

    def ask() -> bool:
        with Reader.open(home, timeout_s=60.0) as reader:  # the command may be making the store this moment
            return bool(reader.runs(statuses=statuses))

    return ask


def last_line(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=280)
    return json.loads(out.splitlines()[-1])


def test_run_starts_a_runner_trains_and_ends_with_one_json_object(parallab_process: Parallab, home: Home) -> None:
    told = parallab_process("run", *QUICK, "--set", "epochs=3", "--name", "first light", "--json", timeout_s=280)
    assert told.returncode == 0, told.stderr
    assert told.stderr == "", "no progress where nobody looks"
    found = json.loads(told.stdout.splitlines()[-1])
    assert (found["id"], found["status"], found["owner"], found["name"], found["preset"]) == (1, "finished", "ada", "first light", "quick")
    assert found["cause"]
    assert found["execution_time_s"] > 0
    assert found["metrics"]["test/accuracy"] > 50
    assert found["metrics"]["perf/execution_time_s"] == pytest.approx(found["execution_time_s"], rel=0.01)
    assert found["config"]["epochs"] == 3
    assert is_running(home), "the runner outlives the command"
    shown = json.loads(parallab_process("show", "1", "--json").stdout)
    assert [rank["state"] for rank in shown["ranks"]] == ["done", "done"]
    assert shown["environment"]["packages"]["torch"]
    stopped = parallab_process("stop", "--json")
    assert (stopped.returncode, json.loads(stopped.stdout)["stopped"], is_running(home)) == (0, True, False)


def test_the_first_interrupt_cancels_the_run_and_all_its_processes_end(begun: Begin, home: Home) -> None:
    process = begun("run", *LONG, "--json")
    wait(is_in(home, "running"))
    worker = read(home).worker
    assert worker
    process.send_signal(signal.SIGINT)
    found = last_line(process)
    assert (process.returncode, found["status"]) == (1, "cancelled")
    assert found["cause"].startswith("Cancelled by ada."), "and that it was killed, where the machine was too busy for it to end by itself"
    wait(lambda: session_members(worker) == [])  # the worker itself leaves just after it wrote the status


@pytest.mark.long
def test_the_second_interrupt_leaves_the_run_to_the_runner(begun: Begin, home: Home) -> None:
    process = begun("run", *LONG)
    wait(is_in(home, "running"))
    assert process.stderr
    process.send_signal(signal.SIGINT)
    assert "Asked to cancel run 1" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=120)
    if process.returncode != 130:  # the run ended in between: then there was nothing to leave
        assert (process.returncode, read(home).status) == (1, "cancelled")
        return
    assert "Left run 1 behind" in complaint
    wait(is_in(home, "cancelled"))


def test_submit_answers_at_once_and_cancel_ends_the_run(parallab_process: Parallab, home: Home) -> None:
    assert json.loads(parallab_process("submit", *LONG, "--json").stdout) == {"id": 1}
    wait(is_in(home, "running"))
    shown = json.loads(parallab_process("show", "1", "--json").stdout)
    assert shown["pid"] == shown["worker"]["pid"] > 0
    assert json.loads(parallab_process("cancel", "1", "--wait", "--json").stdout) == {"id": 1, "status": "cancelled"}


def test_without_a_runner_a_submitted_run_waits_for_one(parallab_process: Parallab, home: Home) -> None:
    parallab_process("submit", *QUICK, "--no-runner")
    assert (read(home).status, is_running(home)) == ("queued", False)
    told = json.loads(parallab_process("stop", "--json").stdout)
    assert told == {"stopped": True, "was_running": False, "waiting_for": [], "queued": [1]}


def test_stop_waits_for_runs_says_so_and_cancels_them_where_asked(parallab_process: Parallab, home: Home) -> None:
    parallab_process("submit", *LONG)
    wait(is_in(home, "running"))
    waiting = parallab_process("stop", "--timeout", "1")
    assert waiting.returncode == 4
    assert re.search(r"Waiting for 1 \(running, \d+ %\)", waiting.stderr)
    assert "still waits for 1" in waiting.stdout
    assert is_running(home)
    told = parallab_process("stop", "--cancel-runs")
    assert (told.returncode, told.stdout.strip()) == (0, "The runner has ended.")
    assert (read(home).status, is_running(home)) == ("cancelled", False)


def test_a_second_runner_is_refused_and_sigterm_ends_the_first(begun: Begin, parallab_process: Parallab, home: Home, store: Store) -> None:
    first = begun("serve")
    wait(lambda: store.registered_runner() is not None)
    second = parallab_process("serve")
    assert (second.returncode, f"pid {first.pid}" in second.stderr) == (4, True)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    assert not is_running(home)


def test_a_run_goes_on_when_its_runner_is_killed_because_the_command_starts_another(begun: Begin, home: Home) -> None:
    process = begun("run", *QUICK, "--set", "epochs=3", "--json")
    wait(is_in(home, *ALIVE))
    runner = runner_process(home)
    assert runner
    os.kill(runner.pid, signal.SIGKILL)
    assert last_line(process)["status"] == "finished"
    assert runner_process(home) != runner


def test_a_run_that_fails_ends_the_command_with_its_reason(begun: Begin, home: Home) -> None:
    process = begun("run", *LONG)
    wait(is_in(home, "running"))
    with Reader.open(home) as reader:
        pid = next(rank.pid for rank in reader.ranks(1) if rank.role == "trainer2")
    assert pid
    os.kill(pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=280)
    assert process.returncode == 1
    assert "Run 1 failed" in out
    assert "trainer2 (rank 1, pid" in out
    assert "was killed by signal 9" in out
