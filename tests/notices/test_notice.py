"""What a message says of a run, with hostile names in it; and the links in it."""

from collections.abc import Callable

import pytest

from engine.errors import ConfigError
from engine.home import Home
from engine.notices.notice import Notice, notice_of
from engine.notices.public_url import public_url
from engine.recorder import Point
from engine.runner.runner import serve
from engine.store import Demand, Launch, Reader, Store
from engine.trace.health import Health, Verdict
from tests.stand_in import worker

HOSTILE = (
    "<!channel> @everyone *bold* [click](https://evil.example) `code` <b>&amp;</b>\r\nBcc: eve@evil.example \u202egnol "
    + "x" * 300
)


@pytest.fixture
def notice(home: Home, define: Callable[[str], None]) -> Notice:
    """A run with a hostile name that failed, as its owner is notified of it."""
    define("[team]\nurl = 'slack://T/B/C'")
    with Store.open(home) as store:
        store.subscriptions.add("team", owner="ada")
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
        (due,) = store.delivery.take_due()
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


def test_a_run_that_stands_still_says_why_and_whether_it_continues(home: Home, define: Callable[[str], None]) -> None:
    define("[team]\nurl = 'slack://T/B/C'")
    said = "trainer2 makes no progress: it is stopped (SIGSTOP)."
    with Store.open(home) as store:
        store.subscriptions.add("team", owner="ada")
        run_id = store.runs.add(Launch("hogwild", {}, "ada", "quick", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, worker(), ())
        store.worker.begin(run_id, worker(), {})
        store.worker.write_health(run_id, Health("", (), Verdict("HUNG", "trainer2", "stopped", said)))
        store.worker.note_standstill(run_id, "hung", said)
        (due,) = store.delivery.take_due()
        notice = notice_of(store.read, due, "https://lab.example.org")
        assert notice.subject.startswith(f"Run {run_id} stands still: ") and notice.bad
        assert dict(notice.facts)["Cause"] == said and "Now" not in dict(notice.facts)
        store.worker.write_health(run_id, Health("", (), Verdict("RUNNING")))
        assert dict(notice_of(store.read, due).facts)["Now"] == "it continues"


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
