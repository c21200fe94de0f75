"""The runner's decisions against a real store and a launcher that starts nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from engine.home import Home
from engine.queue.slots import Slots
from engine.runner.run_supervisor import EXIT_DEADLINE_S, KILL_DEADLINE_S, MAX_STARTS
from engine.runner.runner import SPARE_IDLE_S, Runner
from engine.script.command import read_command
from engine.store import Launch, Reader, Store
from engine.store.records import Demand, ProcessIdentity, Run
from engine.system.machine import Gpu, Machine
from engine.system.processes import me
from engine.upkeep.backups import Schedule, backups
from tests.fake_gpus import FakeGpus


@dataclass
class PaperLauncher:
    """A launcher of workers that exist on paper only."""

    submitted: dict[int, ProcessIdentity] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    cancelled: list[tuple[int, bool]] = field(default_factory=list)
    warm: bool = True
    next_pid: int = 10_000_000  # above any pid that Linux hands out
    reserved: int = 0
    closed: int = 0
    last_words: str = "no torch here"

    def reserve(self, *, for_command: bool = False) -> ProcessIdentity:
        self.reserved += 1
        return replace(me(), pid=self.next_pid, started_ticks=1)

    def submit(self, worker: ProcessIdentity, run_id: int) -> None:
        self.submitted[run_id] = worker
        self.next_pid += 1

    def poll(self, worker: ProcessIdentity) -> str | None:
        return self.ended.get(worker.pid)

    def cancel(self, worker: ProcessIdentity, *, force: bool = False) -> None:
        self.cancelled.append((worker.pid, force))
        if force:
            self.ended[worker.pid] = "was killed by signal 9 (SIGKILL)"

    def close(self) -> None:
        self.closed += 1

    def failure(self) -> str:
        return self.last_words


@pytest.fixture
def runner(home: Home, store: Store) -> Runner:
    return Runner(
        home, store, PaperLauncher(), Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0), gpus=FakeGpus(2)
    )


@pytest.fixture
def queue(store: Store) -> Callable[..., int]:
    def add(cores: int = 1, gpus: int = 0) -> int:
        return store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(cores, gpus, cores, 1)))

    return add


def run_of(runner: Runner, run_id: int) -> Run:
    with Reader.open(runner.home) as reader:
        return reader.runs.one(run_id)


def paper(runner: Runner) -> PaperLauncher:
    assert isinstance(runner.launcher, PaperLauncher)
    return runner.launcher


def test_the_queue_is_first_in_first_out_where_nothing_tells_how_long_runs_take(
    runner: Runner, store: Store, queue: Callable[..., int]
) -> None:
    small, large, later = queue(cores=2), queue(cores=3), queue(cores=1)
    runner.step()
    assert list(paper(runner).submitted) == [small]
    assert run_of(runner, later).status == "queued"  # it would fit, but the large one is first
    store.worker.begin(small, paper(runner).submitted[small], {})
    store.claims.end(small, "finished", "Completed successfully")
    runner.step()
    assert list(paper(runner).submitted) == [small, large, later]


def test_each_gpu_is_given_once(runner: Runner, queue: Callable[..., int]) -> None:
    first, second, third = queue(gpus=1), queue(gpus=1), queue(gpus=1)
    runner.step()
    assert run_of(runner, first).gpus == (0,)
    assert run_of(runner, second).gpus == (1,)
    assert run_of(runner, third).status == "queued"


def test_a_run_that_asks_for_more_than_the_machine_has_fails_with_the_reason(
    runner: Runner, queue: Callable[..., int]
) -> None:
    impossible, possible = queue(gpus=3), queue()
    runner.step()
    assert run_of(runner, impossible).status == "failed"
    assert "3 GPUs" in run_of(runner, impossible).cause
    assert run_of(runner, possible).status == "starting"


@pytest.mark.parametrize(
    ("last_words", "cause"),
    [
        ("no torch here", "before the run began, 3 times. Run the doctor command to find the cause."),
        (
            "ImportError: libtorch_cpu.so: failed to map segment from shared object",
            "exited with code 1 before the run began, 3 times. Out of memory.",
        ),
    ],
)
def test_a_worker_that_dies_before_it_began_is_replaced_and_the_run_fails_only_after_several(
    runner: Runner, queue: Callable[..., int], last_words: str, cause: str
) -> None:
    paper(runner).last_words = last_words
    run_id = queue()
    for _ in range(MAX_STARTS):
        runner.step()
        worker = paper(runner).submitted[run_id]
        assert run_of(runner, run_id).status == "starting"
        paper(runner).ended[worker.pid] = "exited with code 1"
    runner.step()
    failed = run_of(runner, run_id)
    assert (failed.status, failed.error, cause in failed.cause) == ("failed", last_words, True)


@pytest.mark.parametrize(("cores", "spares"), [(4, 0), (3, 1)])
def test_a_spare_loads_beside_a_run_only_on_free_cores(
    runner: Runner, store: Store, queue: Callable[..., int], cores: int, spares: int
) -> None:
    run_id = queue(cores=cores)
    runner.step()
    store.worker.begin(run_id, paper(runner).submitted[run_id], {})
    store.worker.mark_running(run_id, 0.1)
    paper(runner).reserved = 0
    runner.step()
    assert paper(runner).reserved == spares


def test_a_machine_without_runs_keeps_no_spare_and_starts_the_next_run_all_the_same(
    runner: Runner, queue: Callable[..., int]
) -> None:
    runner.step()
    assert (paper(runner).reserved, paper(runner).closed) == (1, 0)
    runner.active_at -= SPARE_IDLE_S
    runner.spare_at = 0.0
    runner.step()
    assert (paper(runner).reserved, paper(runner).closed) == (1, 1)
    run_id = queue()
    runner.step()
    assert run_id in paper(runner).submitted
    runner.spare_at = 0.0
    runner.step()
    assert paper(runner).closed == 1, "a run was on just now"


def test_a_new_runner_takes_over_live_workers_and_their_slots(runner: Runner, queue: Callable[..., int]) -> None:
    first, second = queue(cores=4), queue(cores=1)
    runner.step()
    successor = Runner(runner.home, runner.store, PaperLauncher(), runner.machine)
    successor.step()
    assert run_of(runner, first).status == "starting"
    assert run_of(runner, second).status == "queued"


def test_a_stopping_runner_claims_nothing_and_ends_with_its_last_run(
    runner: Runner, store: Store, queue: Callable[..., int]
) -> None:
    first = queue(cores=4)
    store.runner.register(me(), cores=4, gpus=2)
    assert runner.step()
    store.runner.ask_to_stop()
    runner.beaten_at = 0.0
    second = queue()
    assert runner.step()
    paper(runner).ended[paper(runner).submitted[first].pid] = "exited with code 0"
    assert not runner.step()
    assert run_of(runner, second).status == "queued"


def test_a_stop_request_holds_at_once_also_between_two_heartbeats_and_during_a_search(
    runner: Runner, store: Store, queue: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stop --cancel-runs` frees the slots of the first run before the runner's next heartbeat."""
    first, second = queue(cores=4), queue(cores=4)
    store.runner.register(me(), cores=4, gpus=2)
    assert runner.step()
    store.claims.end(first, "cancelled", "Cancelled by Ada.")
    paper(runner).ended[paper(runner).submitted[first].pid] = "exited with code 0"
    choose = runner.placement._choose

    def asked_meanwhile(holders: Sequence[Run]) -> tuple[Run, Slots] | None:
        store.runner.ask_to_stop()
        return choose(holders)

    monkeypatch.setattr(runner.placement, "_choose", asked_meanwhile)
    runner.step()
    assert store.read.runner.is_stopping(), "it was asked while it searched"
    runner.step()
    assert run_of(runner, second).status == "queued"
    assert second not in paper(runner).submitted


@pytest.mark.parametrize("ends", [True, False])
def test_a_runner_that_was_asked_to_stop_sees_off_the_worker_of_a_run_that_has_ended_unless_nothing_ends_it(
    runner: Runner, store: Store, queue: Callable[..., int], ends: bool
) -> None:
    run_id = queue()
    runner.step()
    worker = paper(runner).submitted[run_id]
    store.worker.begin(run_id, worker, {})
    runner.step()
    store.claims.end(run_id, "failed", "trainer1 was killed.", who="worker")
    store.runner.register(me(), cores=4, gpus=2)
    store.runner.ask_to_stop()
    runner.beaten_at = 0.0
    assert runner.step(), "its worker is still there"
    watched = runner.endings.watched[run_id]
    assert watched.ended_at is not None
    if ends:
        paper(runner).ended[worker.pid] = "exited with code 0"
    else:
        watched.ended_at -= EXIT_DEADLINE_S + KILL_DEADLINE_S
    assert not runner.step()


def test_the_runner_backs_the_store_up_when_it_is_due(runner: Runner, queue: Callable[..., int]) -> None:
    queue()
    runner.schedule = Schedule(runner.home, every_h=1e-9)
    runner.step()
    runner.schedule.wait()
    assert len(backups(runner.home)) == 1


def test_a_run_of_a_command_gets_a_worker_without_torch_and_the_next_one_is_kept_ready(
    runner: Runner, store: Store
) -> None:
    command = read_command("python train.py --lr 0.1")
    asked: list[bool] = []

    def reserve(*, for_command: bool = False) -> ProcessIdentity:
        asked.append(for_command)
        return PaperLauncher.reserve(paper(runner))

    runner.launcher.reserve = reserve  # type: ignore[method-assign]
    runner.step()
    assert asked == [False], "no run of a command was seen: only the spare for runs of experiments is kept"
    run_id = store.runs.add(Launch("train.py", {}, "ada", demand=Demand(1, 0, 1, 1), command=command))
    runner.step()
    assert asked == [False, True]
    store.worker.begin(run_id, paper(runner).submitted[run_id], {})
    store.claims.end(run_id, "finished", "Completed successfully")
    runner.command_spare_at = 0.0
    runner.step()
    assert asked == [False, True, True]
