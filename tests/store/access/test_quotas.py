"""What people hold is counted, and a launch past a limit is refused inside its own transaction, however it comes."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.access.quotas import Limits, disturbed_above, limits, set_limits
from engine.access.rules import Program
from engine.commands.lab_settings import change_limits
from engine.errors import ConfigError, Forbidden, LimitReached
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.store import Demand, Launch, ProcessIdentity, Reader, Store, StrategyLaunch, SweepLaunch
from engine.store.access.authorization import Entry

WORKER = ProcessIdentity("boot", 4242, 77)
SIZE = Demand(2, 1, 2, 1)
TEXTS = len('{"trainers": 2}{}')
"""Bytes of the config and environment of a run that waits."""
NEW = [Launch("hogwild", {"seed": seed, "learning_rate": 0.1}, name=f"seed {seed}", demand=SIZE) for seed in range(3)]
LAUNCH = """
from engine.errors import LimitReached
from engine.store import Demand
with Store.open(home) as store:
    wait()
    queued = 0
    for _ in range(20):
        try:
            store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
            queued += 1
        except LimitReached:
            pass
print(queued)
"""


def newest(reader: Reader) -> Entry:
    return reader.audit.entries(limit=1)[0]


def test_what_people_hold_is_counted_by_person(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, *_ = add(), add(), add(owner="grace")
    assert store.claims.claim(first, WORKER, ())
    store.disk.note([(run, 1_000) for run in store.disk.unmeasured(10)])
    held = {each.person: each for each in reader.quotas.all_held()}
    assert (held["ada"].running, held["ada"].queued, held["ada"].cores, held["ada"].gpus, held["ada"].disk_bytes) == (
        1,
        1,
        2,
        0,
        2_000 + 2 * TEXTS,
    )
    assert (held["grace"].running, held["grace"].queued, held["grace"].cores) == (0, 1, 0)
    assert reader.quotas.held("ada") == held["ada"] and reader.quotas.held("nobody").queued == 0


def test_a_sweep_counts_all_its_runs(store: Store, home: Home) -> None:
    set_limits(home, Limits(max_queued_per_person=2))
    with pytest.raises(LimitReached, match=r"Quota of ada: 0 of 2 queued runs; 3 more can't"):
        GIVEN["launch sweep"](store)
    set_limits(home, Limits(max_queued_per_person=3))
    assert GIVEN["launch sweep"](store), "as many as the limit are no more than it"
    set_limits(home, Limits(max_queued_per_person=5))
    with pytest.raises(LimitReached, match=r"Quota of ada: 3 of 5 queued runs; 3 more can't"):
        GIVEN["launch sweep"](store)


GIVEN: dict[str, Callable[[Store], object]] = {
    "launch": lambda store: store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE)),
    "launch sweep": lambda store: store.sweeps.add(SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [0, 1, 2]}), NEW),
    "launch duel": lambda store: store.duels.add(
        {}, [StrategyLaunch(0, "one", replace(run, owner="ada")) for run in NEW], owner="ada", name="", exclusive=False
    ),
    "retry": lambda store: store.runs.add(Launch("hogwild", {}, "ada", parent_id=1, resumes=False, demand=SIZE)),
    "extend sweep": lambda store: store.sweeps.extend(1, {"seed": [9]}, {"seed": [9, 0, 1, 2]}, NEW, by="ada"),
    "retry sweep": lambda store: store.sweeps.retry(1, by="ada"),
}
"""Every command that queues runs."""


@pytest.fixture
def full(store: Store, home: Home) -> Store:
    """Give a store in which ada has a failed run of a sweep, and as many queued as she may."""
    store.sweeps.add(
        SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [9]}),
        [Launch("hogwild", {"seed": 9, "learning_rate": 0.1}, name="nine", demand=SIZE)],
    )
    store.db.connection.execute("UPDATE runs SET status = 'failed', ended_at = created_at")
    for _ in range(2):
        store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    set_limits(home, Limits(max_queued_per_person=2))
    return store


@pytest.mark.parametrize("name", GIVEN)
def test_no_command_queues_more_than_a_person_may_have_until_an_admin_gives_more(
    full: Store, reader: Reader, name: str, home: Home
) -> None:
    with pytest.raises(
        LimitReached, match=r"Quota of ada: 2 of 2 queued runs; (another one|3 more) can't be queued\. Wait until"
    ):
        GIVEN[name](full)
    assert reader.runs.count() == 3
    assert (newest(reader).command, newest(reader).who) == (name, "ada") and "2 of 2 queued runs" in newest(
        reader
    ).refused
    set_limits(home, Limits(max_queued_per_person=2, people={"ada": {"max_queued_per_person": None}}))
    assert GIVEN[name](full)


@pytest.mark.processes
def test_two_who_launch_at_once_do_not_pass_the_limit_together(
    home: Home, store: Store, reader: Reader, program: Callable[..., Any]
) -> None:
    set_limits(home, Limits(max_queued_per_person=7))
    started = [program(LAUNCH, home.path) for _ in range(3)]
    for each in started:
        assert each.line() == "ready"
    for each in started:
        each.go()
    assert sum(int(each.rest()) for each in started) == 7
    assert reader.quotas.held("ada").queued == 7


def test_a_time_limit_is_given_cut_or_refused(store: Store, home: Home, reader: Reader) -> None:
    set_limits(home, Limits(max_run_time_s=3_600))
    plain = store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    short = store.runs.add(Launch("hogwild", {}, "ada", terms=LaunchOptions(max_run_time_s=60), demand=SIZE))
    assert [reader.runs.one(run_id).terms.max_run_time_s for run_id in (plain, short)] == [3_600, 60]
    with pytest.raises(
        LimitReached,
        match=(
            r"Time limit must be at most 3,600 s \(quota of ada\); got 7,200 s\. Lower it, or ask "
            r"an admin"
        ),
    ):
        store.runs.add(Launch("hogwild", {}, "ada", terms=LaunchOptions(max_run_time_s=7_200), demand=SIZE))
    again = store.runs.add(
        Launch("hogwild", {}, "ada", terms=LaunchOptions(max_run_time_s=7_200), parent_id=plain, demand=SIZE)
    )
    assert reader.runs.one(again).terms.max_run_time_s == 3_600  # what repeats an older run keeps to today's limit


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            Limits(max_cores_per_person=1),
            r"needs 2 CPU cores but the quota of ada is 1, so it would never start\. Choose fewer ranks",
        ),
        (
            Limits(max_gpus_per_person=0),
            r"needs 1 GPUs but the quota of ada is 0, so it would never start\. Choose device cpu",
        ),
    ],
)
def test_a_run_that_could_never_start_is_refused(store: Store, home: Home, limits: Limits, sentence: str) -> None:
    set_limits(home, limits)
    with pytest.raises(LimitReached, match=sentence):
        store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))


def test_who_fills_the_disk_launches_no_more(store: Store, home: Home, running: Callable[..., int]) -> None:
    run_id = running()
    set_limits(home, Limits(max_disk_gb=0.5))
    store.disk.note([(run, 499_999_900) for run in store.disk.unmeasured(10)])
    second = store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    store.db.touch(run_id)
    store.disk.note([(run, 250_000_000) for run in store.disk.unmeasured(10)])
    with pytest.raises(LimitReached, match=r"Disk quota of ada exceeded: 500\.0 MB of 500\.0 MB used\. Ask an admin"):
        store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    store.runs.add(Launch("hogwild", {}, "grace", demand=SIZE))
    assert second


def test_a_person_past_a_limit_launches_no_more_but_parts_of_parallab_do(full: Store, store: Store, home: Home) -> None:
    assert full.runs.add(Launch("hogwild", {}, Program("runner"), demand=SIZE))
    home.limits.write_text("{")
    with pytest.raises(ConfigError, match="limits set --running 4"):
        store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    home.limits.write_text(json.dumps({"max_running_per_person": 3}))  # as an older version wrote it
    assert store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))


def test_a_lab_with_accounts_refuses_runs_that_listen_on_the_machines_network_until_an_admin_allows_it(
    store: Store, home: Home
) -> None:
    listening = replace(SIZE, listens=True)
    store.runner.register(ProcessIdentity("boot", 4243, 78), cores=4, gpus=1, network="host")
    store.runs.add(Launch("hogwild", {}, "ada", demand=listening))  # a lab without accounts is one person's machine
    store.people.add("ada", "admin", by="ada")
    with pytest.raises(LimitReached, match=r"transport shared_memory .* limits set --host-network yes"):
        store.runs.add(Launch("hogwild", {}, "ada", demand=listening))
    with pytest.raises(LimitReached):
        store.sweeps.add(
            SweepLaunch(Launch("hogwild", {}, "ada"), {}), [Launch("hogwild", {}, name="one", demand=listening)]
        )
    store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    change_limits(home, {}, by="ada", host_network=True)
    store.runs.add(Launch("hogwild", {}, "ada", demand=listening))
    change_limits(home, {}, by="ada", host_network=False)
    for closed in ("namespace", "container"):
        store.runner.register(ProcessIdentity("boot", 4243, 78), cores=4, gpus=1, network=closed)
        store.runs.add(Launch("hogwild", {}, "ada", demand=listening))
    assert store.read.quotas.why_no_listening("host"), "a worker asks for what it found itself"


def test_only_an_admin_allows_the_machines_network(store: Store, home: Home) -> None:
    store.people.add("ada", "admin", by="ada")
    store.people.add("bo", "member", by="ada")
    with pytest.raises(Forbidden):
        change_limits(home, {}, by="bo", host_network=True)
    assert not limits(home).host_network


def test_the_share_above_which_a_run_is_disturbed_is_a_setting_of_the_lab(store: Store, home: Home) -> None:
    assert disturbed_above(home) == 0.05
    change_limits(home, {}, by="ada", disturbed_above_percent=12)
    change_limits(home, {"max_running_per_person": 2}, by="ada")
    assert disturbed_above(home) == 0.12
    for wrong in (-1, 101, float("nan")):
        with pytest.raises(ConfigError, match="disturbed_above_percent must be 0 to 100, got"):
            change_limits(home, {}, by="ada", disturbed_above_percent=wrong)
    home.limits.write_text("{")
    assert disturbed_above(home) == 0.05, "pages must open"


def test_a_person_without_queued_runs_is_not_told_to_wait_for_them(store: Store, home: Home) -> None:
    set_limits(home, Limits(max_queued_per_person=1))
    with pytest.raises(LimitReached, match=r"0 of 1 queued runs; 2 more can't be queued\. Queue fewer, "):
        store.sweeps.add(
            SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [1, 2]}),
            [Launch("hogwild", {"seed": seed}, demand=SIZE) for seed in (1, 2)],
        )
