"""The mean over ranks with real processes: exact, the same for all, and whoever does not come is named."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch

from engine.errors import RankFailed
from engine.runtime import fork_server
from engine.runtime.collective import Collective
from engine.runtime.ranks import LocalRanks, Ranks
from engine.runtime.sink import MemorySink
from tests import collective_functions as functions

Transport = Literal["rpc", "gloo", "shared_memory"]
TRANSPORTS: tuple[Transport, ...] = ("rpc", "gloo", "shared_memory")
SIZE, TURNS = 1000, 20
Team = Callable[[int], Ranks]


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


@pytest.fixture
def team(tmp_path: Path) -> Team:
    def make(count: int) -> Ranks:
        roles = tuple(f"trainer{number}" for number in range(1, count + 1))
        return Ranks(roles, ("cpu",) * count, 1, 5, tmp_path, MemorySink())

    return make


def collective_of(transport: Transport, ranks: Ranks | LocalRanks, timeout_s: float = 30) -> Collective:
    return Collective.create(transport, SIZE, tuple(ranks.roles), timeout_s)


def in_order(turn: int, count: int) -> torch.Tensor:
    """Return the mean, added up in the ranks' order."""
    total = functions.vector_of(0, turn, SIZE)
    for index in range(1, count):
        total = total + functions.vector_of(index, turn, SIZE)
    return total / count


def test_torchs_own_group_meets_in_a_folder_of_any_name_and_leaves_no_file(tmp_path: Path) -> None:
    folder, sums = tmp_path / "100 %?a#b=c%23d", torch.zeros(2).share_memory_()
    folder.mkdir()
    Ranks(("trainer1", "trainer2"), ("cpu",) * 2, 1, 5, folder, MemorySink()).run(functions.add_up_in_torchs_group, sums)
    assert sums.tolist() == [3.0, 3.0]
    assert list(tmp_path.iterdir()) == [folder] and list(folder.iterdir()) == [folder / "logs"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_get_the_same_mean_and_the_last_to_come_waits_for_nobody(team: Team, transport: Transport) -> None:
    ranks, results, waits = team(3), torch.zeros(TURNS, 3, SIZE).share_memory_(), torch.full((TURNS, 3), -1.0).share_memory_()
    ranks.run(functions.average_often, collective_of(transport, ranks), results, waits)
    for turn in range(TURNS):
        mean = in_order(turn, 3)
        assert torch.allclose(results[turn, 0], mean, rtol=1e-6, atol=1e-5)
        assert transport == "gloo" or torch.equal(results[turn, 0], mean), "the star adds in the ranks' order"
        assert torch.equal(results[turn], results[turn, :1].expand(3, SIZE))
        assert float(waits[turn].min()) == 0.0


@pytest.mark.parametrize("transport", ["gloo", "shared_memory"])
def test_threads_of_one_process_average_too(tmp_path: Path, transport: Transport) -> None:
    ranks, results, waits = LocalRanks(("trainer1", "trainer2"), folder=tmp_path), torch.zeros(TURNS, 2, SIZE), torch.zeros(TURNS, 2)
    ranks.run(functions.average_often, collective_of(transport, ranks), results, waits)
    assert torch.allclose(results[-1, 1], in_order(TURNS - 1, 2), rtol=1e-6)


@pytest.mark.parametrize(("transport", "role"), [("rpc", "trainer3"), ("rpc", "trainer1"), ("gloo", "trainer3"), ("shared_memory", "trainer1")])
def test_a_dead_rank_is_named_not_those_who_lost_it(team: Team, transport: Transport, role: str) -> None:
    ranks = team(3)
    with pytest.raises(RankFailed, match=rf"{role} \(rank \d, pid \d+\) was killed by signal 9"):
        ranks.run(functions.fall, collective_of(transport, ranks), role, signal.SIGKILL)


@pytest.mark.parametrize(("transport", "role"), [("rpc", "trainer1"), ("gloo", "trainer3"), ("shared_memory", "trainer3")])
def test_a_stopped_rank_is_named_by_the_others_in_time(team: Team, transport: Transport, role: str) -> None:
    ranks = team(3)
    with pytest.raises(RankFailed, match=rf"^{role} did not come to the average of round 3 within 8 s, while others waited. It is stopped\.$"):
        ranks.run(functions.fall, collective_of(transport, ranks, timeout_s=8), role, signal.SIGSTOP)


def test_a_rank_stopped_in_the_middle_of_an_average_is_named(team: Team) -> None:
    ranks = team(3)
    with pytest.raises(RankFailed, match=r"^trainer2 did not go on in the average of round 1 within 8 s: it is stopped\.$"):
        ranks.run(functions.stop_amid, collective_of("gloo", ranks, timeout_s=8), "trainer2")
