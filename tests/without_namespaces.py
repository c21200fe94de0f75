"""What a worker does on a machine that makes no network namespaces; run by
tests/system/test_network_isolation.py in such an environment."""

import json
import tempfile
from pathlib import Path

from engine.doctor.machine import network
from engine.errors import RankFailed
from engine.home import Home
from engine.runtime.rank import fork_server
from engine.system import network_isolation
from tests import isolation_functions as functions
from tests.doubles import MemorySink, process_ranks

KINDS = ("rpc", "ring", "group")
ROLES = ("ps", "trainer1")


def tried(kind: str, refused: str) -> str:
    """Let ranks open listeners of one kind, which may be refused; return why they failed, if they did."""
    ranks = process_ranks(
        ROLES, ("cpu", "cpu"), 1, 0, Path(tempfile.mkdtemp()), MemorySink(), host_network_refused=refused
    )
    try:
        ranks.run(functions.try_to_listen, kind, functions.given_to(kind, ROLES))
    except RankFailed as failure:
        return str(failure)
    return ""


if __name__ == "__main__":
    before = network_isolation.network_id()
    why = network_isolation.isolate()
    fork_server.start()
    found = {
        "why": why,
        "same network": network_isolation.network_id() == before,
        "machine": network_isolation.machine_level()[0],
        "doctor": vars(network(Home(Path(tempfile.mkdtemp())))),
        "ranks": fork_server.network().level,
        "refused": {kind: tried(kind, "No, they may not.") for kind in KINDS},
        "allowed": {kind: tried(kind, "") for kind in KINDS},
    }
    print(json.dumps(found))
