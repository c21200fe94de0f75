"""Real processes: ranks start together, share tensors, and end together whatever happens to one of them."""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from engine.errors import RankFailed, RunFailed, StoreBusy
from engine.home import ROOT
from engine.runtime.rank import fork_server
from engine.runtime.rank.rank import RunContext, Saved
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.runtime.worker.run_progress import RunProgress
from engine.system.checkpoint_state import CHECKPOINT, PARTS
from engine.system.network_isolation import network_id
from engine.system.processes import identity
from engine.system.run_files import pieces
from tests import rank_functions as functions
from tests.doubles import MemorySink, process_ranks
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes
Start = Callable[..., Ranks]
ASKING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
GLIBC, VERSION = platform.libc_ver()
HUGE_PAGES = (
    ASKING.exists()
    and "[never]" not in ASKING.read_text()
    and GLIBC == "glibc"
    and tuple(map(int, VERSION.split("."))) >= (2, 35)
)


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Start]:
    """Return a maker of ranks; checks at the end that none of them is alive."""
    made: list[Ranks] = []

    def make(count: int, **changes: object) -> Ranks:
        roles = tuple(f"trainer{number}" for number in range(1, count + 1))
        made.append(process_ranks(roles, ("cpu",) * count, 1, 5, tmp_path, MemorySink(), **changes))  # type: ignore[arg-type]
        return made[-1]

    yield make
    assert not [member.pid for ranks in made for member in ranks.members if identity(member.pid)]


def sink_of(ranks: Ranks) -> MemorySink:
    assert isinstance(ranks.sink, MemorySink)
    return ranks.sink


@pytest.mark.parametrize(
    ("start_method", "gpus"),
    [("forkserver", ""), ("forkserver", "1,3"), ("spawn", "1,3"), pytest.param("spawn", "", marks=pytest.mark.long)],
)
def test_a_rank_sees_its_gpus_before_a_tensor_arrives_and_cuda_was_not_started_before_its_fork(
    team: Start, start_method: str, gpus: str, tmp_path: Path
) -> None:
    team(1, start_method=start_method, visible_gpus=gpus).run(functions.note_gpus, functions.GpusOnArrival())
    on_arrival, later, started = (tmp_path / "trainer1").read_text().split(" ")
    assert (later, started) == (gpus, "False")
    assert not gpus or on_arrival == gpus


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_every_point_of_every_rank_arrives_in_order_and_all_are_on_one_network_of_their_own(
    team: Start, start_method: str
) -> None:
    networks = torch.zeros(2, dtype=torch.int64).share_memory_()
    ranks = team(2, start_method=start_method)
    ranks.run(functions.log_steps, 500, networks)
    assert sink_of(ranks).notes["network"] == "namespace"
    assert networks[0] == networks[1] != network_id()
    assert ranks.members[0].preloaded == (start_method == "forkserver"), (
        "the fork server had torch and the methods loaded"
    )
    for index in (0, 1):
        assert sink_of(ranks).values("train/loss", index) == [1.0 / step for step in range(1, 501)]
    assert sink_of(ranks).progress == (1000, 1000, "samples")
    assert {row.state for row in sink_of(ranks).rows.values()} == {"done"}
    assert ranks.execution_time_s is not None
    assert sink_of(ranks).startup_time_s is not None


def test_a_rank_that_prints_without_an_end_fills_no_disk(team: Start, tmp_path: Path) -> None:
    team(1).run(functions.print_much, 30)
    log = tmp_path / "logs" / "trainer1.log"
    assert log.stat().st_blocks * 512 < 21 << 20
    read = b"".join(each.text for each in pieces(log))
    *_, last, end = read.splitlines()
    assert read.startswith(b"the first line\n") and last == b"the last line" and b" INFO end, " in end
    assert b"bytes were dropped here" in read


def test_ranks_share_the_tensors_they_are_given(team: Start) -> None:
    cells = torch.zeros(3).share_memory_()
    team(3).run(functions.write_own_cell, cells)
    assert cells.tolist() == [5.0, 6.0, 7.0]


@pytest.mark.skipif(
    not HUGE_PAGES,
    reason="this machine gives no huge pages to those who ask for them (Linux with glibc 2.35 or newer does)",
)
def test_a_large_vector_costs_a_rank_few_page_faults(team: Start) -> None:
    faults = torch.zeros(1).share_memory_()
    team(1).run(functions.allocate_often, faults)
    assert float(faults) < 1000, "64 MiB are 16,384 pages of the usual size"


def test_the_lock_loses_no_update_and_leaves_no_file(team: Start, tmp_path: Path) -> None:
    counter = torch.zeros(1, dtype=torch.int64).share_memory_()
    team(2).run(functions.count_under_lock, counter, 2000)
    assert int(counter[0]) == 4000
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("within", [float("inf"), pytest.param(0.02, marks=pytest.mark.long)])
def test_phases_and_the_remainder_make_up_the_execution_time(team: Start, within: float) -> None:
    ranks = team(1)
    ranks.run(functions.work_in_phases)
    phases = sink_of(ranks).phases()[0]
    assert min(phases["compute"] / 0.2, phases["wait"] / 0.3, phases["other"] / 0.1) > 0.99
    assert ranks.execution_time_s is not None
    assert sum(phases.values()) == pytest.approx(ranks.execution_time_s, rel=within)


def test_a_raising_rank_ends_the_run_with_its_own_error_and_traceback(team: Start, tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="trainer2 raised ValueError: seven is not eight") as caught:
        team(3).run(functions.say_and_raise, "trainer2")
    assert caught.value.role == "trainer2"
    assert "say_and_raise" in caught.value.traceback
    assert "about to raise" in (tmp_path / "logs" / "trainer2.log").read_text()


def test_events_of_a_busy_store_are_recorded_later_in_order_and_the_ranks_continue(
    team: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = team(1)
    tries: list[str] = []

    def event(kind: str, detail: str) -> None:
        tries.append(detail)
        if len(tries) <= 3:
            raise StoreBusy("The store is busy.")
        sink_of(ranks).events.append((kind, detail))

    monkeypatch.setattr(ranks.sink, "event", event)
    ranks.run(functions.say, "first", "second")
    assert sink_of(ranks).events == [("note", "first"), ("note", "second")]
    assert tries[:4] == ["first"] * 4


def test_a_killed_rank_is_named_with_its_signal_and_last_words(team: Start) -> None:
    with pytest.raises(RankFailed, match=r"trainer1 \(rank 0, pid \d+\) was killed by signal 9 \(SIGKILL") as caught:
        team(2).run(functions.die, "trainer1")
    assert "last words" in caught.value.traceback


@pytest.mark.parametrize(
    ("count", "function", "given", "words"),
    [
        (1, functions.raise_engine_error, (), r"^The data set 'moons' is not at hand\.$"),
        (3, functions.raise_one_after_another, (), "trainer3 failed"),  # the first of several failures
        (2, functions.leave, ("trainer2",), r"trainer2 .* exited with code 0 before its work was done"),
        (
            2,
            functions.leave,
            ("trainer2", 255),
            r"trainer2 .* exited with code 255 before its work was done",
        ),  # the code of a lost fork server
    ],
)
def test_a_failure_names_the_rank_that_failed(
    team: Start, count: int, function: Callable[..., None], given: tuple[object, ...], words: str
) -> None:
    with pytest.raises(RankFailed, match=words):
        team(count).run(function, *given)


def test_ranks_that_resist_are_killed(team: Start) -> None:
    ranks = team(3)
    with pytest.raises(RankFailed, match="it is over"):
        ranks.run(functions.resist)
    assert {row.state for row in sink_of(ranks).rows.values()} == {"ended", "failed"}


def test_a_stop_ends_the_ranks(team: Start, tmp_path: Path) -> None:
    asked = time.monotonic() + 1.0
    ranks = team(2, stop_requested=lambda: time.monotonic() > asked)
    with pytest.raises(StopRequested):
        ranks.run(functions.sleep, tmp_path)


def test_what_overflows_the_buffer_is_counted_and_not_waited_for(team: Start) -> None:
    ranks = team(1)
    ranks.run(functions.flood, 300_000)
    sink = sink_of(ranks)
    dropped = max((point.value for point in sink.run_points if point.name == "perf/points_dropped"), default=0)
    assert len(sink.values("a")) + len(sink.values("b")) + dropped == 600_000


@pytest.mark.parametrize("start_method", ["forkserver", pytest.param("spawn", marks=pytest.mark.long)])
def test_no_rank_and_no_fork_server_outlives_a_killed_worker(tmp_path: Path, start_method: str) -> None:
    script = f"""
from pathlib import Path
from engine.runtime.rank import fork_server
from engine.runtime.rank.rank import Saved
from tests.doubles import MemorySink, process_ranks
from tests.rank_functions import sleep
if __name__ == "__main__":
    fork_server.start()
    folder = Path({str(tmp_path)!r})
    ranks = process_ranks(("trainer1", "trainer2"), ("cpu", "cpu"), 1, 0, folder, MemorySink(), {start_method!r})
    ranks.run(sleep, folder)
"""
    (tmp_path / "script.py").write_text(script)
    worker = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2 or worker.poll() is not None, "both ranks are up")
    family = psutil.Process(worker.pid).children(recursive=True)
    assert len(family) >= 3  # two ranks, and the fork server or the resource tracker
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert not alive


@pytest.mark.parametrize(
    ("number", "name", "expendable"),
    [(signal.SIGKILL, "SIGKILL", ()), (signal.SIGABRT, "SIGABRT", ("trainer1", "trainer2", "trainer3"))],
)
def test_a_fork_server_that_dies_is_named_with_its_signal_and_no_rank_is_blamed(
    team: Start, number: signal.Signals, name: str, expendable: tuple[str, ...]
) -> None:
    ranks = team(3)
    with pytest.raises(
        RunFailed, match=rf"^The fork server \(pid \d+\), .* was killed by signal {number} \({name}"
    ) as caught:
        ranks.run(functions.kill_the_fork_server, int(number), expendable=expendable)
    assert "trainer" not in str(caught.value)
    assert {(row.state, row.exit_code) for row in sink_of(ranks).rows.values()} == {("ended", None)}, (
        "how the ranks themselves ended is not known"
    )
    assert not [kind for kind, _ in sink_of(ranks).events if kind == "rank lost"]


def test_a_checkpoint_waits_for_the_points_of_every_rank_that_it_includes(tmp_path: Path) -> None:
    progress: Any = RunProgress.__new__(RunProgress)
    progress.context, progress.sink = RunContext((), (), 1, 0, tmp_path), MemorySink()
    progress.members = [
        SimpleNamespace(
            plan=SimpleNamespace(index=rank),
            stored_step=stored,
            done_at=None,
            open=True,
            failure=None,
            heard_s=time.monotonic(),
        )
        for rank, stored in enumerate((9, 4))
    ]
    (tmp_path / PARTS.replace("*", "1")).write_bytes(b"state")
    progress.checkpoints = [Saved(PARTS.replace("*", "1"), {0: 7, 1: 5})]
    progress._publish_checkpoints()
    assert not (tmp_path / CHECKPOINT).exists(), "step 5 of rank 1 is on its way"
    progress.members[1].stored_step = 5
    progress._publish_checkpoints()
    assert (tmp_path / CHECKPOINT).read_bytes() == b"state"
