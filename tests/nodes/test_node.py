"""Ranks of one run under the worker and under an agent in another process, on one machine."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import psutil
import pytest
import torch

from engine.cluster import worker
from engine.errors import RankFailed
from engine.hang.watch import HangLimits
from engine.home import ROOT
from engine.runtime.nodes.agent import connect
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.transport.allreduce import Collective
from engine.runtime.transport.rendezvous import meeting_point
from engine.runtime.worker.job_folder import JobFolder
from engine.runtime.worker.ranks import Ranks
from tests.doubles import MemorySink, process_ranks
from tests.nodes import node_functions as functions
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
KEY = b"0123456789abcdef"


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """Start an agent that waits for its worker."""
    with Listener(("127.0.0.1", 0), authkey=KEY) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nodes.agent_process", str(listener.address[1]), KEY.hex(), "n2"], cwd=ROOT
        )
        process.link = listener.accept()  # type: ignore[attr-defined]
        yield process
    process.kill()
    process.wait()


@pytest.fixture
def node(agent: subprocess.Popen[bytes]) -> Iterator[Node]:
    link = agent.link  # type: ignore[attr-defined]
    made = Node(link.recv(), link)
    yield made
    made.close()


@pytest.fixture
def roles() -> tuple[str, ...]:
    return "trainer1", "trainer2"


@pytest.fixture
def ranks(node: Node, roles: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    """Give ranks of which the last one is on the other node."""
    monkeypatch.setenv(fork_server.SPREAD, "over several nodes")
    with meeting_point("127.0.0.1") as meeting:
        yield process_ranks(
            roles,
            ("cpu",) * len(roles),
            1,
            0,
            tmp_path,
            MemorySink(),
            "spawn",  # a fork server of earlier tests has left this network
            nodes=(node,),
            meeting_point=meeting,
        )


def sink_of(ranks: Ranks) -> MemorySink:
    assert isinstance(ranks.sink, MemorySink)
    return ranks.sink


@pytest.mark.parametrize("roles", [("trainer1", "trainer2", "trainer3")])
def test_ranks_on_two_nodes_average_over_either_transport_and_see_each_others_flags(
    ranks: Ranks, roles: tuple[str, ...]
) -> None:
    flags = torch.zeros(3, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
    transports = [Collective.create(transport, 4, roles, 60.0) for transport in ("gloo", "rpc")]
    ranks.run(functions.average_and_set_flags, transports, flags, 5)
    sink = sink_of(ranks)
    assert all(sink.values("train/loss", rank) == [2.0, 3.0, 4.0, 5.0, 6.0] * 2 + [6.0] for rank in range(3))
    assert all(value >= 0 for rank in range(3) for value in sink.values("perf/waited", rank))
    assert {row.state for row in sink.rows.values()} == {"done"}
    assert {*sink.phases()} == {0, 1, 2}
    assert ranks.execution_time_s is not None and ranks.execution_time_s > 0


def test_a_dead_rank_on_another_node_is_named_and_the_others_end(ranks: Ranks) -> None:
    with pytest.raises(RankFailed, match=r"trainer2 \(rank 1, pid \d+\) on node n2 was killed by signal 9") as failed:
        ranks.run(functions.die_alone, 1)
    assert failed.value
    assert all(not psutil.pid_exists(member.pid) for member in ranks.members)


def test_a_dead_rank_here_ends_those_on_the_other_node(ranks: Ranks) -> None:
    with pytest.raises(RankFailed, match="trainer1"):
        ranks.run(functions.die_alone, 0)
    assert all(not psutil.pid_exists(member.pid) for member in ranks.members)


def test_a_lost_agent_loses_its_ranks(ranks: Ranks, agent: subprocess.Popen[bytes]) -> None:
    def kill(kind: str, detail: str) -> None:
        return None

    sink_of(ranks).event = kill  # type: ignore[method-assign]
    running = sink_of(ranks).running

    def running_now(startup_time_s: float) -> None:
        running(startup_time_s)
        os.kill(agent.pid, signal.SIGKILL)

    sink_of(ranks).running = running_now  # type: ignore[method-assign]
    with pytest.raises(RankFailed, match=r"trainer2 .* was on node n2, which is lost"):
        ranks.run(functions.hang, 1)
    wait_until(lambda: all(not psutil.pid_exists(member.pid) for member in ranks.members), "no rank is left")


def test_the_hang_doctor_sees_ranks_on_another_node(ranks: Ranks) -> None:
    ranks.context = replace(ranks.context, hang_limits=HangLimits(quiet_s=1.0, between_s=0.2), end_when_hung=True)
    with pytest.raises(RankFailed, match="trainer2"):
        ranks.run(functions.hang, 1)
    assert sink_of(ranks).healths[-1].verdict.rank == "trainer2"
    stacks = (ranks.context.folder / "hang" / "trainer2.txt").read_text()
    assert "node_functions.py" in stacks


def test_a_program_without_the_key_is_refused() -> None:
    with Listener(("127.0.0.1", 0), authkey=KEY) as listener:
        program = (
            "import sys; from multiprocessing.connection import Client; "
            "Client(('127.0.0.1', int(sys.argv[1])), authkey=b'wrong')"
        )
        command = [sys.executable, "-c", program, str(listener.address[1])]
        stranger = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        with pytest.raises((AuthenticationError, EOFError)):
            listener.accept()
        assert stranger.wait() != 0


@pytest.mark.parametrize("strangers", [1, worker.MOST_HANDSHAKES + 5])
def test_programs_that_connect_and_say_nothing_keep_no_agent_waiting(
    strangers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshakes came one after the other, without a deadline."""
    agents = subprocess.Popen(["sleep", "600"])
    monkeypatch.setattr(worker, "_start_agents", lambda folder, count: agents)
    monkeypatch.setattr(worker, "_other_node", lambda: "n2")
    monkeypatch.setattr(worker, "slurm_address", lambda node: "127.0.0.1")
    monkeypatch.setattr(worker, "CONNECT_S", 20.0)
    folder, links = JobFolder(tmp_path), list[socket.socket | Connection]()

    def come() -> None:
        wait_until(lambda: folder.link() is not None, "the worker tells its address")
        found = folder.link()
        assert found
        for _ in range(strangers):
            links.append(socket.create_connection((found.host, found.port)))
        links.append(connect(found.host, found.port, bytes.fromhex(found.key)))
        links[-1].send("n2")  # type: ignore[arg-type]

    coming = threading.Thread(target=come, daemon=True)
    coming.start()
    with worker.further_nodes(folder, 1, "") as found:
        assert [node.name for node in found.nodes] == ["n2"]
        agents.terminate()
    for link in links:
        link.close()
    coming.join()


def test_a_stranger_that_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HANDSHAKE_S", 0.1)
    monkeypatch.setattr(worker, "CONNECT_S", 20.0)
    with socket.create_server(("127.0.0.1", 0)) as listener, subprocess.Popen(["sleep", "600"]) as agents:
        stranger = socket.create_connection(listener.getsockname())
        stranger.settimeout(20.0)

        def watch() -> None:
            while stranger.recv(1000):
                pass
            agent = connect("127.0.0.1", listener.getsockname()[1], KEY)
            agent.send("n2")

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        (node,) = worker._connected(listener, KEY, agents, 1)
        agents.terminate()
        node.close()
        watching.join()
        stranger.close()
