"""Random streams: no two seeds share a draw, whatever ranks they meet in, and first weights depend on the
seed alone.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.data.tensors import Batches
from engine.registry import experiment, method
from engine.runtime.worker.ranks import Rank
from engine.seeding import DROPOUT, ENVIRONMENT, EVALUATION, ORDER, PARTITION, WEIGHTS, place_of, seed_of
from tests.doubles import LocalRanks

SMALL: dict[str, Any] = {"dataset": "digits", "trainers": 4, "batch_size": 512, "threads_per_rank": 1, "device": "cpu"}
TRAINING = {
    "hogwild": {"epochs": 1},
    "sync_sgd": {"rounds": 1},
    "parameter_server": {"epochs": 1, "transport": "shared_memory"},
}


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the order of every epoch that is drawn from here on."""
    found: list[tuple[int, ...]] = []
    drawn = Batches.epoch

    def epoch(batches: Batches, first: int = 0) -> Iterator[Tensor]:
        positions = list(drawn(batches, first))
        found.append(tuple(torch.cat(positions).tolist()))
        return iter(positions)

    monkeypatch.setattr(Batches, "epoch", epoch)
    return found


@pytest.mark.ranks
@pytest.mark.parametrize("name", TRAINING)
def test_neighbouring_seeds_shuffle_nothing_alike(name: str, orders: list[tuple[int, ...]]) -> None:
    for seed in (0, 1):
        config = experiment(name).config.check(SMALL | TRAINING[name] | {"seed": seed})
        method(name)(config, LocalRanks(config.roles, seed=seed))
    assert len(orders) == 8
    assert len(set(orders)) == 8, "seeds 0 and 1 share an order"


def ranks_of(*roles: str, seed: int = 0) -> list[Rank]:
    team = LocalRanks(roles, seed=seed)
    return [team._rank(index, role) for index, role in enumerate(roles)]


def test_every_stream_of_every_rank_and_seed_is_one_of_its_own() -> None:
    teams = [ranks_of("ps", *(f"trainer{number}" for number in range(1, 17)), seed=seed) for seed in range(20)]
    streams = (WEIGHTS, ORDER, DROPOUT, ENVIRONMENT, EVALUATION, PARTITION)
    drawn = [rank.seed_of(stream) for team in teams for rank, stream in product(team, streams)]
    assert len({seed % 2**32 for seed in drawn}) == len(drawn) == 20 * 17 * 6, (
        "torch's generator on the CPU takes 32 bits"
    )


def test_the_first_rank_that_computes_draws_what_the_reference_draws() -> None:
    (reference,), (_, first, second) = ranks_of("trainer1", seed=7), ranks_of("ps", "trainer1", "trainer2", seed=7)
    assert [first.seed_of(stream) for stream in (ORDER, DROPOUT)] == [
        reference.seed_of(stream) for stream in (ORDER, DROPOUT)
    ]
    assert second.seed_of(ORDER) != first.seed_of(ORDER)


def test_a_server_keeps_its_streams_however_many_it_serves() -> None:
    places = {
        count: [
            place_of(index, ("agent", *(f"observer{number}" for number in range(count))), ("agent",))
            for index in range(count + 1)
        ]
        for count in (1, 3)
    }
    assert places[1][0] == places[3][0]
    assert places[1][1:] == [0]
    assert places[3][1:] == [0, 1, 2]


def test_streams_are_those_of_numpys_seed_sequence_for_good() -> None:
    """A change of these numbers changes every run: it needs a new number in SEEDING."""
    assert [seed_of(0, WEIGHTS), seed_of(1, ORDER, 3), seed_of(2, DROPOUT, 1, 40)] == [
        2_635_072_618_980_576_772,
        5_328_538_752_027_105_901,
        16_506_377_655_897_487_543,
    ]
