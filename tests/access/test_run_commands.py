"""The permission to run commands: granted to single members, checked for all that queues such a run, and audited."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from engine.errors import ConfigError, Forbidden, UnknownName
from engine.home import Home
from engine.launch import launch, retry
from engine.script.command import read_command
from engine.store import Launch, Store, SweepLaunch
from engine.sweep.extend import extend_sweep
from engine.sweep.launch import launch_sweep

COMMAND = read_command("python train.py --lr 0.1")
GRANT = (
    r"Only admins, and members with this permission, can run commands.* python -m engine users allow Mo 'run commands'"
)


def asked(owner: str) -> Launch:
    return Launch("train.py", {"lr": 0.2}, owner, command=COMMAND)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    with Store.open(home) as store:
        store.people.add("Ada", "admin", by="root")
        store.people.add("Mo", "member", by="Ada")
        store.people.add("Vera", "viewer", by="Ada")
        yield store


def test_a_member_runs_commands_only_while_an_admin_has_granted_it(home: Home, store: Store) -> None:
    with pytest.raises(Forbidden, match=GRANT):
        launch(home, asked("Mo"))
    refused = store.read.audit.entries(limit=1)[0]
    assert (refused.who, refused.command) == ("Mo", "launch") and "can run commands" in refused.refused
    assert "command=python train.py --lr 0.1" in refused.detail
    with pytest.raises(Forbidden, match="Only admins can grant"):
        store.people.allow("Mo", "run commands", by="Mo")
    assert store.people.allow("mo", "run commands", by="Ada").granted == ("run commands",)
    run_id = launch(home, asked("Mo"))
    done = store.read.audit.entries(limit=1)[0]
    assert (done.who, done.targets) == ("Mo", (run_id,)) and "command=python train.py --lr 0.1" in done.detail
    assert store.people.forbid("Mo", "run commands", by="Ada").granted == ()
    with pytest.raises(Forbidden, match=GRANT):
        launch(home, asked("Mo"))
    launched = launch(home, Launch("hogwild", {}, "Mo"))
    assert store.read.runs.one(launched).command is None


def test_an_admin_may_and_a_viewer_never(home: Home, store: Store) -> None:
    assert launch(home, asked("Ada"))
    with pytest.raises(ConfigError, match="Vera is a viewer, who launches nothing"):
        store.people.allow("Vera", "run commands", by="Ada")
    with pytest.raises(UnknownName, match="Unknown permission 'run'"):
        store.people.allow("Mo", "run", by="Ada")  # type: ignore[arg-type]
    store.people.allow("Mo", "run commands", by="Ada")
    store.people.set_role("Mo", "viewer", by="Ada")
    assert not store.read.access.standing("Mo").may("run commands")
    with pytest.raises(Forbidden):
        launch(home, asked("Mo"))


def test_without_it_no_way_queues_a_run_of_a_command(home: Home, store: Store) -> None:
    store.people.allow("Mo", "run commands", by="Ada")
    run_id = launch(home, asked("Mo"))
    sweep_id = launch_sweep(home, SweepLaunch(asked("Mo"), {"lr": [0.1, 0.2]}))
    store.runs.cancel(run_id, by="Mo")
    store.sweeps.cancel(sweep_id, by="Mo")
    store.people.forbid("Mo", "run commands", by="Ada")
    count = store.read.runs.count()
    ways: list[Callable[[], object]] = [
        partial(launch, home, asked("Mo")),
        partial(retry, home, run_id, owner="Mo"),
        partial(launch_sweep, home, SweepLaunch(asked("Mo"), {"lr": [0.1]})),
        partial(store.sweeps.retry, sweep_id, by="Mo", statuses=["cancelled"]),
        partial(extend_sweep, home, sweep_id, {"lr": [0.3]}, owner="Mo"),
    ]
    for way in ways:
        with pytest.raises(Forbidden, match=GRANT):
            way()
    assert store.read.runs.count() == count


def test_in_a_lab_without_accounts_no_permission_is_needed(home: Home) -> None:
    assert launch(home, asked("somebody"))
