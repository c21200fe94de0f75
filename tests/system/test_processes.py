"""Processes are told apart by boot, pid and start, and a session is ended to its last member."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from engine.system.processes import age_s, describe_exit, end_session, identity, is_alive, me, session_members
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


def test_a_process_is_alive_until_it_is_killed_even_as_a_zombie() -> None:
    process = _sleeper()
    known = identity(process.pid)
    assert known is not None
    assert is_alive(known)
    process.kill()
    wait_until(lambda: not is_alive(known), "it is dead")
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    process.wait()


def test_another_start_or_boot_with_the_same_pid_is_another_process() -> None:
    here = me()
    assert is_alive(here)
    assert not is_alive(replace(here, started_ticks=here.started_ticks - 1))
    assert not is_alive(replace(here, boot_id="another boot"))


def test_a_session_ends_with_its_orphans_and_those_that_ignore_sigterm() -> None:
    code = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("up", flush=True); time.sleep(600)'
outer = f'import subprocess, sys; subprocess.Popen([sys.executable, "-c", {inner!r}])'
subprocess.run([sys.executable, "-c", outer])
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE) as process:
        leader = identity(process.pid)
        assert leader is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        wait_until(
            lambda: len(session_members(leader)) == 2, "two are left in the session"
        )  # the one between them may still be on its way out
        assert end_session(leader, grace_s=0.3, kill_s=60.0) == []
        assert session_members(leader) == []


def test_a_reused_pid_is_never_ended_for_another_session() -> None:
    process = _sleeper()
    known = identity(process.pid)
    assert known is not None
    earlier = replace(known, started_ticks=known.started_ticks - 100)
    assert end_session(earlier, grace_s=0.0) == []
    assert is_alive(known)
    process.kill()
    process.wait()


def test_a_process_that_ends_while_a_session_is_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    process = _sleeper()
    leader = identity(process.pid)
    assert leader is not None
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setattr(psutil, "pids", lambda: [gone.pid, process.pid])
    assert session_members(leader) == [process.pid]
    process.kill()
    process.wait()


def test_the_age_of_a_process_is_known_on_other_systems_too(monkeypatch: pytest.MonkeyPatch) -> None:
    elapsed = time.time() - psutil.Process().create_time()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert elapsed - 1 <= age_s(me()) <= time.time() - psutil.Process().create_time() + 1


def test_an_exit_is_described_in_words() -> None:
    assert describe_exit(3) == "exited with code 3"
    assert describe_exit(-signal.SIGTERM) == "was killed by signal 15 (SIGTERM)"
    assert "memory runs out" in describe_exit(-signal.SIGKILL)
