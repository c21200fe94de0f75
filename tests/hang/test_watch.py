"""The hang doctor on real ranks that hang, each in its own way: right rank, right cause, and never a healthy one."""

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import RankFailed
from engine.hang import stacks
from engine.hang.stacks import last_collectives, last_stacks
from engine.hang.watch import HangLimits
from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.rank_monitor import ENDED
from engine.trace.health import BAD, Verdict
from tests import hang_functions as functions
from tests.hang import hangs
from tests.patient import ROLES, Patient
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
QUICK = HangLimits(quiet_s=0.8, steps=20.0, looks=3, between_s=0.2, every_s=0.05)


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    made = Patient(tmp_path, QUICK)
    yield made
    made.end()


def bad_one(patient: Patient) -> Verdict:
    wait_until(patient.bad_ones, "the hang doctor has found it")
    return patient.bad_ones()[0]


def hung(patient: Patient) -> Verdict:
    """Return the verdict on a run that stands still. While another rank is still on its way to its wait, which may take
    long on a busy machine, the same rank is the cause of a stall.
    """
    wait_until(lambda: [each for each in patient.bad_ones() if each.state == "HUNG"], "the run is found to hang")
    stalls, found = [], None
    for found in patient.bad_ones():
        if found.state == "HUNG":
            break
        stalls.append((found.state, found.rank, found.cause))
    assert found is not None
    assert set(stalls) <= {("STALLED", found.rank, found.cause)}
    return found


def averaging(size: int = 8) -> Collective:
    return Collective.create("gloo", size, ROLES, 300.0)


@pytest.mark.parametrize(("how", "cause"), [(signal.SIGSTOP, "stopped"), (0, "stuck")])
def test_a_rank_that_does_not_enter_an_average_is_named(patient: Patient, how: int, cause: str) -> None:
    patient.start(hangs.stop_before_an_average, 1, averaging(), how)
    found = hung(patient)
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer2", cause)
    assert f"trainer2 has not entered the collective 'average' (#{hangs.FAULT_STEP})" in found.sentence
    assert "trainer1 and trainer3 wait for it" in found.sentence
    if cause == "stuck":
        assert "in halt(), hangs.py:" in found.sentence
        assert "halt" in (patient.ranks.context.folder / "hang" / "trainer2.txt").read_text()
    assert [kind for kind, _ in patient.sink.events] == ["hung"], "it is recorded once"


def test_a_run_that_is_to_end_when_it_hangs_fails_with_the_cause_and_the_stacks(patient: Patient) -> None:
    patient.ranks.context = replace(patient.ranks.context, end_when_hung=True)
    patient.start(hangs.stop_before_an_average, 1, averaging(), 0)
    patient.thread.join()
    failure = patient.failure
    assert isinstance(failure, RankFailed) and failure.role == "trainer2"
    assert str(failure).startswith("trainer2 has not entered the collective 'average'") and str(failure).endswith(ENDED)
    assert failure.traceback.startswith("trainer2:\n") and "in halt" in failure.traceback
    assert patient.verdicts()[-1].state == "HUNG", "the page shows it after the end"
    assert [kind for kind, _ in patient.sink.events] == ["hung"]
    folder = patient.ranks.context.folder
    assert "halt" in (folder / "hang" / "trainer2.txt").read_text()
    assert "in halt" in last_stacks(folder, "trainer2") and last_stacks(folder, "trainer9") == ""
    assert f"all_reduce #{hangs.FAULT_STEP} " in last_collectives(folder, "trainer1").splitlines()[-1]
    assert last_collectives(folder, "trainer1").endswith("not completed")
    assert last_collectives(folder, "trainer2").endswith(": completed"), "it has not entered the next one"


def test_a_run_that_is_to_end_when_it_hangs_continues_where_one_rank_of_several_stalls(patient: Patient) -> None:
    patient.ranks.context = replace(patient.ranks.context, end_when_hung=True)
    patient.start(functions.free_running, 1, signal.SIGSTOP)
    assert bad_one(patient).state == "STALLED"
    assert patient.thread.is_alive() and patient.failure is None


def test_a_rank_that_can_writes_its_stacks_without_a_signal(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler that reads the stack of another running thread may end the process."""
    monkeypatch.setattr(stacks, "SIGNAL_AFTER_S", 300.0)  # however long a busy machine keeps a rank from its answer
    patient.start(hangs.stop_before_an_average, 1, averaging(), 0)
    hung(patient)
    files = [patient.ranks.context.folder / "hang" / f"{role}.txt" for role in ROLES]
    wait_until(lambda: all("in rank_main" in path.read_text() for path in files), "every rank has answered")
    monkeypatch.setattr(stacks, "SIGNAL_AFTER_S", 0.0)
    seen = len(patient.verdicts())
    wait_until(lambda: len(patient.verdicts()) > seen + 1, "the watch has looked again")
    for path in files:  # asked twice where it was first found to be stalled
        writers = [each.splitlines()[1] for each in path.read_text().split("Current thread")[1:]]
        assert writers and all("stacks.py" in each for each in writers)


def test_the_stacks_of_a_rank_whose_interpreter_lock_is_kept_come_by_a_signal(patient: Patient) -> None:
    patient.start(functions.keep_the_interpreter_lock, 1)
    assert (bad_one(patient).rank, bad_one(patient).cause) == ("trainer2", "stuck")
    wait_until(
        lambda: "in keep_the_interpreter_lock(), hang_functions.py" in patient.verdicts()[-1].sentence,
        "its place is known",
    )
    first, _, _ = (patient.ranks.context.folder / "hang" / "trainer2.txt").read_text().partition("in rank_main")
    assert "stacks.py" not in first, "the signal, before a thread of the rank could run"


def test_a_stopped_rank_that_nobody_waits_for_is_stalled(patient: Patient) -> None:
    patient.start(functions.free_running, 2, signal.SIGSTOP)
    found = bad_one(patient)
    assert (found.state, found.rank, found.cause) == ("STALLED", "trainer3", "stopped")


def test_a_rank_that_left_the_loop_is_named(patient: Patient) -> None:
    patient.start(functions.leave_the_loop_early, 0)
    found = hung(patient)
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer1", "unequal steps")
    assert "trainer1 is in barrier trained, while trainer2 and trainer3 are in barrier step" in found.sentence


def test_ranks_that_wait_for_each_other_are_a_deadlock(patient: Patient) -> None:
    patient.start(functions.wait_for_each_other)
    found = hung(patient)
    assert (found.state, found.cause) == ("HUNG", "deadlock")
    assert all(f"{role} waits for" in found.sentence for role in ROLES)


@pytest.mark.parametrize("more", [-1, 1])
def test_a_rank_with_another_number_of_batches_is_named(patient: Patient, more: int) -> None:
    patient.start(hangs.have_unequal_batches, 1, averaging(), more)
    found = hung(patient)
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer2", "unequal steps")


def test_where_gloo_aborts_a_rank_the_error_says_that_another_may_be_at_fault(patient: Patient) -> None:
    patient.start(functions.give_gloo_another_shape, 1)
    patient.thread.join()
    assert "ranks gave different shapes or data types" in str(patient.failure)
    assert "The rank at fault may be another one." in str(patient.failure)


def test_one_that_does_not_connect_to_the_others_is_named(patient: Patient) -> None:
    patient.start(functions.never_join_the_group, 1, averaging())
    found = hung(patient)
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer2", "not joined")
    assert "has not entered the barrier 'join gloo'" in found.sentence


def test_a_rank_that_works_or_waits_for_its_data_long_is_not_hung(tmp_path: Path) -> None:
    patient = Patient(tmp_path, QUICK)
    patient.ranks.context = replace(patient.ranks.context, end_when_hung=True)
    patient.start(functions.work_long, 2.0)
    patient.thread.join()
    assert patient.failure is None
    seen = {(each.state, each.rank, each.cause) for each in patient.verdicts()}
    assert {("WAITING", "trainer1", "evaluate"), ("WAITING", "trainer2", "data")} <= seen
    assert not {state for state, _, _ in seen} & set(BAD)


def test_a_straggler_is_not_hung(tmp_path: Path) -> None:
    patient = Patient(tmp_path, QUICK)
    patient.start(functions.be_slow, 1, 20.0, 40)
    patient.thread.join()
    assert patient.failure is None
    assert not [each for each in patient.verdicts() if each.state in BAD]


def test_a_rank_that_is_stopped_for_less_than_the_limit_is_not_hung(tmp_path: Path) -> None:
    patient = Patient(tmp_path, QUICK)
    began = time.monotonic()
    patient.start(functions.stop_for_a_while, 0.3)
    patient.thread.join()
    if time.monotonic() - began < 10:  # a machine that is very busy may stop everything for longer
        assert not [each for each in patient.verdicts() if each.state in BAD]
    assert patient.failure is None
