"""Compressed averages of gradients, exactly: what each method sends, its limits, and that nothing is lost for good."""

from collections.abc import Callable
from math import ceil, prod
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ConfigError
from engine.experiments.sync_sgd import compression
from engine.experiments.sync_sgd.compression import Bfloat16, Compressor, FourBits, PowerSgd, ScaledSigns, TopK
from engine.experiments.sync_sgd.config import SyncSgdConfig
from tests.experiments.sync_sgd import sync_functions
from tests.experiments.sync_sgd.test_sync_sgd import SHORT, center_of, in_processes, in_threads, sober

__all__ = ["sober"]
SHAPES = [(6, 4), (6,), (3, 2, 5), (1,)]
SIZE = sum(map(prod, SHAPES))
GRADIENTS = {"sync": "gradients", "transport": "gloo", "trainers": 2}
OF_POWERSGD = 4 * (2 * (10 + 25 + 20 + 250 + 50 + 320 + 10 + 50) + 90)
"""Bytes of the MNIST net's factors of rank 2, and of its biases."""


class Rings:
    """The trainers' ring as threads: each operation waits for all."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.all_here = Barrier(world)
        self.given: dict[int, Tensor] = {}

    def of(self, index: int) -> Any:
        rings = self

        class Ring:
            world = rings.world

            def gather(self, vector: Tensor) -> list[Tensor]:
                rings.given[index] = vector.clone()
                rings.all_here.wait()
                found = [rings.given[each].clone() for each in range(rings.world)]
                rings.all_here.wait()
                return found

            def mean(self, vector: Tensor) -> None:
                first, *others = self.gather(vector)
                for other in others:
                    first += other
                vector.copy_(first / rings.world)

        return Ring()


def averaged(make: Callable[[], Compressor], gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Average gradients [steps, trainers, P]; return the means of each step that each trainer has [steps, trainers, P],
    their errors after the last one [trainers, P], and the losses [steps, trainers].
    """
    steps, world, _ = gradients.shape
    found, rings = gradients.clone(), Rings(world)
    compressors, lost = [make() for _ in range(world)], torch.zeros(steps, world)

    def work(index: int) -> None:
        for step in range(steps):
            lost[step, index] = compressors[index].average(found[step, index], rings.of(index))

    threads = [Thread(target=work, args=(index,)) for index in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, torch.stack([each.error for each in compressors]), lost


def drawn(steps: int, world: int = 3) -> Tensor:
    return torch.randn(steps, world, SIZE, generator=torch.Generator().manual_seed(5))


METHODS: dict[str, Callable[[], Compressor]] = {
    "powersgd": lambda: PowerSgd(SHAPES, 1, seed=3),
    "topk": lambda: TopK(SIZE, 0.1),
    "sign": lambda: ScaledSigns(SHAPES),
    "e3m0": lambda: FourBits(SIZE),
}


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
def test_all_that_was_sent_and_the_last_errors_are_the_sum_of_all_gradients(make: Callable[[], Compressor]) -> None:
    gradients = drawn(steps=20)
    found, errors, lost = averaged(make, gradients)
    assert all(torch.equal(found[:, 0], found[:, index]) for index in range(3)), "the same for all, bit for bit"
    assert torch.allclose(found[:, 0].sum(0) + errors.mean(0), gradients.mean(1).sum(0), atol=1e-5)
    assert (lost > 0).all() and not torch.allclose(found[0, 0], gradients[0].mean(0), atol=1e-2)


def test_powersgd_at_full_rank_is_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_SAVING", 0.0)
    gradients = drawn(steps=3)
    found, _, _ = averaged(lambda: PowerSgd(SHAPES, 6, seed=3), gradients)
    assert torch.allclose(found[:, 0], gradients.mean(1), atol=1e-5)


def test_powersgd_keeps_a_matrix_of_its_rank_after_one_step() -> None:
    left, right = torch.randn(6, 1, generator=torch.Generator().manual_seed(1)), torch.arange(1.0, 5.0)[None]
    gradient = torch.cat([(left @ right).flatten(), torch.ones(SIZE - 24)]).expand(1, 2, -1)
    found, errors, lost = averaged(lambda: PowerSgd(SHAPES, 1, seed=3), gradient)
    assert torch.allclose(found[0, 0, :24], gradient[0, 0, :24], atol=1e-5)
    assert torch.equal(found[0, 0, 24:30], gradient[0, 0, 24:30]), "a vector goes as it is"
    assert (errors[:, :24].abs() < 1e-5).all() and 0 < lost.max() < 1


def test_topk_of_all_numbers_is_the_mean_exactly_and_of_few_the_largest() -> None:
    gradients = drawn(steps=2)
    found, errors, lost = averaged(lambda: TopK(SIZE, 1.0), gradients)
    first, second, third = gradients.unbind(1)
    assert torch.equal(found[:, 0], (first + second + third) / 3) and not errors.any() and not lost.any()
    few, errors, _ = averaged(lambda: TopK(SIZE, 0.05), gradients[:1, :1])
    assert few.count_nonzero() == ceil(0.05 * SIZE) and few.abs().min() == 0
    assert set(few[few != 0].abs().tolist()) == set(gradients[0, 0].abs().topk(ceil(0.05 * SIZE)).values.tolist())
    assert torch.equal(few[0, 0] + errors[0], gradients[0, 0])


def test_signs_are_scaled_by_the_mean_magnitude_of_each_tensor() -> None:
    gradients = drawn(steps=1, world=1)
    found, _, _ = averaged(lambda: ScaledSigns(SHAPES), gradients)
    for sent, own in zip(
        *(each[0, 0].split([prod(shape) for shape in SHAPES]) for each in (found, gradients)), strict=True
    ):
        assert torch.allclose(sent, own.sign() * own.abs().mean(), rtol=1e-6)


def test_four_bits_are_the_nearest_power_of_two_below_the_largest_number_of_a_block() -> None:
    numbers = torch.cat([torch.linspace(-3, 3, 511), torch.zeros(256), torch.full((2,), 1e-30)])
    found, _, _ = averaged(lambda: FourBits(0), numbers.expand(1, 1, -1))
    sent = found[0, 0]
    for part, whole in zip(sent.split(256), numbers.split(256), strict=True):
        magnitudes = torch.tensor([0.0, *(2.0**-power for power in range(7))]) * whole.abs().max()
        allowed = torch.cat([magnitudes, -magnitudes])
        assert torch.equal((part - whole).abs(), (allowed[:, None] - whole).abs().amin(0))
    assert not sent[511:767].any() and sent[-1] == numbers[-1]


def test_bfloat16_is_within_its_rounding() -> None:
    gradients = drawn(steps=4)
    found, errors, lost = averaged(Bfloat16, gradients)
    bound = 4 * 2.0**-8 * gradients.abs().sum(1)  # of each number, two sums and the division
    assert ((found[:, 0] - gradients.mean(1)).abs() <= bound).all() and not errors.numel()
    assert 0 < lost.max() < 2.0**-8


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("changes", "bytes_a_step"),
    [
        ({"compression": "bf16"}, 2 * 21_840),
        ({"compression": "e3m0"}, 10_920 + 4 * 86),
        ({"compression": "powersgd"}, OF_POWERSGD),
        ({"compression": "topk", "compression_share": 1}, 8 * 219),
        ({"compression": "sign"}, 2730 + 4 * 8),
    ],
    ids=lambda value: value["compression"] if isinstance(value, dict) else "",
)
def test_each_trainer_sends_what_its_method_says(tmp_path: Path, changes: dict[str, Any], bytes_a_step: int) -> None:
    ranks = in_threads(tmp_path, rounds=1, average_every=3, **GRADIENTS | changes)
    for recorder in ranks.recorders.values():
        assert recorder.bytes == 3 * bytes_a_step  # with 2 trainers a ring sends a vector once
        errors = recorder.values("train/compression_error")
        assert len(errors) == 3 and all(0 < each < 1.5 for each in errors)


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
def test_topk_of_all_numbers_trains_as_without_compression_bit_for_bit(tmp_path: Path) -> None:
    run = {"rounds": 1, "average_every": 4, **GRADIENTS}
    in_threads(tmp_path / "whole", **run)
    in_threads(tmp_path / "topk", compression="topk", compression_share=100, **run)
    assert torch.equal(center_of(tmp_path / "whole"), center_of(tmp_path / "topk"))


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
@pytest.mark.parametrize(
    "method", ["powersgd", *(pytest.param(each, marks=pytest.mark.long) for each in ("topk", "sign"))]
)  # long: the other two keep less of the same
def test_a_resumed_run_goes_on_with_its_errors_and_factors(tmp_path: Path, method: str) -> None:
    run = {"average_every": 2, "compression": method, "evaluate_every": 0, **GRADIENTS}
    in_threads(tmp_path / "whole", rounds=2, **run)
    in_threads(tmp_path / "half", rounds=1, **run)
    in_threads(tmp_path / "rest", tmp_path / "half" / "checkpoint.pt", rounds=2, **run)
    assert torch.equal(center_of(tmp_path / "whole"), center_of(tmp_path / "rest"))


@pytest.mark.long  # two processes each: the hooks are torch's own
@pytest.mark.processes
def test_ddp_compresses_with_the_hooks_of_torch(tmp_path: Path) -> None:
    run = {"sync": "ddp", "trainers": 2, "rounds": 1, "average_every": 6, "evaluate_every": 0}
    centers, sent = {}, {}
    for method in ("none", "bf16", "powersgd"):
        folder = tmp_path / method
        folder.mkdir()
        _, sink = in_processes(folder, sync_functions.train_sober, compression=method, **run)
        centers[method], sent[method] = center_of(folder), max(sink.values("perf/exchanged", 1))
    whole = 4 * 21_840
    bytes_sent = {"none": 6 * whole, "bf16": 3 * whole, "powersgd": 2 * whole + 4 * OF_POWERSGD}
    assert {name: round(1e6 * each) for name, each in sent.items()} == bytes_sent
    apart = {name: float((each - centers["none"]).abs().max()) for name, each in centers.items()}
    assert 0 < apart["bf16"] < 2e-3 < apart["powersgd"] < 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sync": "weights"}, "compression must be none for sync weights, got 'topk': which averages weights. Choose"),
        (
            {"sync": "ddp"},
            "compression must be none or bf16 or powersgd for sync ddp, for which torch has no other, got",
        ),
        ({"sync": "gradients", "transport": "rpc"}, "compression must be none for transport rpc, got 'topk'"),
    ],
    ids=str,
)
def test_where_compression_does_not_apply_it_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SyncSgdConfig.check(SHORT | {"trainers": 2, "compression": "topk"} | changes)
    assert said in str(refused.value)
