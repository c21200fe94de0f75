"""What goes wrong in a stage, in every mode: the stage is named, and nobody is left behind."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RankFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.registry import experiment, method
from engine.runtime import fork_server
from engine.runtime.processes import identity
from engine.runtime.ranks import Ranks, StopRequested
from engine.runtime.sink import MemorySink

MODES = ("gpipe", "1f1b", "rpc", "torch_pipelining")
WHERE = "in the backward of micro-batch 2, batch 2"


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


def config_of(**changes: Any) -> PipelineConfig:
    settings = {"image_size": 24, "classes": 7, "batch_size": 8, "batches": 4, "learning_rate": 0.01, "threads_per_rank": 1}
    found = experiment("pipeline").configure(None, settings | changes)
    assert isinstance(found, PipelineConfig)
    return found


def failure(folder: Path, **changes: Any) -> str:
    """Run it and return what the run's failure says; nobody may be left."""
    config = config_of(**changes)
    ranks = Ranks(config.roles, ("cpu",) * len(config.roles), 1, 0, folder, MemorySink())
    with pytest.raises(RankFailed) as found:
        method("pipeline")(config, ranks)
    assert not [member.role for member in ranks.members if identity(member.pid)]
    return str(found.value)


@pytest.mark.parametrize(("mode", "stage"), [("gpipe", 1), ("1f1b", 2), ("rpc", 1), ("torch_pipelining", 2)])
def test_a_stage_that_raises_in_a_backward_is_named_with_its_micro_batch(mode: str, stage: int, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="raise", fault_stage=stage)
    assert told == f"stage{stage} failed with RuntimeError: raised on purpose (fault), {WHERE}."


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_was_killed_is_named(mode: str, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="kill", fault_stage=2)
    assert told.startswith("stage2 (rank")
    assert "SIGKILL" in told


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_hangs_is_named_by_those_who_wait(mode: str, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="hang", fault_stage=2, timeout_s=8)
    assert "stage2" in told.partition(" in batch")[0]
    assert "8 s (timeout_s)" in told or mode == "torch_pipelining"


def test_a_stage_at_the_end_of_a_chain_is_named_not_the_one_before_it(tmp_path: Path) -> None:
    assert failure(tmp_path, fault="hang", fault_stage=3, stages=3, timeout_s=8).startswith("stage3 did not come to send within 8 s")


@pytest.mark.parametrize("mode", ["1f1b", "rpc"])
def test_memory_that_one_stage_can_not_have_is_told_with_how_much_it_asked_for(mode: str, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="memory", fault_stage=1)
    assert told.startswith(f"stage1 ran out of memory, when 4503599627370496 bytes more were asked for, {WHERE}.")


@pytest.mark.parametrize(("mode", "stage"), [("gpipe", 1), ("gpipe", 2), ("rpc", 1), ("rpc", 2), ("torch_pipelining", 1)])
def test_numbers_gone_bad_are_blamed_on_the_stage_where_they_began(mode: str, stage: int, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="nan", fault_stage=stage)
    assert told.startswith(f"stage{stage}'s ")
    assert "became NaN or infinite in batch" in told
    assert "Lower learning_rate (0.01)" in told


@pytest.mark.parametrize("mode", [pytest.param(each, marks=() if each in ("gpipe", "rpc") else pytest.mark.long) for each in MODES])
def test_a_stop_ends_all_stages_wherever_they_are(mode: str, tmp_path: Path) -> None:
    config, stop = config_of(mode=mode, batches=100_000), threading.Event()
    ranks = Ranks(config.roles, ("cpu",) * len(config.roles), 1, 0, tmp_path, MemorySink(), stop_requested=stop.is_set)
    threading.Timer(4, stop.set).start()
    with pytest.raises(StopRequested):
        method("pipeline")(config, ranks)
    assert not [member.role for member in ranks.members if identity(member.pid)]


def test_a_stage_that_is_stopped_is_named_and_does_not_stay(tmp_path: Path) -> None:
    config = config_of(batches=100_000, timeout_s=8)
    ranks = Ranks(config.roles, ("cpu",) * 2, 1, 0, tmp_path, MemorySink())

    def stop_one() -> None:
        while not (ranks.members and ranks.execution_time_s is None and ranks.sink.progress[0] > 0):  # type: ignore[attr-defined]
            time.sleep(0.05)
        os.kill(ranks.members[1].pid, signal.SIGSTOP)

    threading.Thread(target=stop_one, daemon=True).start()
    with pytest.raises(RankFailed, match="stage2 did not come to send within 8 s"):
        method("pipeline")(config, ranks)
    assert not [member.role for member in ranks.members if identity(member.pid)]
