"""Every transport with real processes: what is asked is answered, exactly, by a server whose threads never wait."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from engine.errors import RankFailed
from engine.recorder import MemoryRecorder
from engine.runtime.transport import rpc
from engine.runtime.transport.request_reply import Exchange, Service
from tests import request_reply_functions as functions
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.rank_functions import in_each_case

pytestmark = pytest.mark.processes
TRANSPORTS = ("rpc", "shared_memory")
Transport = Literal["rpc", "shared_memory"]
Wire = Literal["float32", "bf16"]
SIZE = 1000


def exchange_of(
    transport: Transport, clients: int, wire: Wire = "float32", server_role: str = "ps", first: int = 1
) -> Exchange:
    return Exchange.create(
        transport,
        SIZE,
        server=0,
        server_role=server_role,
        clients=tuple(range(first, clients + 1)),
        patience_s=30,
        wire=wire,
    )


def run(folder: Path, clients: int, function: Callable[..., None], *given: Any) -> list[float]:
    """Run a server and so many clients; return the sums that the server recorded."""
    sink, roles = MemorySink(), ("ps", *(f"trainer{number}" for number in range(1, clients + 1)))
    process_ranks(roles, ("cpu",) * len(roles), 1, 5, folder, sink).run(function, *given)
    return sink.values("sum", 0)


def test_every_question_is_answered_once_with_a_whole_vector(tmp_path: Path) -> None:
    cases = [
        (exchange_of(transport, 3, wire), functions.ADD, 20)
        for transport, wire in product(TRANSPORTS, ("float32", "bf16"))
    ]
    assert run(tmp_path, 3, in_each_case, functions.exchange_sums, cases) == [20.0 * (1 + 2 + 3)] * 4


def test_ranks_meet_in_a_folder_of_any_name_and_leave_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "100 %?a#b=c%23d"
    folder.mkdir()
    assert run(folder, 1, functions.exchange_sums, exchange_of("rpc", 1), functions.ADD, 1) == [1.0]
    assert list(tmp_path.iterdir()) == [folder] and list(folder.iterdir()) == [folder / "logs"]


def test_more_clients_may_wait_than_rpc_has_threads(tmp_path: Path) -> None:
    clients = rpc.THREADS + 3
    cases = [(exchange_of(transport, clients), functions.TOGETHER, 5) for transport in TRANSPORTS]
    assert (
        run(tmp_path, clients, in_each_case, functions.exchange_sums, cases) == [5.0 * sum(range(1, clients + 1))] * 2
    )


@pytest.mark.parametrize(("size", "threads"), [(rpc.SMALL, 1), (rpc.SMALL + 1, 2)])
def test_handler_threads_of_rpc_keep_their_python_state(tmp_path: Path, size: int, threads: int) -> None:
    sink = MemorySink()
    exchange = Exchange.create("rpc", size, server=0, server_role="ps", clients=(1,), patience_s=30)
    process_ranks(("ps", "trainer1"), ("cpu",) * 2, 1, 5, tmp_path, sink).run(
        functions.count_in_handler_threads, exchange, 40
    )
    assert sink.values("sum", 1)[0] >= 40 / threads


def test_a_server_may_ask_itself(tmp_path: Path) -> None:
    cases = [(exchange_of(transport, 1, server_role="ps", first=0),) for transport in TRANSPORTS]
    run(tmp_path, 1, in_each_case, functions.serve_and_ask, cases)


LONG = pytest.mark.long


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dead_server_is_named_not_those_who_lost_it(tmp_path: Path, transport: Transport) -> None:
    with pytest.raises(RankFailed, match=r"ps \(rank 0, pid \d+\) was killed by signal 9"):
        run(tmp_path, 3, functions.die_while_others_wait, exchange_of(transport, 3), 0)


@pytest.mark.parametrize("transport", [pytest.param("rpc", marks=LONG), "shared_memory"])
def test_a_dead_client_is_named(tmp_path: Path, transport: Transport) -> None:
    with pytest.raises(RankFailed, match=r"trainer2 \(rank 2, pid \d+\) was killed by signal 9"):
        run(tmp_path, 3, functions.die_while_others_wait, exchange_of(transport, 3), 2)


@pytest.mark.parametrize("transport", ["rpc", "shared_memory"])
def test_what_a_handler_raises_is_the_failure_that_counts(tmp_path: Path, transport: Transport) -> None:
    with pytest.raises(RankFailed, match="ps raised ValueError: seven is not eight"):
        run(tmp_path, 2, functions.fail_in_the_handler, exchange_of(transport, 2))


def test_threads_of_one_process_may_exchange_too(tmp_path: Path) -> None:
    """In a folder so deep that a bell's address would not hold its path."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    ranks = LocalRanks(("ps", "trainer1", "trainer2"), folder=folder)
    ranks.run(functions.exchange_sums, exchange_of("shared_memory", 2), functions.TOGETHER, 5)
    assert ranks.recorders["ps"].values("sum") == [15.0]


@pytest.mark.parametrize(("device", "named"), [("cpu", None), ("cuda:1", [torch.device("cuda:1")])])
def test_an_answer_from_a_gpu_names_it_to_torch(
    device: str, named: list[torch.device] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else torch refuses the answer: a future holds tensors only of the devices that it was made with."""
    made: list[Any] = []
    monkeypatch.setattr(rpc, "Future", lambda *, devices: made.append(devices))
    exchange = Exchange.create("rpc", SIZE, server=0, server_role="ps", clients=(1,), server_device=device)
    rpc._Served(Service(lambda *given: None, MemoryRecorder()), exchange).future()
    assert made == [named]
