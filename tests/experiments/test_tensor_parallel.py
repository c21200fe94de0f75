"""Tensor parallelism: together the ranks do what one process does, and they send what the papers say."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed.tensor import parallel
from torch.distributed.tensor.parallel import loss_parallel

from engine.data.catalogue import DATA_SETS
from engine.errors import ConfigError, RunFailed
from engine.recorder import MemoryRecorder
from engine.registry import experiment, method
from engine.runtime.transport import allreduce
from tests.doubles import LocalRanks, MemorySink, process_ranks

pytestmark = pytest.mark.ranks
COMMON: dict[str, Any] = {"batch_size": 2, "steps": 3, "seed": 5, "learning_rate": 0.1, "momentum": 0.9}
MODELS = {"gpt": "stdlib", "vit": "synthetic"}
BLOCKS, WIDTH = 2, 64
Trained = tuple[list[float], float, dict[str, MemoryRecorder]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few samples."""
    for name in MODELS.values():
        monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], train=6, test=2))


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads be the ranks of torch's default group."""
    from torch.testing._internal.distributed import multi_threaded_pg as threads

    @contextmanager
    def group(rank: Any, backend: str, timeout_s: float) -> Iterator[None]:
        distributed.init_process_group("threaded", rank=rank.index, world_size=rank.world, store=store)
        yield
        distributed.destroy_process_group()

    store = distributed.HashStore()
    monkeypatch.setattr(allreduce, "torch_group", group)
    monkeypatch.setattr(parallel, "loss_parallel", nullcontext)  # it is of the whole process
    threads._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    with loss_parallel():  # type: ignore[no-untyped-call]
        yield
    torch._C._distributed_c10d._set_thread_isolation_mode(False)
    threads._uninstall_threaded_pg()
    threads.ProcessLocalGroup.reset()


def train(**changes: Any) -> Trained:
    """Train in threads; return the losses, the last test loss and what the ranks recorded."""
    config = experiment("tensor_parallel").config.check(COMMON | changes)
    ranks = LocalRanks(config.roles, seed=config.seed)
    method("tensor_parallel")(config, ranks)
    first = ranks.recorders["rank1"]
    return first.values("train/loss"), first.values("test/loss")[-1], ranks.recorders


def one_process(model: str) -> tuple[list[float], float]:
    """Return the losses and the last test loss of the reference, in as many steps."""
    shared = {name: value for name, value in COMMON.items() if name != "steps"}
    config = experiment("reference").config.check(shared | {"epochs": 1, "model": model, "dataset": MODELS[model]})
    ranks = LocalRanks(config.roles, seed=config.seed)
    method("reference")(config, ranks)
    return ranks.recorders["trainer1"].values("train/loss"), ranks.recorders["trainer1"].values("test/loss")[-1]


LONG = pytest.mark.long  # the text alone takes 4 s of processor time; the vision transformer has the same blocks


@pytest.mark.parametrize(
    ("model", "ways"),
    [
        pytest.param("gpt", ((2, False), (2, True), (4, True)), marks=LONG),
        ("vit", ((2, False), (2, True), (4, True))),
    ],
)
def test_ranks_together_are_one_process(
    small: None, threaded: None, model: str, ways: tuple[tuple[int, bool], ...]
) -> None:
    losses, tested = one_process(model)
    for ranks, sequence_parallel in ways:
        ours, last, recorders = train(
            ranks=ranks, model=model, dataset=MODELS[model], sequence_parallel=sequence_parallel
        )
        assert ours == pytest.approx(losses, rel=1e-4)
        assert last == pytest.approx(tested, rel=1e-4), "the weights after the last step"
        check_sent(model, ranks, sequence_parallel, recorders)


@pytest.mark.parametrize(("ranks", "sequence_parallel"), [(2, False), (2, True), pytest.param(4, True, marks=LONG)])
def test_ranks_with_a_part_of_the_logits_are_one_process(
    small: None, threaded: None, ranks: int, sequence_parallel: bool
) -> None:
    losses, tested = one_process("gpt")
    ours, last, recorders = train(ranks=ranks, sequence_parallel=sequence_parallel, loss_parallel=True)
    assert ours == pytest.approx(losses, rel=1e-4)
    assert last == pytest.approx(tested, rel=1e-4), "the weights after the last step"
    tokens = COMMON["batch_size"] * 128  # of a step, and of the test
    activations, norms = tokens * WIDTH * 4, (2 + 6 * BLOCKS) * WIDTH * 4
    step = 8 * BLOCKS * activations + 2 * 3 * tokens * 4  # blocks; maximum, sum and right logit of each byte
    step += (5 * activations + 2 * norms) if sequence_parallel else 4 * activations  # before and after the blocks
    test = (4 * BLOCKS + 2 + sequence_parallel) * activations + tokens * 256 * 4
    divided = BLOCKS * (12 * WIDTH**2 + 7 * WIDTH) + 256 * WIDTH
    for recorder in recorders.values():
        assert recorder.bytes == (ranks - 1) / ranks * (COMMON["steps"] * step + test)
        assert recorder.values("perf/memory_parameters") == [4 * (124_672 - divided + divided / ranks) / 1e6]


def check_sent(model: str, ranks: int, sequence_parallel: bool, recorders: dict[str, MemoryRecorder]) -> None:
    """Compare what was sent, and what each rank keeps, with the papers' formulas."""
    length = 128 if model == "gpt" else 16
    activations = COMMON["batch_size"] * length * WIDTH * 4
    per_layer = 4 * 2 * (ranks - 1) * activations / ranks
    divided = BLOCKS * (12 * WIDTH**2 + 7 * WIDTH)
    whole = {"gpt": 124_672, "vit": 104_970}[model] - divided
    for recorder in recorders.values():
        assert recorder.values("perf/layer_exchanged") == [per_layer / 1e6]
        assert recorder.values("perf/memory_parameters") == [4 * (whole + divided / ranks) / 1e6]
        names = [each.name for each in recorder.operations if each.kind == "collective"]
        first, way = "block 1 attention", "all-reduce"
        there, back = ("reduce-scatter", "all-gather") if sequence_parallel else (way, way)
        assert names.count(f"{first} backward {there}") == COMMON["steps"]
        assert names.count(f"{first} backward {back}") == COMMON["steps"]
        in_blocks = [name for name in names if name.startswith("block 1") and "backward" in name]
        assert len(in_blocks) == COMMON["steps"] * (4 if sequence_parallel else 2)
        waited = [each.name for each in recorder.operations if each.kind == "communicate"]
        assert waited.count(f"{first} backward") == COMMON["steps"] * (2 if sequence_parallel else 1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ranks": 3}, r"ranks must be one of 1, 2, 4, got 3: each rank has equally many of the 4 heads of gpt\."),
        (
            {"dataset": "digits", "model": "mnist_net"},
            "model must be one of 'vit', 'gpt' or 'gpt_base', got 'mnist_net'",
        ),
        ({"dataset": "digits"}, "model must be vit, got 'gpt': digits is a dataset of images"),
        (
            {"model": "gpt_base", "ranks": 3, "sequence_parallel": True},
            "sequence_parallel must be off for 3 ranks, got True: the sequence of 128 can't be divided evenly",
        ),
        (
            {"model": "gpt_base", "ranks": 3, "loss_parallel": True},
            "loss_parallel must be off for 3 ranks, got True: 256 bytes can't be divided evenly",
        ),
        (
            {"dataset": "digits", "model": "vit", "loss_parallel": True},
            "loss_parallel must be off for digits, got True: images have 10 classes",
        ),
    ],
)
def test_a_model_that_cannot_be_divided_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        experiment("tensor_parallel").config.check(changes)


def test_a_loss_that_is_no_number_ends_the_run_with_its_cure(small: None, threaded: None) -> None:
    with pytest.raises(RunFailed, match=r"The loss became (nan|inf) at step \d.*Lower learning_rate \(10\.0\)"):
        train(model="vit", dataset="synthetic", learning_rate=10.0, momentum=0.99, steps=40)


@pytest.mark.long  # two processes load torch; in threads the same method is tested above
@pytest.mark.processes
def test_two_processes_are_one(small: None, tmp_path: Path) -> None:
    config = experiment("tensor_parallel").config.check(COMMON | {"sequence_parallel": True})
    sink = MemorySink()
    method("tensor_parallel")(config, process_ranks(config.roles, ("cpu",) * 2, 1, config.seed, tmp_path, sink))
    losses, tested = one_process("gpt")
    assert sink.values("train/loss", 0) == pytest.approx(losses, rel=1e-4)
    assert sink.values("test/loss", 0) == pytest.approx([tested], rel=1e-4)
    assert sink.progress == (6 * 128, 6 * 128, "tokens")
