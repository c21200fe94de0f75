"""The CPU time that others take from a run, from counters of the kernel that are made here."""

import subprocess
import sys
from collections.abc import Collection, Mapping

import psutil
import pytest

from engine.runtime.usage import Counters, Disturbance, Telemetry
from engine.system.cpu_use import CoreUse, ProcessUse
from tests.waiting import wait_until


class Kernel:
    """Counters that a test moves on."""

    def __init__(self) -> None:
        self.at, self.own, self.others, self.stolen = 100.0, 7.0, 50.0, 3.0
        self.faults = 2
        self.seen = True
        self.programs: dict[int, tuple[str, float]] = {}

    def read(self, pids: Collection[int], cores: Collection[int]) -> Counters:
        use = CoreUse(self.own + self.others, self.stolen) if self.seen else None
        return Counters(self.at, ProcessUse(self.own, self.faults), use, 0.0, 0.0, None)

    def scan(self, but: Collection[int]) -> Mapping[int, tuple[str, float]]:
        return dict(self.programs)

    def go_on(self, seconds: float, *, own: float = 0.0, others: float = 0.0, stolen: float = 0.0) -> None:
        """Let time pass, in which that many cores are used on average."""
        self.at += seconds
        self.own += own * seconds
        self.others += others * seconds
        self.stolen += stolen * seconds


def counted(kernel: Kernel, demand: int, cores: Collection[int]) -> Disturbance:
    found = Disturbance(demand, cores, kernel.read, kernel.scan, lambda: ())
    found.begin([1, 2])
    return found


def test_what_others_take_from_the_cores_of_a_bound_run_is_its_disturbance() -> None:
    kernel = Kernel()
    found = counted(kernel, 2, (0, 1))
    kernel.go_on(1.0, own=1.5, others=0.5)
    assert found.sample() == pytest.approx(
        {
            ("run", "cores"): 1.5,
            ("run", "page_faults"): 0.0,
            ("others", "cores"): 0.5,
            ("stolen", "cores"): 0.0,
            ("run", "throttled_percent"): 0.0,
            ("host", "memory_wait_percent"): 0.0,
        }
    )
    assert found.percent == pytest.approx(25.0)
    kernel.go_on(3.0, own=1.9)
    found.sample()
    assert found.percent == pytest.approx(6.25)
    kernel.go_on(4.0, own=1.5, stolen=0.5)
    found.sample()
    assert found.percent == pytest.approx(15.625)
    assert {point.name: round(point.value, 3) for point in found.points(9, 8.0, None)} == {
        "perf/disturbance": 15.625,
        "perf/cpu_time_s": 13.2,
        "perf/page_faults": 0,
        "perf/others_cpu_time_s": 0.5,
        "perf/stolen_time_s": 2.0,
        "perf/throttled_time_s": 0.0,
        "perf/memory_wait_s": 0.0,
    }


def test_others_on_cores_that_a_run_leaves_free_take_nothing_from_it() -> None:
    kernel = Kernel()
    found = counted(kernel, 1, range(4))
    kernel.go_on(1.0, own=1.0, others=3.0)
    found.sample()
    assert found.percent == 0.0
    kernel.go_on(1.0, own=0.5, others=3.5)
    found.sample()
    assert found.percent == pytest.approx(25.0)


@pytest.mark.parametrize("how", ["hidden from the start", "hidden later", "of a container"])
def test_where_the_machines_counters_are_hidden_the_disturbance_is_unknown_and_never_0(how: str) -> None:
    kernel = Kernel()
    kernel.seen = how != "hidden from the start"
    found = counted(kernel, 2, (0, 1))
    kernel.seen = how == "of a container"
    kernel.go_on(1.0, own=2.0, others=-2.0)  # counters that stand still, as some sandboxes show them
    found.sample()
    assert found.percent is None
    assert not [point for point in found.points(0, 1.0, None) if point.name == "perf/disturbance"]


def test_programs_beside_the_run_are_named_by_the_cores_that_they_used() -> None:
    kernel = Kernel()
    kernel.programs = {10: ("python -m app", 100.0), 11: ("stress", 0.0)}
    found = counted(kernel, 2, (0, 1))
    kernel.go_on(1.0, own=2.0)
    found.sample()
    kernel.programs = {10: ("python -m app", 100.2), 11: ("stress", 5.0), 12: ("late", 0.5), 13: ("idle", 0.01)}
    kernel.go_on(9.0, own=2.0)
    found.sample()
    assert found.programs() == [("stress", 0.5), ("late", 0.05), ("python -m app", 0.02)]


def test_a_program_of_a_short_run_is_named_by_all_that_it_used_in_it() -> None:
    kernel = Kernel()
    kernel.programs = {11: ("stress", 40.0)}
    found = counted(kernel, 2, (0, 1))
    for second in (1, 2):
        kernel.programs = {11: ("stress", 40.0 + second)}
        kernel.go_on(1.0, own=1.0, others=1.0)
        found.sample()
    assert found.programs() == [("stress", 1.0)]


def test_a_run_that_never_began_has_no_disturbance() -> None:
    kernel = Kernel()
    found = Disturbance(2, (0, 1), kernel.read, kernel.scan, lambda: ())
    assert (found.sample(), found.percent, found.points(0, 0.0, None), found.programs()) == ({}, None, [], [])


@pytest.mark.processes
def test_children_are_the_runs_own_wherever_their_session_is_led() -> None:
    """A worker that Slurm has started leads none."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in Disturbance(1, [0]).members()
        child.kill()


@pytest.mark.processes
def test_a_rank_that_has_ended_keeps_its_last_memory_and_cpu_use() -> None:
    """Its parent has not read its exit yet, as when the last sample of a run is taken."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        telemetry = Telemetry([process.pid])
        telemetry.sample()
        alive = telemetry.of(process.pid)
        process.kill()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "it has ended")
        telemetry.sample()
        assert telemetry.of(process.pid) == alive and alive[0]
