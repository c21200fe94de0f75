"""Whatever stands in an address, pages open with sentences and routes answer below 500."""

import logging
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.links.compare import CompareView
from app.runs.query import NARROWING
from app.ui.widgets import PAGES
from engine.home import Home
from tests.app import quick_pages
from tests.app.browsing import Client
from tests.app.reading import opened
from tests.fuzz.hostile import MARKED, WORDS
from tests.inputs import counts, inputs
from tests.labs import basic

__all__ = ["quick_pages"]
KEYS = (
    *(
        "run",
        "sweep",
        "duel",
        "figure",
        "exhibit",
        "experiment",
        "preset",
        "set",
        "section",
        "axis",
        "machine",
        "show",
        "sort",
        "group",
        "differences",
        "baseline",
        "archived",
        "next",
        "v",
    ),
    *(*NARROWING, *CompareView.__dataclass_fields__),
)
NEAR = some.sampled_from(
    [
        "1",
        "1,2,5-9",
        "hogwild",
        "quick",
        "train/loss",
        "dataset:digits",
        "test/accuracy.best",
        "owner",
        "-created",
        "trainers",
        "true",
        "0.5",
    ]
)
ROUTES = ("/api/token", "/api/standing", "/api/series", "/api/compare", "/api/log", "/api/home")
ASKED = (
    "run",
    "sweep",
    "duel",
    "machine",
    "section",
    "version",
    "since",
    "after",
    "metrics",
    "axis",
    "from",
    "to",
    "source",
    "offset",
    "metric",
    "runs",
    "download",
)


@counts(20)
def test_no_address_breaks_a_page(home: Home, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("app.ui.current_user._cookies", dict)  # AppTest has none of its own
    basic.filled(home)
    texts = some.one_of(
        NEAR,
        some.sampled_from([text for text in MARKED if "\ud800" not in text and "\udcff" not in text]),
        some.text(max_size=30),
    )

    @inputs(count)
    @given(page=some.sampled_from(sorted(PAGES)), query=some.dictionaries(some.sampled_from(KEYS), texts, max_size=5))
    def holds(page: str, query: dict[str, str]) -> None:
        test = opened(page, {name: text.encode("utf-8", "ignore").decode() for name, text in query.items()})
        assert not test.exception, [each.value for each in test.exception]

    holds()


@counts()
def test_no_address_breaks_a_route(home: Home, count: int) -> None:
    basic.filled(home)
    client = Client()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    words = some.one_of(NEAR, WORDS).map(lambda text: text.encode("utf-8", "ignore").decode())

    @inputs(count)
    @given(
        route=some.sampled_from(ROUTES),
        query=some.dictionaries(some.one_of(some.sampled_from(ASKED), words), words, max_size=5),
        stray=words,
    )
    def holds(route: str, query: dict[str, str], stray: str) -> None:
        assert client.get(f"{route}?{urlencode(query)}").status_code < 500
        assert client.get(f"{route}?{quote(stray[:200])}").status_code < 500

    holds()
