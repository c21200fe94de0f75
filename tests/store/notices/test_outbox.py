"""Which ends are notified, in the transaction that makes them; and how messages are taken, tried again and given
up.
"""

import os
import signal
from collections.abc import Callable

import pytest

from engine.access.rules import Program as Part
from engine.errors import ConfigError, WrongStatus
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.store import Demand, Launch, Reader, Store, StrategyLaunch, SweepLaunch
from engine.store.notices.outbox import GIVE_UP_S, LEASE_S, LEAST_ATTEMPTS, Message
from engine.store.notices.subscriptions import Ends, Reach
from engine.store.records import Status
from engine.store.timestamps import in_seconds
from tests.store.conftest import WORKER, Program
from tests.waiting import PATIENCE_S

SIZE = Demand(1, 0, 1, 1)
CHANNELS = """
[team]
url = "slack://T/B/secret12345"
[other]
url = "discord://1/secret12345"
[email]
url = "mailtos://u:secret12345@lab.org?to={address}"
domains = ["lab.org"]
"""


@pytest.fixture(autouse=True)
def channels(home: Home) -> None:
    home.create()
    home.notices.write_text(CHANNELS)
    home.notices.chmod(0o600)


def subscribe(
    store: Store, owner: str = "ada", *, ends: Ends = "all", reach: Reach = "runs", channel: str = "team"
) -> int:
    return store.subscriptions.add(channel, owner=owner, ends=ends, reach=reach)


def notified(reader: Reader, owner: str | None = "ada") -> list[tuple[str, int | None]]:
    """Return the notifications, oldest first: its kind, and the run, sweep or duel."""
    return [
        (each.kind, each.run_id or each.sweep_id or each.duel_id)
        for each in reversed(reader.outbox.sent(owner, limit=1_000))
    ]


def carry_out(store: Store, run_id: int, status: Status = "finished") -> None:
    store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    store.worker.mark_running(run_id, 0.1)
    store.claims.end(run_id, status, f"It {status}.")


def sweep(store: Store, count: int, **more: object) -> tuple[int, list[int]]:
    runs = [Launch("hogwild", {"seed": seed}, name=f"seed {seed}", demand=SIZE) for seed in range(count)]
    sweep_id = store.sweeps.add(SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": list(range(count))}, **more), runs)  # type: ignore[arg-type]
    return sweep_id, [
        row["id"] for row in store.db.rows("SELECT id FROM runs WHERE sweep_id = ? ORDER BY id", [sweep_id])
    ]


# ---- what is notified ----------------------------------------------------------------------------------------------


def test_a_run_that_stands_still_is_told_before_its_end_and_one_of_a_sweep_too(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    subscribe(store)
    subscribe(store, "bea", ends="bad", reach="wholes", channel="other")
    run_id = add()
    sweep_id, (first, _) = sweep(store, 2)
    for each in (run_id, first):
        store.claims.claim(each, WORKER, ())
        store.worker.begin(each, WORKER, {})
        store.worker.note_standstill(each, "hung", "trainer2 is stopped.")
        assert [event.kind for event in reader.details.events(each)][-1] == "hung"
    assert notified(reader) == [("run", run_id), ("failure", first)]
    assert reader.outbox.sent("ada")[0].sweep_id == sweep_id
    store.claims.end(run_id, "failed", "It failed.")
    assert notified(reader)[-1] == ("run", run_id)
    store.worker.note_standstill(run_id, "hung", "Too late.")
    assert len(notified(reader)) == 3


def test_a_single_run_is_told_to_its_owner_however_it_ends(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    subscribe(store)
    subscribe(store, "grace", channel="other")
    runs = [add() for _ in range(5)]
    for run_id, status in zip(runs, ("finished", "failed", "lost"), strict=False):
        carry_out(store, run_id, status)  # type: ignore[arg-type]
    store.runs.cancel(runs[3], by="grace")
    store.claims.refuse(runs[4], "It asks for more than the machine has.")
    assert notified(reader) == [("run", run_id) for run_id in runs]
    assert notified(reader, "grace") == []


def test_a_subscription_to_bad_ends_is_spared_what_ended_well_or_as_its_owner_asked(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    subscribe(store, ends="bad")
    well, badly, mine, others = (add() for _ in range(4))
    carry_out(store, well)
    carry_out(store, badly, "failed")
    store.runs.cancel(mine, by="ada")
    store.runs.cancel(others, by="grace")
    assert notified(reader) == [("run", badly), ("run", others)]


def test_a_sweep_of_two_hundred_runs_is_told_once_and_at_its_first_failure(store: Store, reader: Reader) -> None:
    subscribe(store)
    subscribe(store, reach="wholes", channel="other")
    sweep_id, runs = sweep(store, 200)
    for place, run_id in enumerate(runs):
        carry_out(store, run_id, "failed" if place in (7, 8, 9) else "finished")
    assert notified(reader) == [("failure", runs[7])] * 2 + [("sweep", sweep_id)] * 2
    again = store.sweeps.retry(sweep_id, by="grace")
    for run_id in again.values():
        carry_out(store, run_id)
    assert notified(reader)[4:] == [("sweep", sweep_id)] * 2


def test_a_sweep_that_is_cancelled_or_stops_itself_is_told_once(store: Store, reader: Reader) -> None:
    subscribe(store)
    cancelled, _ = sweep(store, 50)
    store.sweeps.cancel(cancelled, by="ada")
    assert notified(reader) == [("sweep", cancelled)]
    stopped, runs = sweep(store, 50, stop_after=1)
    carry_out(store, runs[0], "failed")
    assert notified(reader)[1:] == [("sweep", stopped)]


def test_only_the_end_of_a_chain_of_retries_is_told(store: Store, reader: Reader) -> None:
    subscribe(store)
    first = store.runs.add(Launch("hogwild", {}, "ada", terms=LaunchOptions(max_retries=1), demand=SIZE))
    store.claims.claim(first, WORKER, ())
    second = store.claims.lose(first, "Killed.", resumes=False)
    assert second is not None
    assert notified(reader) == []
    store.claims.claim(second, WORKER, ())
    assert store.claims.lose(second, "Killed again.", resumes=False) is None
    assert notified(reader) == [("run", second)]


def test_a_duel_is_told_when_it_was_judged_or_can_not_go_on(store: Store, reader: Reader) -> None:
    subscribe(store)
    runs = [
        StrategyLaunch(place, name, Launch("hogwild", {"learning_rate": 0.1, "seed": 1}, "ada", name=name, demand=SIZE))
        for place, name in enumerate(("one", "two"))
    ]
    duel = store.duels.add({}, runs, owner="ada", name="", exclusive=False)
    assert not store.notices.tell_stuck_duel(duel), "its runs that tune are still on"
    for run_id in (1, 2):
        carry_out(store, run_id)
    assert notified(reader) == []
    assert store.notices.tell_stuck_duel(duel)
    assert not store.notices.tell_stuck_duel(duel + 1), "there is none"
    assert not store.notices.tell_stuck_duel(duel)
    assert notified(reader) == [("duel", duel)]
    store.duels.judge(duel, runs, exclusive=False)
    carry_out(store, 3, "failed")
    carry_out(store, 4)
    assert notified(reader)[1:] == [("failure", 3), ("duel", duel)]
    assert not store.notices.tell_stuck_duel(duel)


def test_nothing_is_told_by_a_paused_subscription_or_to_who_is_shut_out(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    for name in ("root", "ada", "eve"):
        store.people.add(name, "admin", by=Part("first"))
    paused, _ = subscribe(store), subscribe(store, "eve")
    store.subscriptions.pause(paused, by="ada")
    hers = add(owner="eve")
    store.people.disable("eve", by="root")
    carry_out(store, hers)
    carry_out(store, add())
    assert notified(reader, None) == []
    store.subscriptions.resume(paused, by="ada")
    carry_out(store, add())
    assert notified(reader, None) == [("run", 3)]


KILLED = """
with Store.open(home) as store:
    run_id = int(sys.argv[2])
    with store.db.change():
        store.claims.end(run_id, "finished", "It finished.")
        wait()
wait()
"""


@pytest.mark.processes
@pytest.mark.parametrize("commits", [False, True])
def test_an_end_and_its_message_are_kept_together_or_not_at_all(
    home: Home,
    store: Store,
    reader: Reader,
    running: Callable[..., int],
    program: Callable[..., Program],
    commits: bool,
) -> None:
    subscribe(store)
    run_id = running()
    ending = program(KILLED, home.path, run_id)
    assert ending.line() == "ready"
    if commits:
        ending.go()
        assert ending.line() == "ready"
    os.kill(ending.process.pid, signal.SIGKILL)
    ending.process.wait(timeout=PATIENCE_S)
    assert (reader.runs.one(run_id).status, notified(reader)) == (
        ("finished", [("run", run_id)]) if commits else ("running", [])
    )


# ---- how it is sent ------------------------------------------------------------------------------------------------


def take(store: Store) -> Message:
    (due,) = store.delivery.take_due()
    return due


def newest(reader: Reader) -> Message:
    return reader.outbox.sent(limit=1)[0]


def let_time_pass(store: Store, seconds: float = 0.0) -> None:
    """Let what waits be due, and be so much older."""
    sql = (
        "UPDATE outbox SET due_at = '2000-01-01T00:00:00.000Z', made_at = strftime('%Y-%m-%dT%H:%M:%S.000Z', "
        "made_at, ?)"
    )
    store.db.connection.execute(sql, [f"-{seconds} seconds"])


def test_a_message_is_one_senders_until_it_is_recorded_or_the_sender_must_be_gone(store: Store, reader: Reader) -> None:
    store.subscriptions.test(subscribe(store), by="ada")
    first = take(store)
    assert store.delivery.take_due() == []
    assert first.due_at > in_seconds(LEASE_S - 30)
    let_time_pass(store)
    again = take(store)
    assert (again.key, again.attempts) == (first.key, 2)
    store.delivery.note_delivered(first)  # a sender that was thought dead: the message is another's now
    store.delivery.note_failed(first, "It answered 500.", 60.0)
    assert newest(reader).waits and newest(reader).last_error == ""
    store.delivery.note_delivered(again)
    assert newest(reader).state == "arrived"
    let_time_pass(store)
    assert not store.delivery.has_due() and store.delivery.take_due() == []


def test_a_failure_waits_with_all_that_goes_there_and_is_given_up_after_a_day(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    subscribe(store)
    for _ in range(2):
        carry_out(store, add())
    store.delivery.note_failed(take(store), "It answered 500.", 60.0)
    assert store.delivery.take_due() == []
    for _ in range(LEAST_ATTEMPTS):
        let_time_pass(store, GIVE_UP_S / LEAST_ATTEMPTS)
        store.delivery.note_failed(take(store), "It answered 500.", 60.0)
    second, first = reader.outbox.sent("ada")
    assert (first.state, first.last_error) == ("given up", "It answered 500.")
    assert second.state == "waits"
    let_time_pass(store)
    store.delivery.note_delivered(take(store))
    assert newest(reader).state == "arrived"


def test_subscriptions_are_served_side_by_side_and_are_said_to_be_missing(
    store: Store, add: Callable[..., int]
) -> None:
    subscribe(store)
    subscribe(store, "grace", channel="other")
    for owner in ("ada", "ada", "grace"):
        carry_out(store, add(owner=owner))
    assert [(due.owner, due.run_id) for due in store.delivery.take_due()] == [("ada", 1), ("grace", 3)]
    for order in (
        store.subscriptions.test,
        store.subscriptions.pause,
        store.subscriptions.delete,
        store.subscriptions.resume,
    ):
        with pytest.raises(ConfigError, match="Subscription 9 doesn't exist"):
            order(9, by="ada")


# ---- subscriptions -------------------------------------------------------------------------------------------------


def test_a_subscription_is_to_a_channel_of_the_lab_once_and_follows_a_change(store: Store, reader: Reader) -> None:
    here = subscribe(store)
    with pytest.raises(ConfigError, match="already has a subscription to 'team'"):
        subscribe(store)
    with pytest.raises(ConfigError, match="Unknown channel 'teem'"):
        subscribe(store, channel="teem")
    store.subscriptions.test(here, by="ada")
    with pytest.raises(WrongStatus, match="already queued"):
        store.subscriptions.test(here, by="ada")
    store.subscriptions.change(here, ends="bad", reach="wholes", channel="other", by="ada")
    sent = take(store)
    assert sent.channel == "other"
    with pytest.raises(WrongStatus, match="already queued"):
        store.subscriptions.test(here, by="ada")
    store.delivery.note_failed(sent, "Refused.", 600.0)
    assert store.subscriptions.test(here, by="ada") == sent.id, "it waits for its next attempt, which is now"
    assert take(store).id == sent.id
    with pytest.raises(ConfigError, match="Unknown channel"):
        store.subscriptions.change(here, ends="bad", reach="wholes", channel="teem", by="ada")
    store.subscriptions.pause(here, by="ada")
    with pytest.raises(WrongStatus, match="is paused"):
        store.subscriptions.test(here, by="ada")
    (found,) = reader.subscriptions.of("ada")
    assert (found.ends, found.reach, found.title, found.paused_because) == ("bad", "wholes", "other", "Paused by ada.")


def test_what_waited_during_a_pause_is_due_after_it_if_the_channel_is_still_there(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    here = subscribe(store)
    carry_out(store, add())
    store.delivery.note_failed(take(store), "It answered 500.", 3600.0)
    store.subscriptions.pause(here, by="ada")
    home.notices.write_text("")
    with pytest.raises(ConfigError, match="Unknown channel 'team'"):
        store.subscriptions.resume(here, by="ada")
    home.notices.write_text(CHANNELS)
    store.subscriptions.resume(here, by="ada")
    assert take(store).run_id == 1


def test_no_url_of_a_channel_is_in_the_store(store: Store) -> None:
    for channel in ("team", "other"):
        subscribe(store, channel=channel)
    store.subscriptions.add("email", "ada@lab.org", owner="ada")
    tables = [name for (name,) in store.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert "secret12345" not in str([tuple(row) for name in tables for row in store.db.rows(f"SELECT * FROM {name}")])


def test_email_is_for_the_address_of_the_account_or_of_a_listed_domain(store: Store, reader: Reader) -> None:
    with pytest.raises(ConfigError, match=r"evil\.org is not an allowed e-mail domain"):
        store.subscriptions.add("email", "ada@evil.org", owner="ada")
    store.subscriptions.add("email", "ada@lab.org", owner="ada")
    store.people.add("root", "admin", by=Part("first"), email="root@lab.org")
    store.people.add("ada", "member", by="root")
    with pytest.raises(ConfigError, match="no e-mail address"):
        store.subscriptions.add("email", owner="ada")
    store.subscriptions.add("email", owner="root")
    assert [each.title for each in reader.subscriptions.of()] == ["email ada@lab.org", "email"]
