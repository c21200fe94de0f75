"""The machine that a run is for: this one, or nodes of a cluster. Torch-free."""

from dataclasses import replace

from engine.cluster.targets import cluster
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.system.machine import Machine, machine


def machine_for(home: Home, terms: LaunchOptions) -> Machine:
    """Return the resources that a run with these options may have; raises UnknownName for an unknown cluster,
    ConfigError for an invalid `clusters.toml` or number of nodes.
    """
    if not terms.target:
        if terms.nodes != 1:
            _refuse_nodes(f"nodes must be 1 on this machine, got {terms.nodes}. Choose a cluster with --on.")
        return machine()
    found = cluster(home, terms.target)
    if not 1 <= terms.nodes <= found.nodes:
        _refuse_nodes(f"nodes must be from 1 to {found.nodes} on cluster {found.name}, got {terms.nodes}.")
    if terms.nodes > 1 and not found.trusted:
        _refuse_nodes(
            f"Ranks on several nodes talk without authentication, and cluster {found.name} is not trusted for that: "
            "whoever reaches the nodes' network could run commands as the runner's user. Choose 1 node, or ask an "
            "admin to set trusted = true in clusters.toml."
        )
    one = found.machine
    return replace(one, cores=one.cores * terms.nodes, gpus=one.gpus * terms.nodes, nodes=terms.nodes)


def _refuse_nodes(sentence: str) -> None:
    raise ConfigError([Problem("nodes", sentence)])
