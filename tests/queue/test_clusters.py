"""The queue of a lab with a cluster: its runs wait for Slurm, and not for this machine."""

from collections.abc import Iterator

import pytest

from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.queue.cluster_wait import in_words
from engine.queue.forecast import outlook, prospect
from engine.store import Demand, Launch, Store
from engine.system.machine import Machine
from tests.labs import clusters, small

HERE = Machine(4, (), "cpu", 8.0)
WHOLE = Demand(4, 0, 4, 1)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    clusters.write(home)
    small.without_a_runner(home)
    with Store.open(home) as store:
        yield store


def add(store: Store, terms: LaunchOptions = clusters.ON_IT) -> int:
    return store.runs.add(Launch("hogwild", {}, "ada", terms=terms, demand=WHOLE))


def reasons(store: Store, home: Home) -> dict[int, str]:
    return {run_id: wait.reason for run_id, wait in outlook(store.read, home, here=HERE).items()}


def test_runs_for_a_cluster_keep_their_place_and_block_no_run_of_this_machine(store: Store, home: Home) -> None:
    first, second, third = add(store), add(store, LaunchOptions()), add(store)
    found = outlook(store.read, home, here=HERE)
    assert list(found) == [first, second, third]
    assert [(found[each].reason, found[each].starts_in_s) for each in found] == [
        ("to be submitted to lab", None),
        ("starts next", 0.0),
        ("to be submitted to lab", None),
    ]
    assert list(outlook(store.read, home, here=HERE, most=1)) == [first]
    assert [store.read.queue.position(each) for each in found] == [0, 0, 1]
    assert [store.read.queue.count(target) for target in (None, "", "lab")] == [3, 1, 2]
    store.queue.hold(third, by="bea")
    assert [store.read.queue.count_held(target) for target in (None, "", "lab")] == [1, 0, 1]
    assert reasons(store, home)[third] == "held by bea"


def test_a_launch_on_this_machine_does_not_wait_for_runs_on_a_cluster(store: Store, home: Home) -> None:
    run_id = add(store)
    clusters.submitted(store, run_id)
    clusters.started(store, run_id)
    add(store)
    found = prospect(store.read, home, Launch("hogwild", {}, "ada", demand=WHOLE), here=HERE)
    assert (found.starts_in_s, found.reason) == (0.0, "")


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("PENDING", "Resources", "waits on lab: Resources (no free nodes)"),
        ("PENDING", "Priority", "waits on lab: Priority (behind other jobs)"),
        ("PENDING", "QOSMaxJobsPerUserLimit", "waits on lab: QOSMaxJobsPerUserLimit"),
        ("PENDING", "", "waits on lab"),
        ("RUNNING", "", "starts on lab"),
        ("SUSPENDED", "", "waits on lab: its job is SUSPENDED"),
    ],
)
def test_a_run_whose_job_waits_says_what_slurm_says(
    store: Store, home: Home, state: str, reason: str, said: str
) -> None:
    run_id = add(store)
    clusters.submitted(store, run_id, state, reason)
    assert reasons(store, home) == {run_id: said}


def test_slurms_reason_with_a_detail_is_explained() -> None:
    said = "ReqNodeNotAvail, UnavailableNodes:n1 (its nodes are down or reserved)"
    assert in_words("ReqNodeNotAvail, UnavailableNodes:n1") == said
