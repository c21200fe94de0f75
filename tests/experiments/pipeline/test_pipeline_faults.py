"""What goes wrong in a stage, in every mode: the stage is named, and nobody is left behind."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RankFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.registry import experiment, method
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.system.processes import identity
from tests.doubles import MemorySink, process_ranks

pytestmark = pytest.mark.processes
MODES = ("gpipe", "1f1b", "rpc", "torch_pipelining")
WHERE = "in the backward of micro-batch 2, batch 2"


def config_of(**changes: Any) -> PipelineConfig:
    settings = {
        "image_size": 24,
        "classes": 7,
        "batch_size": 8,
        "batches": 4,
        "learning_rate": 0.01,
        "threads_per_rank": 1,
    }
    found = experiment("pipeline").configure(None, settings | changes)
    assert isinstance(found, PipelineConfig)
    return found


def ended(
    folder: Path, config: PipelineConfig, error: type[Exception], watched: Callable[[Ranks], bool] = lambda ranks: False
) -> str:
    """Run it, with `watched` asked now and then whether to stop; return what its failure says. Nobody may be left."""
    folder.mkdir(exist_ok=True)
    ranks = process_ranks(config.roles, ("cpu",) * len(config.roles), 1, 0, folder, MemorySink())
    ranks.stop_requested = lambda: watched(ranks)
    with pytest.raises(error) as found:
        method("pipeline")(config, ranks)
    assert not [member.role for member in ranks.members if identity(member.pid)]
    return str(found.value)


def failure(folder: Path, **changes: Any) -> str:
    return ended(folder, config_of(**changes), RankFailed)


def has_begun(ranks: Ranks) -> bool:
    assert isinstance(ranks.sink, MemorySink)
    return ranks.sink.progress[0] > 0


def pairs(*fast: tuple[str, int], long: tuple[tuple[str, int], ...] = ()) -> pytest.MarkDecorator:
    """Give modes and stages, those of the long tests last."""
    return pytest.mark.parametrize(
        ("mode", "stage"), [*fast, *(pytest.param(*each, marks=pytest.mark.long) for each in long)]
    )


@pairs(("1f1b", 2), ("rpc", 1), long=(("gpipe", 1), ("torch_pipelining", 2)))
def test_a_stage_that_raises_in_a_backward_is_named_with_its_micro_batch(mode: str, stage: int, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="raise", fault_stage=stage)
    assert told == f"stage{stage} failed with RuntimeError: raised on purpose (fault), {WHERE}."


@pairs(("gpipe", 2), ("torch_pipelining", 2), long=(("1f1b", 2), ("rpc", 2)))
def test_a_stage_that_was_killed_is_named(mode: str, stage: int, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="kill", fault_stage=stage)
    assert told.startswith(f"stage{stage} (rank")
    assert "SIGKILL" in told


@pairs(("1f1b", 1), long=(("rpc", 1),))
def test_memory_that_one_stage_can_not_have_is_told_with_how_much_it_asked_for(
    mode: str, stage: int, tmp_path: Path
) -> None:
    told = failure(tmp_path, mode=mode, fault="memory", fault_stage=stage)
    assert told.startswith(f"stage{stage} ran out of memory allocating 4503599627370496 bytes {WHERE}.")


@pairs(("gpipe", 2), ("rpc", 1), ("torch_pipelining", 1), long=(("gpipe", 1), ("rpc", 2)))
def test_numbers_gone_bad_are_blamed_on_the_stage_where_they_began(mode: str, stage: int, tmp_path: Path) -> None:
    told = failure(tmp_path, mode=mode, fault="nan", fault_stage=stage)
    assert told.startswith(f"stage{stage}'s ")
    assert "became NaN or infinite in batch" in told
    assert "Lower learning_rate (0.01)" in told


@pytest.mark.parametrize(
    "mode", [pytest.param(each, marks=() if each in ("1f1b", "rpc") else pytest.mark.long) for each in MODES]
)
def test_a_stop_ends_all_stages_wherever_they_are(mode: str, tmp_path: Path) -> None:
    ended(tmp_path, config_of(mode=mode, batches=100_000), StopRequested, has_begun)


def test_a_stage_that_hangs_is_named_by_those_who_wait_and_does_not_stay(tmp_path: Path) -> None:
    """All at once: each of these runs does nothing but wait out its timeout_s."""

    def hang(mode: str, **changes: Any) -> str:
        return failure(tmp_path / f"{mode}{changes}", mode=mode, fault="hang", timeout_s=8, **changes)

    def stop_one(ranks: Ranks) -> bool:
        if has_begun(ranks):
            os.kill(ranks.members[1].pid, signal.SIGSTOP)
        return False

    with ThreadPoolExecutor() as pool:
        modes = {mode: pool.submit(hang, mode, fault_stage=2) for mode in ("1f1b", "rpc", "torch_pipelining")}
        chain = pool.submit(hang, "gpipe", fault_stage=3, stages=3)
        stopped = pool.submit(
            ended, tmp_path / "stopped", config_of(batches=100_000, timeout_s=8), RankFailed, stop_one
        )
    for mode, run in modes.items():
        assert "stage2" in run.result().partition(" in batch")[0], mode
        assert "8 s (timeout_s)" in run.result() or mode == "torch_pipelining"
    assert chain.result().startswith("stage3 timed out sending after 8 s"), "not stage2, which waits for it too"
    assert stopped.result().startswith("stage2 timed out sending after 8 s")
