"""A store that an earlier version made (the one before the store was split into parts) opens, is brought up to date and
reads back whole.
"""

import gzip
import math
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store

FIXTURE = Path(__file__).parent / "fixtures" / "earlier_store.sqlite.gz"
"""One finished run with points, spans and tags, a sweep of two, a duel, two accounts, a view and a channel."""

WEBHOOKS = FIXTURE.with_name("store_with_webhooks.sqlite.gz")
"""Five channels that people had entered themselves (of Slack, Discord, JSON and e-mail), and three messages to them."""


def test_a_store_of_an_earlier_version_reads_back_whole(home: Home) -> None:
    home.create()
    home.database.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    with Store.open(home) as store:
        store.annotations.tag([1], "kept", by="ada")
    with Reader.open(home) as reader:
        run = reader.runs.entry(1)
        assert (run.name, run.owner, run.status, set(run.tags)) == ("first", "ada", "finished", {"kept", "thesis"})
        assert run.last["test/accuracy"] == 92 and reader.runs.one(1).environment["host"] == "lab"
        assert [row.id for row in reader.runs.find(matching=reader.fields.filter("config.learning_rate == 0.2"))] == [3]
        curves = reader.curves.series(1, ["train/loss"])
        assert [len(curve.ids) for curve in curves] == [600, 600] and math.isnan(curves[0].values[300])
        assert len(reader.curves.series(1, ["train/loss"], max_points=100)[0].ids) <= 100
        assert len(reader.details.spans(1)) == 4 and reader.details.histograms(1) == {
            (0, "staleness"): {2: 5},
            (1, "staleness"): {2: 5},
        }
        assert len({reader.runs.one(run_id).uid for run_id in (1, 2, 3)} - {""}) == 3
        sweep = reader.sweeps.one(1)
        assert (sweep.name, sweep.statuses, sweep.stop_after) == ("rates", {"queued": 1, "cancelled": 1}, 1)
        assert reader.runs.one(2).held_by == "ada"
        assert (reader.duels.one(1).name, len(reader.duels.one(1).parts)) == ("race", 2)
        assert [(person.name, person.role) for person in reader.people.everyone()] == [
            ("ada", "admin"),
            ("bea", "member"),
        ]
        assert [(view.name, view.page) for view in reader.views.find()] == [("losses", "compare")]
        assert [(each.channel, each.owner) for each in reader.subscriptions.of()] == [("email", "bea")]
        commands = ["add subscription", "cancel", "launch sweep"]
        assert [entry.command for entry in reader.audit.entries(who="bea")] == commands


def test_of_channels_that_people_had_email_goes_on_and_webhooks_are_kept_until_a_channel_replaces_them(
    home: Home,
) -> None:
    home.create()
    home.database.write_bytes(gzip.decompress(WEBHOOKS.read_bytes()))
    home.notices.write_text(
        "[team]\nurl = 'slack://T/B/C'\n[email]\nurl = 'mailtos://u:p@lab.org?to={address}'\ndomains = ['lab.org']"
    )
    home.notices.chmod(0o600)
    with Store.open(home) as store:
        found = store.read.subscriptions.of()
        assert [(each.id, each.owner, each.title, each.ends, each.reach) for each in found] == [
            (1, "ada", "webhook at hooks.slack.com", "all", "runs"),
            (2, "bea", "webhook at hooks.slack.com", "bad", "wholes"),
            (3, "ada", "webhook at discord.com", "all", "runs"),
            (4, "ada", "webhook at 10.0.0.5", "all", "runs"),
            (5, "ada", "email ada@lab.org", "all", "runs"),
        ]
        assert all("Ask one to define a channel for this webhook" in each.paused_because for each in found[:4])
        assert found[2].paused_because.endswith("Paused by ada.") and not found[4].paused_at
        assert "secret" not in str(found)
        kept = [row[0] for row in store.db.rows("SELECT webhook FROM subscriptions ORDER BY id")]
        assert kept[0] == kept[1] == "https://hooks.slack.com/services/T0001/B0002/q7Zx9secretLmNop"
        assert kept[2] == "https://discord.com/api/webhooks/1234/secret-token?thread_id=5"
        assert kept[3:] == ["http://10.0.0.5:8080/hook?key=secret12345", ""]
        messages = [(each.id, each.subscription_id, each.state, each.last_error) for each in store.read.outbox.sent()]
        assert messages == [
            (3, 5, "tried 1 time", ""),
            (2, 4, "tried 1 time", "10.0.0.5 answered 500."),
            (1, 1, "arrived", ""),
        ]
        allowed = [entry.detail for entry in store.read.audit.entries() if entry.command == "set receivers"]
        assert allowed == ["kind=mail, host=lab.org", "kind=internal, host=10.0.0.5:8080"]
        with pytest.raises(ConfigError, match="Ask one to define a channel"):
            store.subscriptions.resume(4, by="ada")
        store.db.connection.execute("UPDATE outbox SET due_at = '2000-01-01T00:00:00.000Z'")
        assert [each.id for each in store.delivery.take_due()] == [3]
        store.subscriptions.change(4, ends="all", reach="runs", channel="team", by="ada")
        store.subscriptions.resume(4, by="ada")
        assert [(each.id, each.channel, each.attempts) for each in store.delivery.take_due()] == [(2, "team", 2)]
        assert store.db.row("SELECT webhook FROM subscriptions WHERE id = 4")[0] == ""  # type: ignore[index]
        store.subscriptions.delete(1, by="ada")
        assert [each.id for each in store.read.outbox.sent()] == [3, 2]
