"""A wrong clusters.toml is a sentence that names the file, the cluster, the key and the rule."""

import pytest

from engine.cluster.targets import cluster, clusters, machine_for
from engine.errors import ConfigError, DeviceError, UnknownName
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.system.machine import demand
from tests.jobs.conftest import write_clusters

RIGHT = '[lab]\nshared = "/shared"\ncores = 8\n'


def test_a_home_without_the_file_has_no_clusters(home: Home) -> None:
    assert clusters(home) == {}
    with pytest.raises(ConfigError, match=r"Unknown cluster 'lab': .*clusters\.toml doesn't exist"):
        cluster(home, "lab")
    write_clusters(home, RIGHT)
    with pytest.raises(UnknownName, match="Did you mean 'lab'"):
        cluster(home, "lap")


def test_keys_that_are_not_given_have_their_defaults(home: Home) -> None:
    write_clusters(home, RIGHT)
    found = cluster(home, "lab")
    assert (found.nodes, found.gpus, found.trusted, found.max_jobs, found.partition) == (1, 0, False, 20, None)
    assert str(found.data_folder) == "/shared/data"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[lab", "can't be read as TOML"),
        ('shared = "/x"', "outside of a table"),
        ('[Lab]\nshared = "/s"\ncores = 1', "can't be a cluster's name"),
        ('[lab]\nshared = "/s"', "lacks the key 'cores'"),
        ('[lab]\nshared = "s"\ncores = 1', "shared of cluster lab: must be an absolute path; got 's'"),
        ('[lab]\nshared = "/s/../t"\ncores = 1', "must be an absolute path"),
        (RIGHT + "colour = 1", "cluster lab: Unknown key 'colour'"),
        (RIGHT + "by_hand = true", "cluster lab: by_hand is no longer supported, every cluster needs Slurm"),
        (RIGHT + "nodes = 0", "nodes of cluster lab: should be greater than or equal to 1; got '0'"),
        (RIGHT + 'partition = "a; rm -rf /"', "partition of cluster lab"),
        (RIGHT + 'modules = ["cuda $(id)"]', r"modules\.0 of cluster lab"),
        (RIGHT + 'interface = "a b"', "interface of cluster lab"),
    ],
)
def test_what_is_wrong_is_said(home: Home, text: str, sentence: str) -> None:
    write_clusters(home, text)
    with pytest.raises(ConfigError, match=sentence) as refused:
        clusters(home)
    assert str(home.clusters) in str(refused.value)


def test_a_file_that_others_can_change_is_refused(home: Home) -> None:
    write_clusters(home, RIGHT)
    home.clusters.chmod(0o620)
    with pytest.raises(ConfigError, match="other users can change it"):
        clusters(home)


def test_several_nodes_need_a_cluster_that_has_them_and_is_trusted(home: Home) -> None:
    write_clusters(home, RIGHT + "nodes = 2\n")
    with pytest.raises(ConfigError, match="nodes must be 1 on this machine, got 2"):
        machine_for(home, LaunchOptions(nodes=2))
    with pytest.raises(ConfigError, match="nodes must be from 1 to 2 on cluster lab, got 3"):
        machine_for(home, LaunchOptions(target="lab", nodes=3))
    with pytest.raises(ConfigError, match="not trusted"):
        machine_for(home, LaunchOptions(target="lab", nodes=2))
    write_clusters(home, RIGHT + "nodes = 2\ntrusted = true\n")
    assert machine_for(home, LaunchOptions(target="lab", nodes=2)).cores == 16


@pytest.mark.parametrize("name", ["hogwild", "dppo", "reference"])
def test_systems_that_share_memory_stay_on_one_node(home: Home, name: str) -> None:
    write_clusters(home, RIGHT + "nodes = 2\ntrusted = true\n")
    config = experiment(name).configure("quick")
    assert demand(config, machine_for(home, LaunchOptions(target="lab"))).ranks
    with pytest.raises(ConfigError, match="node"):
        demand(config, machine_for(home, LaunchOptions(target="lab", nodes=2)))


def test_a_run_has_at_least_a_rank_for_each_node(home: Home) -> None:
    write_clusters(home, RIGHT + "nodes = 8\ntrusted = true\n")
    config = experiment("sync_sgd").configure("quick")
    with pytest.raises(ConfigError, match="2 ranks, fewer than 4 nodes"):
        demand(config, machine_for(home, LaunchOptions(target="lab", nodes=4)))


def test_a_cluster_without_gpus_is_named(home: Home) -> None:
    write_clusters(home, RIGHT)
    config = experiment("hogwild").configure("quick", {"device": "cuda"})
    with pytest.raises(DeviceError, match="cluster lab has no GPU"):
        demand(config, machine_for(home, LaunchOptions(target="lab")))


def test_the_network_of_this_machine_does_not_matter_to_a_cluster(home: Home) -> None:
    """The worker on the node refuses a run whose ranks would listen where they must not (engine/cluster/worker.py)."""
    write_clusters(home, RIGHT)
    config = experiment("sync_sgd").configure("quick", {"transport": "rpc"})
    assert demand(config, machine_for(home, LaunchOptions())).listens
    assert not demand(config, machine_for(home, LaunchOptions(target="lab"))).listens


def test_values_of_another_type_are_refused(home: Home) -> None:
    """A word that only looks like a yes must not make a cluster trusted."""
    for line in ('trusted = "yes"', "trusted = 1", 'nodes = "2"', 'gpus = "1"'):
        write_clusters(home, RIGHT + line)
        with pytest.raises(ConfigError, match=f"{line.split()[0]} of cluster lab: should be a valid"):
            clusters(home)


def test_a_misspelt_key_is_shown_right(home: Home) -> None:
    write_clusters(home, RIGHT + 'partitoin = "low"')
    with pytest.raises(ConfigError, match="Did you mean 'partition'"):
        clusters(home)
