"""Every transport with real processes: what is asked is answered, exactly, by a server whose threads never wait."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from engine.errors import RankFailed
from engine.runtime import fork_server, rpc
from engine.runtime.exchange import Exchange
from engine.runtime.ranks import LocalRanks, Ranks
from engine.runtime.sink import MemorySink
from tests import exchange_functions as functions

TRANSPORTS = ("rpc", "gloo", "shared_memory")
Transport = Literal["rpc", "gloo", "shared_memory"]
SIZE = 1000
Team = Callable[[int], Ranks]


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


@pytest.fixture
def team(tmp_path: Path) -> Team:
    def make(clients: int) -> Ranks:
        roles = ("ps", *(f"trainer{number}" for number in range(1, clients + 1)))
        return Ranks(roles, ("cpu",) * len(roles), 1, 5, tmp_path, MemorySink())

    return make


def sink_of(ranks: Ranks) -> MemorySink:
    assert isinstance(ranks.sink, MemorySink)
    return ranks.sink


def exchange_of(transport: Transport, clients: int, wire: Literal["float32", "bf16"] = "float32") -> Exchange:
    return Exchange.create(transport, SIZE, server=0, server_role="ps", clients=tuple(range(1, clients + 1)), patience_s=30, wire=wire)


@pytest.mark.parametrize("wire", ["float32", "bf16"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_question_is_answered_once_with_a_whole_vector(team: Team, transport: Transport, wire: Literal["float32", "bf16"]) -> None:
    ranks = team(3)
    ranks.run(functions.exchange_sums, exchange_of(transport, 3, wire), functions.ADD, 20)
    assert sink_of(ranks).values("sum", 0) == [20.0 * (1 + 2 + 3)]


@pytest.mark.parametrize("transport", ["rpc", "gloo"])
def test_ranks_meet_in_a_folder_of_any_name_and_leave_no_file(tmp_path: Path, transport: Transport) -> None:
    folder = tmp_path / "100 %?a#b=c%23d"
    folder.mkdir()
    Ranks(("ps", "trainer1"), ("cpu",) * 2, 1, 5, folder, MemorySink()).run(functions.exchange_sums, exchange_of(transport, 1), functions.ADD, 1)
    assert list(tmp_path.iterdir()) == [folder] and list(folder.iterdir()) == [folder / "logs"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_more_clients_may_wait_than_rpc_has_threads(team: Team, transport: Transport) -> None:
    clients = rpc.THREADS + 3
    ranks = team(clients)
    ranks.run(functions.exchange_sums, exchange_of(transport, clients), functions.TOGETHER, 5)
    assert sink_of(ranks).values("sum", 0) == [5.0 * sum(range(1, clients + 1))]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_may_ask_itself(tmp_path: Path, transport: Transport) -> None:
    roles = ("trainer1", "trainer2")
    exchange = Exchange.create(transport, SIZE, server=0, server_role="trainer1", clients=(0, 1), patience_s=30)
    Ranks(roles, ("cpu", "cpu"), 1, 5, tmp_path, MemorySink()).run(functions.serve_and_ask, exchange)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dead_server_is_named_not_those_who_lost_it(team: Team, transport: Transport) -> None:
    with pytest.raises(RankFailed, match=r"ps \(rank 0, pid \d+\) was killed by signal 9"):
        team(3).run(functions.die_while_others_wait, exchange_of(transport, 3), 0)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dead_client_is_named(team: Team, transport: Transport) -> None:
    with pytest.raises(RankFailed, match=r"trainer2 \(rank 2, pid \d+\) was killed by signal 9"):
        team(3).run(functions.die_while_others_wait, exchange_of(transport, 3), 2)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_handler_raises_is_the_failure_that_counts(team: Team, transport: Transport) -> None:
    with pytest.raises(RankFailed, match="ps raised ValueError: seven is not eight"):
        team(2).run(functions.fail_in_the_handler, exchange_of(transport, 2))


@pytest.mark.parametrize("transport", ["gloo", "shared_memory"])
def test_threads_of_one_process_may_exchange_too(tmp_path: Path, transport: Transport) -> None:
    ranks = LocalRanks(("ps", "trainer1", "trainer2"), folder=tmp_path)
    ranks.run(functions.exchange_sums, exchange_of(transport, 2), functions.TOGETHER, 5)
    assert ranks.recorders["ps"].values("sum") == [15.0]


def test_a_deep_folder_takes_a_bell_too(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    ranks = LocalRanks(("ps", "trainer1"), folder=folder)
    ranks.run(functions.exchange_sums, exchange_of("shared_memory", 1), functions.ADD, 3)
    assert ranks.recorders["ps"].values("sum") == [3.0]
