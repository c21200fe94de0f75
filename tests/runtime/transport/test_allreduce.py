"""The mean over ranks with real processes: exact, the same for all, and whoever does not come is named."""

import re
from pathlib import Path

import pytest
import torch

from engine.errors import RankFailed
from engine.runtime.transport.allreduce import Collective, Transport, backend_of
from engine.runtime.worker.ranks import Ranks
from tests import allreduce_functions as functions
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.rank_functions import in_each_case

pytestmark = pytest.mark.processes
TRANSPORTS: tuple[Transport, ...] = ("rpc", "gloo", "shared_memory", "torch")
ROLES = ("trainer1", "trainer2", "trainer3")
SIZE, TURNS = 1000, 20


@pytest.fixture
def team(tmp_path: Path) -> Ranks:
    return process_ranks(ROLES, ("cpu",) * 3, 1, 5, tmp_path, MemorySink())


def collective_of(transport: Transport, roles: tuple[str, ...] = ROLES, timeout_s: float = 30) -> Collective:
    return Collective.create(transport, SIZE, roles, timeout_s)


def in_order(turn: int, count: int) -> torch.Tensor:
    """Return the mean, added up in the ranks' order."""
    total = functions.vector_of(0, turn, SIZE)
    for index in range(1, count):
        total = total + functions.vector_of(index, turn, SIZE)
    return total / count


def test_torchs_own_group_meets_in_a_folder_of_any_name_and_leaves_no_file(tmp_path: Path) -> None:
    folder, sums = tmp_path / "100 %?a#b=c%23d", torch.zeros(2).share_memory_()
    folder.mkdir()
    process_ranks(("trainer1", "trainer2"), ("cpu",) * 2, 1, 5, folder, MemorySink()).run(
        functions.add_up_in_torchs_group, sums
    )
    assert sums.tolist() == [3.0, 3.0]
    assert list(tmp_path.iterdir()) == [folder] and list(folder.iterdir()) == [folder / "logs"]


def test_ranks_with_a_gpu_each_use_nccl_and_others_gloo() -> None:
    for devices, backend in (
        (("cuda:0", "cuda:1"), "nccl"),
        (("cuda:0", "cuda:0"), "gloo"),
        (("cpu", "cpu"), "gloo"),
    ):
        assert backend_of(devices) == backend


def test_a_run_may_have_groups_for_vectors_of_several_sizes(team: Ranks) -> None:
    roles = team.context.roles
    collectives = [Collective.create("gloo", size, roles, 60.0) for size in (1_000, 1, 7)]
    results = torch.zeros(len(roles), len(collectives)).share_memory_()
    team.run(functions.average_sizes, collectives, results)
    mean = sum(range(len(roles))) / len(roles)
    assert results.tolist() == [[mean, 10 + mean, 20 + mean]] * len(roles)


def test_all_get_the_same_mean_and_the_last_to_come_waits_for_nobody(team: Ranks) -> None:
    every_result, every_wait = (
        torch.zeros(4, TURNS, 3, SIZE).share_memory_(),
        torch.full((4, TURNS, 3), -1.0).share_memory_(),
    )
    cases = [
        (collective_of(transport), every_result[place], every_wait[place]) for place, transport in enumerate(TRANSPORTS)
    ]
    team.run(in_each_case, functions.average_often, cases)
    for transport, results, waits in zip(TRANSPORTS, every_result, every_wait, strict=True):
        for turn in range(TURNS):
            mean = in_order(turn, 3)
            assert torch.allclose(results[turn, 0], mean, rtol=1e-6, atol=1e-5), transport
            assert transport in ("gloo", "torch") or torch.equal(results[turn, 0], mean), (
                f"{transport}: the star adds in the ranks' order"
            )
            assert torch.equal(results[turn], results[turn, :1].expand(3, SIZE)), transport
            assert float(waits[turn].min()) == 0.0, transport


@pytest.mark.parametrize("transport", ["gloo", "shared_memory"])
def test_threads_of_one_process_average_too(tmp_path: Path, transport: Transport) -> None:
    ranks, results, waits = LocalRanks(ROLES[:2], folder=tmp_path), torch.zeros(TURNS, 2, SIZE), torch.zeros(TURNS, 2)
    ranks.run(functions.average_often, collective_of(transport, ROLES[:2]), results, waits)
    assert torch.allclose(results[-1, 1], in_order(TURNS - 1, 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("transport", "role"),
    [
        ("rpc", "trainer1"),
        ("gloo", "trainer3"),
        ("shared_memory", "trainer3"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in [("rpc", "trainer3"), ("shared_memory", "trainer1")]),
    ],
)
def test_a_dead_rank_is_named_not_those_who_lost_it(team: Ranks, transport: Transport, role: str) -> None:
    with pytest.raises(RankFailed, match=rf"{role} \(rank \d, pid \d+\) was killed by signal 9"):
        team.run(functions.die, collective_of(transport), role)


def test_a_rank_that_ended_too_early_is_named_by_those_who_counted_on_it(team: Ranks) -> None:
    with pytest.raises(RankFailed, match="trainer2 had ended by then: do all ranks take part equally often"):
        team.run(functions.leave, collective_of("gloo"), "trainer2")


@pytest.mark.parametrize(
    ("role", "amid", "transports"),
    [
        ("trainer2", True, ("gloo", "rpc", "shared_memory")),
        pytest.param("trainer3", False, ("gloo", "shared_memory"), marks=pytest.mark.long),
        pytest.param("trainer1", False, ("rpc",), marks=pytest.mark.long),
    ],
)
def test_a_stopped_rank_is_named_by_the_others_in_time(
    team: Ranks, role: str, amid: bool, transports: tuple[Transport, ...]
) -> None:
    with pytest.raises(RankFailed, match="exited with code 7"):
        team.run(functions.stop, [collective_of(transport, timeout_s=8) for transport in transports], role, amid)
    assert isinstance(team.sink, MemorySink)
    for place, transport in enumerate(transports):
        sentences = [sentence for kind, sentence in team.sink.events if kind == transport]
        assert sentences, f"{transport}: nobody said anything"
        expected = rf"{role} did not reach the average of round 2 within 8 s, while others waited. It is stopped\."
        if amid and place == 0:
            expected = (
                rf"(trainer\d and )?{role}( and trainer\d)? did not continue in the average of round 2 within 8 s: it "
                r"is stopped\."
            )
        assert all(re.fullmatch(expected, sentence) for sentence in sentences), sentences
