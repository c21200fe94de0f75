"""What makes a pipeline right: its gradients are those of the net in one piece, whatever the mode, the stages and the
splits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.data.nets import bind, flat_weights
from engine.data.tensors import shared_zeros
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches
from engine.experiments.pipeline.partition import boundaries, loss_of, whole_net
from engine.experiments.pipeline.scheduled.links import Links
from engine.recorder import Point, Span
from engine.registry import experiment, method
from engine.runtime.worker.ranks import Ranks
from tests.doubles import MemorySink, process_ranks
from tests.experiments.pipeline import pipeline_functions
from tests.rank_functions import in_each_case
from tests.rank_logs import rounds_of

pytestmark = pytest.mark.processes

SMALL: dict[str, Any] = {
    "image_size": 24,
    "classes": 7,
    "batch_size": 8,
    "batches": 1,
    "learning_rate": 10.0,  # so that rounding in the weights hides nothing of the gradient
    "batch_norm": "frozen",
    "threads_per_rank": 1,
    "timeout_s": 30,
}
LONG = partial(pytest.param, marks=pytest.mark.long)
"""One more case of what the others hold too; each costs the start of its ranks."""
MODES = ("gpipe", "1f1b", "rpc", "torch_pipelining")


def config_of(**changes: Any) -> PipelineConfig:
    found = experiment("pipeline").configure(None, SMALL | changes)
    assert isinstance(found, PipelineConfig)
    return found


@dataclass
class Keeping:
    """Ranks whose stages keep their weights at the end."""

    ranks: Ranks
    mode: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ranks, name)

    def run(self, function: Callable[..., None], *shared: Any) -> None:
        self.ranks.run(pipeline_functions.run_and_keep, self.mode, *shared)


def ranks_for(config: PipelineConfig, folder: Path) -> Ranks:
    return process_ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, folder, MemorySink())


def trained(config: PipelineConfig, folder: Path) -> tuple[Tensor, Tensor]:
    """Run it; return all weights in the net's order as they are at the end, and what lies in their `.grad`."""
    method("pipeline")(config, Keeping(ranks_for(config, folder), config.mode))
    kept = [torch.load(folder / f"part{part}.pt") for part in range(config.layout.parts)]
    return torch.cat([weights for weights, _ in kept]), torch.cat([gradient for _, gradient in kept])


def trained_one_after_another(configs: list[PipelineConfig], folder: Path) -> list[Tensor]:
    """Run configs of the same stages in one start of the ranks; return the weights that each ends with."""
    costs = shared_zeros(configs[0].stages, len(boundaries(configs[0])), dtype=torch.float64)
    cases = [
        (config.mode, config, MicroBatches.create(config), Links.create(config, False, ("cpu",) * config.stages), costs)
        for config in configs
    ]
    ranks_for(configs[0], folder).run(in_each_case, pipeline_functions.run_and_keep, cases)
    return [
        torch.cat([torch.load(folder / str(number) / f"part{part}.pt")[0] for part in range(config.layout.parts)])
        for number, config in enumerate(configs)
    ]


def in_one_piece(config: PipelineConfig) -> tuple[Tensor, Tensor]:
    """Return the weights before the first update and the gradient of its batch, of the net in one piece."""
    net, feed, cpu = whole_net(config), MicroBatches.create(config), torch.device("cpu")
    before = flat_weights(net)
    gradient = bind(net, before.clone())
    images, targets = feed.images(cpu), feed.targets(cpu)
    batch = (
        torch.cat([next(images) for _ in range(config.splits)]),
        torch.cat([next(targets) for _ in range(config.splits)]),
    )
    loss_of(net(batch[0]), batch[1], config).backward()  # type: ignore[no-untyped-call]
    return before, gradient


def error_of(config: PipelineConfig, after: Tensor) -> float:
    """Return how far the gradient behind a run's weights is from that of the net in one piece, as a share of its
    length.
    """
    before, gradient = in_one_piece(config)
    found = (before - after).double() / config.learning_rate
    return float((found - gradient).norm() / gradient.norm())


@pytest.mark.parametrize(
    ("mode", "stages", "splits"),
    [
        LONG("gpipe", 2, (1, 2, 3, 4, 8)),
        ("gpipe", 4, (1, 3, 4)),
        LONG("1f1b", 2, (1, 2, 3, 4, 8)),
        ("1f1b", 3, (2, 3, 8)),
        LONG("interleaved", 2, (2, 4, 8)),
        LONG("zb_h1", 4, (1, 3, 4, 8)),
    ],
)
def test_gradients_are_those_of_the_net_in_one_piece_for_every_number_of_splits(
    mode: str, stages: int, splits: tuple[int, ...], tmp_path: Path
) -> None:
    configs = [config_of(mode=mode, stages=stages, splits=each) for each in splits]
    for config, after in zip(configs, trained_one_after_another(configs, tmp_path), strict=True):
        assert error_of(config, after) < 1e-5, config.splits


@pytest.mark.parametrize("splits", [LONG(1), LONG(2), LONG(3), 4, LONG(8)])
def test_a_plain_optimizer_would_find_no_gradient_under_distributed_autograd(splits: int, tmp_path: Path) -> None:
    """The tutorial's official code steps one in each stage, and so trains nothing: gradients lie in the context, not in
    `.grad`.
    """
    config = config_of(mode="rpc", splits=splits)
    after, dot_grad = trained(config, tmp_path)
    assert error_of(config, after) < 1e-5
    assert not dot_grad.any()


@pytest.mark.parametrize(
    ("schedule", "splits"),
    [
        *(("gpipe", 1), LONG("gpipe", 2), LONG("gpipe", 4), LONG("gpipe", 8)),
        *(LONG("1f1b", 2), LONG("1f1b", 4), LONG("1f1b", 8)),
        *(("interleaved", 4), LONG("interleaved", 8), ("zb_h1", 4), LONG("zb_h1", 8)),
    ],
)
def test_so_are_those_of_torchs_own_pipeline(schedule: str, splits: int, tmp_path: Path) -> None:
    config = config_of(mode="torch_pipelining", peer_schedule=schedule, splits=splits)
    assert error_of(config, trained(config, tmp_path)[0]) < 1e-5


@pytest.mark.parametrize("mode", [LONG("gpipe"), "1f1b", LONG("interleaved"), LONG("zb_h1")])
def test_so_are_those_of_stages_that_send_by_remote_calls(mode: str, tmp_path: Path) -> None:
    config = config_of(mode=mode, transport="rpc", stages=2 if mode == "interleaved" else 3, splits=4)
    assert error_of(config, trained(config, tmp_path)[0]) < 1e-5


# ---- what follows from it
# ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sink_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MemorySink]:
    """Return what three batches of digits record in a mode, with a test of the net on the way; each mode runs once."""

    @cache
    def run(mode: str) -> MemorySink:
        folder = tmp_path_factory.mktemp(mode)
        ranks = ranks_for(recorded_config(mode), folder)
        method("pipeline")(recorded_config(mode), ranks)
        assert all(lines == [f"batch {n} of 3" for n in (1, 2, 3)] for lines in rounds_of(folder).values())
        assert isinstance(ranks.sink, MemorySink)
        return ranks.sink

    return run


def recorded_config(mode: str) -> PipelineConfig:
    return config_of(
        mode=mode,
        splits=4,
        batches=3,
        cut="3",
        learning_rate=0.001,
        dataset="digits",
        loss="cross_entropy",
        evaluate_every=2,
    )


def spans_of(sink: MemorySink, stage: int, *names: str) -> list[Span]:
    mine = (span for batch in sink.batches for span in batch.spans if span.stage == stage)
    return sorted((span for span in mine if not names or span.name in names), key=lambda span: span.t0_ns)


@pytest.mark.parametrize("mode", MODES)
def test_the_loss_is_that_of_the_whole_batch_in_every_mode(mode: str, sink_of: Callable[[str], MemorySink]) -> None:
    config, sink = recorded_config(mode), sink_of(mode)
    net, feed, cpu = whole_net(config), MicroBatches.create(config), torch.device("cpu")
    images, targets = feed.images(cpu), feed.targets(cpu)
    optimizer = torch.optim.SGD(net.parameters(), lr=config.learning_rate)
    expected = []
    for _ in range(config.batches):
        batch = torch.cat([next(images) for _ in range(4)]), torch.cat([next(targets) for _ in range(4)])
        loss = loss_of(net(batch[0]), batch[1], config)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        expected.append(loss.item())
    assert sink.values("train/loss") == pytest.approx(expected, rel=1e-4)
    for stage in (0, 1):
        spans = spans_of(sink, stage)
        assert all(one.t1_ns <= after.t0_ns for one, after in pairwise(spans)), "no moment counts twice"
        for name in ("forward", "backward"):
            assert {span.micro_batch for span in spans if span.name == name} == set(range(3 * 4)), "every micro-batch"


def test_what_a_data_set_teaches_is_tested_through_the_stages(sink_of: Callable[[str], MemorySink]) -> None:
    expected = sink_of("gpipe").values("test/loss")
    for mode in ("rpc", "torch_pipelining"):
        assert sink_of(mode).values("test/loss") == pytest.approx(expected, rel=1e-3)
    assert all(len(sink_of(mode).values("test/accuracy")) == 2 for mode in ("gpipe", "rpc", "torch_pipelining"))


@pytest.mark.parametrize("mode", MODES)
def test_what_stages_exchange_is_counted(mode: str, sink_of: Callable[[str], MemorySink]) -> None:
    config, sink = recorded_config(mode), sink_of(mode)
    images_in, between = (prod(boundaries(config)[layer]) for layer in (0, 3))
    master = (images_in, config.outputs) if mode == "rpc" else (0, 0)  # it sends images, and gets the outputs
    trained, tested = (
        3 * config.batch_size * (2 * between + master[0] + 2 * master[1]),
        2 * 360 * (between + sum(master)),
    )
    exchanged = sum(max([0.0, *sink.values("perf/exchanged", rank)]) for rank in range(len(config.roles)))
    assert exchanged == pytest.approx(4 * (trained + tested) / 1e6)


def test_one_forward_one_backward_holds_the_activations_of_as_many_micro_batches_as_stages(
    sink_of: Callable[[str], MemorySink],
) -> None:
    for stage, times in ((0, 2), (1, 4)):  # of 4 micro-batches stage 1 holds 2, stage 2 holds 1
        (all_of_them,), (few,) = (sink_of(mode).values("perf/activations_held", stage) for mode in ("gpipe", "1f1b"))
        assert all_of_them == pytest.approx(times * few, rel=0.01)


def test_each_stage_records_its_spans_and_its_idle_share(sink_of: Callable[[str], MemorySink]) -> None:
    sink = sink_of("gpipe")
    for stage in (0, 1):
        assert [(span.name, span.micro_batch) for span in spans_of(sink, stage, "forward", "backward", "update")] == [
            (name, 4 * batch + number)
            for batch in range(3)
            for name, numbers in (("forward", range(4)), ("backward", range(4)), ("update", range(1)))
            for number in numbers
        ]
    assert {(span.name, span.stage, span.peer) for stage in (0, 1) for span in spans_of(sink, stage) if span.peer} == {
        ("send", 0, "stage2"),
        ("receive", 1, "stage1"),
        ("send", 1, "stage1"),
        ("receive", 0, "stage2"),
    }
    assert len(sink.values("perf/bubble_share")) == 6
    assert all(0 <= share <= 100 for share in sink.values("perf/bubble_share"))


def points_of(sink: MemorySink, metric: str, rank: int) -> list[Point]:
    return [point for batch in sink.batches if batch.rank == rank for point in batch.points if point.name == metric]


def test_a_stage_that_is_called_waits_while_it_is_idle(sink_of: Callable[[str], MemorySink]) -> None:
    sink = sink_of("rpc")
    (tested_at,) = [point.time_s for point in points_of(sink, "test/loss", 0) if point.step == 2]
    for stage in (1, 2):
        spent = sink.phases()[stage]
        bubbles = points_of(sink, "perf/bubble_share", stage)
        first, second, last = (point.time_s for point in bubbles)
        windows = [first, second - first, last - tested_at]
        idle = sum(window * point.value / 100 for window, point in zip(windows, bubbles, strict=True))
        outside = sum(spent.values()) - sum(windows)
        assert 0.75 * idle <= spent["wait"] <= idle + outside, "what is idle waits for a call"
        assert spent["compute"] > 0 and spent["evaluate"] > 0
