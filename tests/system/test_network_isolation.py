"""No other user of the machine reaches what ranks listen on, and no rank listens where others could."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RunFailed
from engine.home import ROOT
from engine.runtime.rank import fork_server
from engine.runtime.worker.ranks import Ranks, StopRequested
from engine.system import network_isolation
from engine.system.network_isolation import STAYED_OUTSIDE, ListenRule, Network, network_id, rule_of
from tests import isolation_functions as functions
from tests.doubles import MemorySink, process_ranks

pytestmark = pytest.mark.processes
KINDS = ("rpc", "ring", "group")
"""What ranks listen with: RPC, gloo round all, torch's own group."""
ROLES = ("ps", "trainer1")
NOT_ON_A_NETWORK = {
    "engine/system/network_isolation.py",
    "engine/runtime/transport/shared_memory.py",
    "engine/store/access/authorization.py",
    "engine/runtime/command/start.py",
}
"""Modules whose words look alike: a probe of loopback, a Unix socket in a folder of its owner's, a signature, a socket
that only finds a free port.
"""
BETWEEN_NODES = {
    "engine/cluster/worker.py",
    "engine/cluster/probe.py",
    "engine/runtime/transport/rendezvous.py",
}
"""The worker of a run over several nodes, and the doctor's job: on the interface of a cluster that its admin trusts
(tests/cluster/test_separate_nodes.py).
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="Only root can act as another user.")


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    fork_server.start()


def ranks_in(folder: Path) -> tuple[Ranks, MemorySink]:
    sink = MemorySink()
    return process_ranks(ROLES, ("cpu", "cpu"), 1, 0, folder, sink), sink


@pytest.fixture(scope="module")
def without_namespaces() -> Any:
    """What tests/without_namespaces.py prints where the kernel makes no network namespace for anybody."""
    script = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-m",
        "tests.without_namespaces",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@as_root
@pytest.mark.parametrize("kind", KINDS)
def test_another_user_of_the_machine_reaches_no_listener_of_a_rank(tmp_path: Path, kind: str) -> None:
    ranks, sink = ranks_in(tmp_path)
    ports: list[int] = []
    answers: list[str] = []

    def attack_once_all_listen() -> bool:
        if sink.startup_time_s is None:
            return False
        for member in ranks.members:
            found, names = functions.listeners(member.pid)
            ports.extend(found)
            if (
                kind == "rpc"
                # it takes calls at its newest listener; where others get something else than they expect, the rank
                # aborts
            ):
                answers.append(functions.as_nobody(functions.user_of, found[-1], member.role))
            answers.append(functions.as_nobody(functions.reached, found, names))
        return True

    ranks.stop_requested = attack_once_all_listen
    with pytest.raises(StopRequested):
        ranks.run(functions.listen, kind, functions.given_to(kind, ROLES))
    assert ports, "the ranks listen nowhere, so this test attacks nothing"
    assert {"refused" if "connection refused" in answer else answer for answer in answers} <= {
        "refused",
        "reached nothing",
    }


@as_root
def test_an_ordinary_user_gets_a_namespace_too() -> None:
    def attempt() -> str:
        before = network_id()
        return network_isolation.isolate() or ("a new one" if network_id() != before else "the same one")

    assert functions.as_nobody(attempt) == "a new one"


def test_a_rank_that_is_not_in_its_namespace_may_not_listen() -> None:
    network_isolation.obey(rule_of(Network("namespace", network_id(), os.getpid()), ""))
    try:
        with pytest.raises(RunFailed, match="outside its run's network namespace"):
            network_isolation.check_listening()
    finally:
        network_isolation.obey(ListenRule())


def test_the_machines_network_is_allowed_unless_refused_and_a_containers_always() -> None:
    assert rule_of(Network("host", 1, 2), "") == rule_of(Network("container", 1, 2), "no") == ListenRule()
    assert rule_of(Network("host", 1, 2), "no") == ListenRule(1, "no")
    assert rule_of(Network("namespace", 1, 2), "") == ListenRule(1, STAYED_OUTSIDE)


def test_where_no_namespace_can_be_made_it_is_said_why_and_nothing_changes(without_namespaces: Any) -> None:
    assert without_namespaces["why"].startswith("OSError") and "No space left" in without_namespaces["why"]
    assert without_namespaces["same network"] is True
    assert without_namespaces["machine"] == without_namespaces["ranks"] == "host"
    doctor = without_namespaces["doctor"]
    assert doctor["state"] == "warn" and "No space left" in doctor["sentence"]
    assert "max_net_namespaces" in doctor["cure"] and "limits set --host-network yes" in doctor["cure"]


@pytest.mark.parametrize("kind", KINDS)
def test_where_no_namespace_can_be_made_ranks_listen_only_if_they_may(without_namespaces: Any, kind: str) -> None:
    assert without_namespaces["refused"][kind] == "No, they may not."
    assert without_namespaces["allowed"][kind] == ""


def test_every_module_that_opens_a_listener_asks_first() -> None:
    openers = re.compile(
        r"\b(init_rpc|init_process_group|ProcessGroup[A-Z]\w+|TCPStore|create_server|Listener)\(|\.listen\(|\.bind\("
    )
    found = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "engine").rglob("*.py")}
    opening = {name for name, text in found.items() if openers.search(text)} - NOT_ON_A_NETWORK - BETWEEN_NODES
    transports = ("rpc", "allreduce")
    assert opening == {f"engine/runtime/transport/{name}.py" for name in transports}
    assert all(found[name].count(" check_listening()") == len(openers.findall(found[name])) for name in opening)
