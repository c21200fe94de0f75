"""How runs end: time limits, force, what is left and said so, and lost runs told apart and tried again, with made-up
processes and clocks.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.access.rules import Program
from engine.errors import RankFailed
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.runner import run_supervisor
from engine.runner.runner import Runner
from engine.runtime.worker import session
from engine.runtime.worker.sink import StopSwitch
from engine.runtime.worker.worker import MethodExecution, execution_of
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.records import Demand, ProcessIdentity, Run
from engine.system.cleanup import Cleared
from engine.system.processes import boot_id, me, uptime_s
from tests.checkpoints import lay_of
from tests.runner.test_runner import paper, run_of, runner

__all__ = ["runner"]
Begin = Callable[..., int]
KILLED = "was killed by signal 9 (SIGKILL)"


@pytest.fixture
def begin(runner: Runner, store: Store) -> Begin:
    """Bring a run to `running` under the runner and return its id."""

    def start(terms: LaunchOptions = LaunchOptions(), experiment: str = "hogwild") -> int:  # noqa: B008
        run_id = store.runs.add(
            Launch(experiment, {"seed": 3}, "ada", "quick", "mine", terms, demand=Demand(1, 0, 1, 1))
        )
        runner.step()
        store.worker.begin(run_id, paper(runner).submitted[run_id], {}, uptime_s())
        store.worker.mark_running(run_id, 0.1)
        return run_id

    return start


def kill(runner: Runner, run_id: int) -> None:
    paper(runner).ended[worker_of(runner, run_id).pid] = KILLED


def worker_of(runner: Runner, run_id: int) -> ProcessIdentity:
    worker = run_of(runner, run_id).worker
    assert worker is not None
    return worker


def checkpoint(home: Home, run_id: int) -> None:
    lay_of(home, run_id, 1200)


# ---- stopping ------------------------------------------------------------------------------------------------------


def test_force_kills_without_asking_first_and_the_cause_says_so(runner: Runner, store: Store, begin: Begin) -> None:
    run_id = begin()
    store.runs.cancel(run_id, by="grace", force=True)
    runner.step()
    assert paper(runner).cancelled == [(worker_of(runner, run_id).pid, True)]
    runner.step()
    assert (run_of(runner, run_id).status, run_of(runner, run_id).cause) == (
        "cancelled",
        "Cancelled by grace (forced).",
    )


def test_a_second_cancel_with_force_need_not_wait_for_the_deadline(runner: Runner, store: Store, begin: Begin) -> None:
    run_id = begin()
    store.runs.cancel(run_id, by="grace")
    runner.step()
    assert paper(runner).cancelled == [(worker_of(runner, run_id).pid, False)]
    assert store.runs.cancel(run_id, by="ada", force=True) == "stopping"
    runner.step()
    runner.step()
    assert run_of(runner, run_id).cause == "Cancelled by ada (forced)."


def test_a_worker_that_outstays_the_deadline_is_killed_and_the_cause_says_so(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin()
    worker = worker_of(runner, run_id)
    assert store.runs.cancel(run_id, by="grace") == "stopping"
    monkeypatch.setattr(run_supervisor, "STOP_DEADLINE_S", 600.0)
    runner.step()
    runner.step()
    assert paper(runner).cancelled == [(worker.pid, False)], "asked once"
    monkeypatch.setattr(run_supervisor, "STOP_DEADLINE_S", 0.0)
    runner.step()
    runner.step()
    assert (worker.pid, True) in paper(runner).cancelled
    run = run_of(runner, run_id)
    assert (run.status, run.cause) == (
        "cancelled",
        "Cancelled by grace. Its processes were killed: they had not ended within 0 s.",
    )


def test_a_time_limit_ends_the_run_the_same_way(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, other = begin(LaunchOptions(max_run_time_s=60)), begin()
    runner.step()
    assert run_of(runner, run_id).status == "running"
    later = uptime_s() + 61
    monkeypatch.setattr(run_supervisor, "uptime_s", lambda: later)
    runner.step()
    run = run_of(runner, run_id)
    assert (run.status, run.stop_requested_by, run.stop_kind) == ("stopping", "its time limit", "time limit")
    runner.step()
    assert paper(runner).cancelled == [(worker_of(runner, run_id).pid, False)]
    kill(runner, run_id)
    runner.step()
    assert run_of(runner, run_id).status == "cancelled"
    assert run_of(runner, run_id).cause == "Stopped at its time limit, max_run_time_s (60 s)."
    assert run_of(runner, other).status == "running"


def test_what_could_not_be_removed_is_said_in_the_cause(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin()
    store.runs.cancel(run_id, by="grace")
    kill(runner, run_id)
    found = Cleared(["process 41 (python)", "512 MB on GPU 0 of process 41"], ["shared memory psm_1"])
    monkeypatch.setattr(run_supervisor, "clear", lambda *_: found)
    runner.step()
    assert (
        run_of(runner, run_id).cause
        == "Cancelled by grace. Could not be removed: process 41 (python), 512 MB on GPU 0 of process 41."
    )
    with Reader.open(runner.home) as reader:
        assert ("cleaned up", "shared memory psm_1") in [
            (event.kind, event.detail) for event in reader.details.events(run_id)
        ]


def test_a_worker_that_survives_the_kill_does_not_keep_its_run_stopping_for_ever(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin()
    worker = worker_of(runner, run_id)
    monkeypatch.setattr(paper(runner), "cancel", lambda worker, force=False: None)
    monkeypatch.setattr(run_supervisor, "clear", lambda *_: Cleared([f"process {worker.pid} (python)"]))
    monkeypatch.setattr(run_supervisor, "KILL_DEADLINE_S", -1.0)
    store.runs.cancel(run_id, by="grace", force=True)
    runner.step()
    runner.step()
    assert run_of(runner, run_id).status == "cancelled"
    assert run_of(runner, run_id).cause.endswith(f"Could not be removed: process {worker.pid} (python).")


def test_what_a_finished_run_leaves_behind_is_removed_when_its_worker_is_gone(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin()
    runner.step()
    cleared: list[ProcessIdentity] = []

    def clear(worker: ProcessIdentity, *_: object) -> Cleared:
        cleared.append(worker)
        return Cleared(removed=["shared memory torch_1_2_3"])

    monkeypatch.setattr(run_supervisor, "clear", clear)
    store.claims.end(run_id, "finished", "Completed successfully", who="worker")
    runner.step()
    assert cleared == [], "its worker still lives"
    kill(runner, run_id)
    runner.step()
    runner.step()
    assert cleared == [worker_of(runner, run_id)]
    with Reader.open(runner.home) as reader:
        assert reader.details.events(run_id)[-1].kind == "cleaned up"
    assert run_of(runner, run_id).status == "finished"


# ---- told apart ----------------------------------------------------------------------------------------------------


def earlier_boot(runner: Runner, store: Store) -> tuple[int, ProcessIdentity]:
    """Leave a run of an earlier boot whose pid is in use again, as a machine does that went down."""
    earlier = replace(me(), boot_id="the boot before")
    run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, earlier, ())
    store.worker.begin(run_id, earlier, {}, 10.0)
    store.worker.mark_running(run_id, 0.1)
    paper(runner).ended[earlier.pid] = "is gone"
    return run_id, earlier


def test_a_restart_of_the_machine_is_told_by_its_boot(runner: Runner, store: Store) -> None:
    run_id, _ = earlier_boot(runner, store)
    store.runner.register(me(), cores=1, gpus=0)
    store.runner.remove()  # it was asked to end, and signed off
    runner.endings.note_last_runner()
    runner.step()
    assert run_of(runner, run_id).status == "lost"
    assert run_of(runner, run_id).cause == "The machine was restarted during the run. Recorded data is kept. Retry it."


def test_a_run_that_a_restored_backup_has_as_active_is_lost_by_the_restore(runner: Runner, store: Store) -> None:
    run_id, _ = earlier_boot(runner, store)
    with store.db.change() as connection:
        sql = "UPDATE runs SET started_at = '2020-01-01T00:00:00.000Z', heartbeat_at = '2020-01-01T00:00:07.500Z'"
        connection.execute(sql)
    store.people.note_restored("parallab-1.db", by=Program("dora on the command line"))
    assert store.read.audit.entries(command="restore")[0].role == "program"
    runner.step()
    lost = run_of(runner, run_id)
    assert (lost.status, lost.execution_time_s) == ("lost", 7.5)
    assert lost.cause.startswith("The store was restored by dora on the command line at ")
    assert "(from parallab-1.db), a backup made while this run was active." in lost.cause


def test_a_power_cut_is_told_by_a_runner_that_never_signed_off(runner: Runner, store: Store) -> None:
    run_id, earlier = earlier_boot(runner, store)
    store.runner.register(earlier, cores=1, gpus=0)
    runner.endings.note_last_runner()
    runner.step()
    assert run_of(runner, run_id).status == "lost"
    assert run_of(runner, run_id).cause.startswith(
        "The machine went down without a shutdown (power failure, crash or reset) during the run."
    )


def test_a_killed_runner_of_this_boot_is_no_power_cut(runner: Runner, store: Store, begin: Begin) -> None:
    run_id = begin()
    store.runner.register(replace(me(), started_ticks=1), cores=1, gpus=0)
    kill(runner, run_id)
    successor = Runner(runner.home, store, runner.launcher, runner.machine)
    successor.endings.note_last_runner()
    successor.step()
    assert run_of(runner, run_id).status == "lost"
    assert run_of(runner, run_id).cause.startswith(
        f"The worker (pid {worker_of(runner, run_id).pid}) {KILLED} during the run."
    )


def test_a_pid_that_is_in_use_again_is_not_taken_for_the_worker(runner: Runner, store: Store) -> None:
    reused = replace(me(), started_ticks=me().started_ticks - 1)  # this very process has the pid now
    run_id = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, reused, ())
    store.worker.begin(run_id, reused, {}, uptime_s())
    paper(runner).ended[reused.pid] = "is gone"
    runner.step()
    assert run_of(runner, run_id).status == "lost"
    assert (
        f"The worker (pid {me().pid}) is gone (its pid is now used by another process) during the run."
        in run_of(runner, run_id).cause
    )


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_clock_that_jumps_ends_no_run(
    runner: Runner, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    limited, plain = begin(LaunchOptions(max_run_time_s=60)), begin()
    _jump(monkeypatch, hours)
    for _ in range(3):
        runner.beaten_at = float("-inf")
        runner.step()
    assert [run_of(runner, run_id).status for run_id in (limited, plain)] == ["running", "running"]
    store.worker.write(limited, [])
    heartbeat = run_of(runner, limited).heartbeat_at
    assert heartbeat is not None
    assert abs((datetime.fromisoformat(heartbeat) - datetime.now(UTC)).total_seconds() / 3600) > 29, (
        "the clock did jump"
    )


def _jump(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Move the wall clock that the store writes; the monotonic one stays, as the kernel keeps it."""

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr("engine.store.timestamps.datetime", Jumped)


def test_a_time_limit_is_counted_on_by_the_next_runner_and_not_after_a_reboot(
    runner: Runner, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(runner, begin(LaunchOptions(max_run_time_s=60)))
    assert run.begun_uptime_s == pytest.approx(uptime_s(), abs=30)
    assert not run_supervisor.is_over_time(run)
    old: Run = replace(run, begun_uptime_s=uptime_s() - 61)
    assert run_supervisor.is_over_time(old)
    assert old.worker is not None
    assert old.worker.boot_id == boot_id()
    assert not run_supervisor.is_over_time(replace(old, worker=replace(old.worker, boot_id="the boot before"))), (
        "its uptime is of another boot"
    )


# ---- tried again ---------------------------------------------------------------------------------------------------


def test_a_lost_run_is_tried_again_up_to_its_retries_with_the_chain_visible(
    runner: Runner, store: Store, begin: Begin
) -> None:
    first = begin(LaunchOptions(max_retries=2, max_run_time_s=600))
    ids = [first]
    for attempt in (1, 2):
        kill(runner, ids[-1])
        runner.step()
        runner.step()
        lost, again = run_of(runner, ids[-1]), run_of(runner, ids[-1] + 1)
        assert lost.status == "lost"
        assert lost.cause.endswith(f"It is tried again as run {again.id}, from the start.")
        assert (again.parent_id, again.attempt, again.resumes, again.terms, again.config) == (
            lost.id,
            attempt,
            False,
            lost.terms,
            lost.config,
        )
        assert (again.owner, again.preset, again.name) == ("ada", "quick", "mine")
        ids.append(again.id)
        store.worker.begin(again.id, paper(runner).submitted[again.id], {}, uptime_s())
    kill(runner, ids[-1])
    runner.step()
    with Reader.open(runner.home) as reader:
        assert reader.runs.count() == 3, "no retry is left"
        assert reader.runs.chain(ids[1]) == [(run_id, "lost") for run_id in ids]
        assert [event.detail for event in reader.details.events(ids[1]) if event.kind in ("retries", "retried")] == [
            f"run {first} from the start, retry 1 of at most 2",
            f"as run {ids[2]}",
        ]
    assert run_of(runner, ids[-1]).cause.endswith("All 2 retries are used up.")


def test_a_lost_run_goes_on_from_its_last_checkpoint(runner: Runner, store: Store, begin: Begin) -> None:
    run_id = begin(LaunchOptions(max_retries=1), "reference")
    checkpoint(runner.home, run_id)
    kill(runner, run_id)
    runner.step()
    again = run_of(runner, run_id + 1)
    assert (again.parent_id, again.resumes, again.attempt) == (run_id, True, 1)
    assert run_of(runner, run_id).cause.endswith(f"It is tried again as run {again.id}, from its last checkpoint.")


def test_a_run_that_was_cancelled_or_failed_is_not_tried_again(runner: Runner, store: Store, begin: Begin) -> None:
    cancelled, failed = begin(LaunchOptions(max_retries=3)), begin(LaunchOptions(max_retries=3))
    store.runs.cancel(cancelled, by="grace")
    kill(runner, cancelled)
    store.claims.end(failed, "failed", "trainer1 raised ValueError: no.", who="worker")
    runner.step()
    runner.step()
    assert (run_of(runner, cancelled).status, run_of(runner, failed).status) == ("cancelled", "failed")
    with Reader.open(runner.home) as reader:
        assert reader.runs.count() == 2


def test_a_lost_run_of_a_sweep_is_tried_again_in_that_sweep(runner: Runner, store: Store) -> None:

    sweep = store.sweeps.add(
        SweepLaunch(Launch("hogwild", {}, "ada", terms=LaunchOptions(max_retries=1)), {"seed": [1]}),
        [Launch("hogwild", {"seed": 1}, name="seed 1", demand=Demand(1, 0, 1, 1))],
    )
    runner.step()
    store.worker.begin(1, paper(runner).submitted[1], {}, uptime_s())
    kill(runner, 1)
    runner.step()
    assert (run_of(runner, 1).status, run_of(runner, 2).sweep_id) == ("lost", sweep)


def test_a_run_whose_ranks_fail_after_a_cancel_is_cancelled(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = store.runs.add(Launch("hogwild", {"seed": 3}, "ada", "quick", "mine", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, me(), [])

    def fail(*_given: object) -> None:
        store.runs.cancel(run_id, by="ada")
        raise RankFailed("trainer1", "trainer1 was killed by signal 9 (SIGKILL).")

    monkeypatch.setattr(MethodExecution, "run", fail)
    monkeypatch.setattr(session, "write_own_log", lambda _path: None)  # it would take over the output of this process
    monkeypatch.setattr(session.signal, "signal", lambda *_given: None)
    session.carry_out(store, home, run_id, {}, StopSwitch(), execution_of)
    run = store.read.runs.one(run_id)
    assert (run.status, run.cause) == ("cancelled", "Cancelled by ada.")
