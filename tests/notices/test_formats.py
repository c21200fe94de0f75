"""Messages as Slack, Discord, programs and mail readers get them, with hostile names in them."""

import json
from email import message_from_bytes, policy

import pytest

from engine.errors import ConfigError
from engine.home import Home
from engine.notices.formats import as_discord, as_email, as_json, as_slack
from engine.notices.notice import Notice, notice_of
from engine.notices.public_url import public_url
from engine.recorder import Point
from engine.runner.runner import serve
from engine.store import Demand, Launch, Reader, Store
from engine.store.notices.delivery import Due
from engine.trace.health import Health, Verdict
from tests.stand_in import worker

HOSTILE = (
    "<!channel> @everyone *bold* [click](https://evil.example) `code` <b>&amp;</b>\r\nBcc: eve@evil.example \u202egnol "
    + "x" * 300
)


@pytest.fixture
def notice(home: Home) -> Notice:
    """A run with a hostile name that failed, as its owner is told of it."""
    with Store.open(home) as store:
        store.channels.add("slack", "https://hooks.slack.com/services/T/B/secret12345", owner="ada")
        run_id = store.runs.add(Launch("hogwild", {}, "ada", "quick", HOSTILE, demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, worker(), ())
        store.worker.begin(run_id, worker(), {})
        store.worker.mark_running(run_id, 0.5)
        store.worker.write(
            run_id,
            [],
            run_points=[Point("test/accuracy", step, value, 1.0) for step, value in enumerate((90.0, 97.25, 95.0))],
        )
        store.claims.end(run_id, "failed", f"trainer2 raised ValueError: {HOSTILE}", execution_time_s=200.0)
        (due,) = store.delivery.take_due("me")
    with Reader.open(home) as reader:
        return notice_of(reader, due, "https://lab.example.org")


def test_a_message_says_what_ended_how_why_how_long_and_its_result(notice: Notice) -> None:
    facts = dict(notice.facts)
    assert notice.subject.startswith("Run 1 failed: ")
    assert facts["Cause"].startswith("trainer2 raised ValueError")
    assert (facts["Duration"], facts["Result"]) == ("3 min 20 s", "test accuracy 95.00 % (last)")
    assert notice.link == "https://lab.example.org/run?run=1"
    assert notice.bad
    assert not set("\r\n\u202e") & set(notice.subject + "".join(facts.values()))


def test_a_run_that_stands_still_says_why_and_whether_it_continues(home: Home) -> None:
    said = "trainer2 makes no progress: it is stopped (SIGSTOP)."
    with Store.open(home) as store:
        store.channels.add("slack", "https://hooks.slack.com/services/T/B/secret12345", owner="ada")
        run_id = store.runs.add(Launch("hogwild", {}, "ada", "quick", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, worker(), ())
        store.worker.begin(run_id, worker(), {})
        store.worker.write_health(run_id, Health("", (), Verdict("HUNG", "trainer2", "stopped", said)))
        store.worker.note_standstill(run_id, "hung", said)
        (due,) = store.delivery.take_due("me")
        notice = notice_of(store.read, due, "https://lab.example.org")
        assert notice.subject.startswith(f"Run {run_id} stands still: ") and notice.bad
        assert dict(notice.facts)["Cause"] == said and "Now" not in dict(notice.facts)
        store.worker.write_health(run_id, Health("", (), Verdict("RUNNING")))
        assert dict(notice_of(store.read, due).facts)["Now"] == "it continues"


def test_slack_gets_plain_text_and_nothing_calls_anybody(notice: Notice) -> None:
    body = as_slack(notice)
    assert "<!" not in body["text"] and "&lt;!channel&gt;" in body["text"]
    header, facts, link = body["blocks"]
    assert (header["type"], header["text"]["type"]) == ("header", "plain_text")
    assert len(header["text"]["text"]) <= 150
    assert (facts["type"], facts["text"]["type"]) == ("section", "plain_text")
    assert 0 < len(facts["text"]["text"]) <= 3_000
    assert link["text"] == {
        "type": "mrkdwn",
        "text": "<https://lab.example.org/run?run=1|Open in Parallab>",
        "verbatim": True,
    }
    json.dumps(body)


def test_discord_gets_one_embed_in_bounds_with_no_mention_and_no_markup(notice: Notice) -> None:
    body = as_discord(notice)
    assert body["allowed_mentions"] == {"parse": []}
    (embed,) = body["embeds"]
    assert len(embed["title"]) <= 256
    assert embed["url"] == notice.link
    assert all(0 < len(field["name"]) <= 256 and 0 < len(field["value"]) <= 1_024 for field in embed["fields"])
    assert len(embed["fields"]) <= 25
    assert len(embed["title"]) + sum(len(field["name"] + field["value"]) for field in embed["fields"]) <= 6_000
    why = next(field["value"] for field in embed["fields"] if field["name"] == "Cause")
    assert r"\<!channel\> \@everyone \*bold\* \[click\]\(https\://evil.example\)" in why


def test_programs_get_the_key_and_the_run(notice: Notice) -> None:
    body = as_json(notice)
    assert (body["id"], body["kind"], body["run"]["id"], body["run"]["status"]) == (notice.key, "run", 1, "failed")
    assert body["run"]["result"] == {"metric": "test/accuracy", "statistic": "last", "value": 95.0}
    assert "address" not in json.dumps(body)


def test_an_email_has_one_recipient_whatever_a_name_says(notice: Notice) -> None:
    message = as_email(notice, "parallab@lab.org", "ada@lab.org")
    read = message_from_bytes(message.as_bytes(), policy=policy.default)
    assert (read["To"], read["Bcc"], read["From"]) == ("ada@lab.org", None, "Parallab <parallab@lab.org>")
    assert read["Message-ID"] == f"<{notice.key}@lab.org>"
    assert read.get_content_type() == "text/plain"
    assert "<!channel> @everyone" in read.get_content()
    hostile = Notice(notice.key, "run", notice.at, "Run 1\r\nBcc: eve@evil.example", (), True)
    with pytest.raises(ValueError, match=r"newline|linefeed"):
        as_email(hostile, "parallab@lab.org", "ada@lab.org")


@pytest.mark.parametrize(
    "text",
    [
        "lab.example.org",
        "ftp://lab",
        "https://lab.example.org/?x=1",
        "https://lab|x",
        "https://lab example",
        "https://lab:port",
        "https://ada@lab",
    ],
)
def test_a_link_is_made_of_an_address_alone(home: Home, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PARALLAB_PUBLIC_URL", text)
    with pytest.raises(ConfigError, match="PARALLAB_PUBLIC_URL must be a URL"):
        public_url()
    with pytest.raises(ConfigError, match="PARALLAB_PUBLIC_URL must be a URL"):
        serve(home)
    monkeypatch.setenv("PARALLAB_PUBLIC_URL", "https://lab.example.org/console/")
    assert public_url() == "https://lab.example.org/console"


def test_a_secret_stays_out_of_what_a_message_is_shown_as() -> None:
    due = Due(
        1,
        "key",
        "test",
        None,
        None,
        None,
        "2026-01-01T00:00:00.000Z",
        1,
        1,
        "slack",
        "ada",
        "https://hooks.slack.com/services/secret",
    )
    assert "secret" not in repr(due)
