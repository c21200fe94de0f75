"""Addresses that earlier versions wrote into saved views, notices, reports and bookmarks still open what they meant."""

from urllib.parse import parse_qs, parse_qsl, quote, quote_plus, urlsplit

import pytest

from app.links.addresses import current
from app.ui.widgets import PAGES
from engine.home import Home
from engine.store.records import Status
from tests.app.browsing import Client
from tests.app.reading import opened, said
from tests.app.runs.drawn_table import ids_of, table_of
from tests.labs import sweeps

MOVED = {
    "/results": "/runs",
    "/results?filter=trainers+%3E%3D+2&group=true&v=1": "/runs?filter=trainers+%3E%3D+2&group=true&v=1",
    "/results?show=duration&show=test%2Faccuracy.best&sort=-duration": (
        "/runs?columns=duration&columns=test%2Faccuracy.best&sort=-duration"
    ),
    "/results?status=failed&status=lost": "/runs?show=failed+or+lost&fold=false",
    "/results?search=thesis&by=Ada&archived=true": "/runs?search=thesis&by=Ada&archived=true&fold=false",
    "/results?of=hogwild&status=finished&sort=-test%2Faccuracy.last": (
        "/runs?of=hogwild&show=finished&sort=-test%2Faccuracy.last"
    ),
    "/runs?show=on+or+queued": "/runs?show=active",
    "/runs?show=failed+or+lost&find=thesis&mine=true": "/runs?show=failed+or+lost&search=thesis&mine=true",
    "/runs?show=duration": "/runs?columns=duration",
    "/runs?show=all&search=thesis": "/runs?search=thesis",
    "/scaling?runs=1-2&view=Where+the+time+went": "/scaling?runs=1-2&view=Time+breakdown",
    "/sweep?sweep=1&view=Where+the+time+went": "/sweep?sweep=1&view=Time+breakdown",
    "/museum?system=Why+runs+hang": "/docs?page=timeline#why-runs-hang",
    "/runs?fold=false&page=2": "/runs?fold=false&table-page=2",
    "/runs?status=failed&status=running&fold=false": "/runs?show=failed+or+lost&show=active&fold=false",
}
"""Old addresses, and where they lead."""
SAME = (
    *("/", "/launch?experiment=hogwild&preset=quick&set=trainers:4", "/runs", "/runs?show=active&search=x&fold=false"),
    *("/run?run=1", "/run?run=1&section=Log", "/sweep?sweep=1", "/duel?duel=1", "/compare?runs=1-2&group=trainers&v=1"),
    *("/scaling?runs=1-2&view=Staleness", "/figures?figure=sync_sgd", "/museum?exhibit=aliased_weights", "/machine"),
    *("/notifications", "/people?view=Audit+log", "/account"),
)
"""Addresses in saved views, notices and reports that are the present ones."""


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_address_leads_to_the_same_runs(home: Home, lab: dict[Status, int], old: str) -> None:
    sweeps.pipeline(home, {"splits": [1]})
    answer = Client().get(old, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, MOVED[old])
    where = urlsplit(MOVED[old])
    assert current(where.path, where.query) is None, "one redirect leads to a present address"
    test = opened(where.path.strip("/"), parse_qs(where.query))
    assert not test.exception and not test.error
    assert "was ignored" not in said(test)
    if "show=failed" in MOVED[old] and "show=active" not in MOVED[old]:
        assert set(ids_of(test)) <= {f"run-{lab[status]}" for status in ("failed", "lost")}
    if "columns=duration" in MOVED[old]:
        assert "Execution" in [column["label"] for column in table_of(test)["columns"]]


@pytest.mark.parametrize("address", SAME)
def test_other_addresses_stay_and_open(home: Home, lab: dict[Status, int], address: str) -> None:
    where = urlsplit(address)
    assert current(where.path, where.query) is None
    page = where.path.strip("/") or "home"
    assert page in PAGES
    test = opened(page, {name: value if len(value) > 1 else value[0] for name, value in parse_qs(where.query).items()})
    assert not test.exception


def test_home_may_be_typed_by_its_name() -> None:
    """Streamlit would show it below a dialog that calls it missing."""
    assert (current("/home", ""), current("/home", "owner=ada")) == ("/", "/?owner=ada")


@pytest.mark.parametrize(("page", "name"), [("/run", "latest"), ("/runs", "filter"), ("/compare", "filter")])
@pytest.mark.parametrize("text", ['experiment == "hogwild"', "loss<0.1", 'name=="50%20+"'])
def test_a_filter_that_was_encoded_more_than_once_is_found(page: str, name: str, text: str) -> None:
    once = f"{name}={quote(text)}&sort=-id"
    assert current(page, once) is None
    for safe in ("", '"'):  # not every program encodes quotes
        twice = f"{name}={quote(quote(text, safe=safe))}&sort=-id"
        for address in (twice, f"{name}={quote(quote(quote(text)))}&sort=-id"):
            where = urlsplit(current(page, address) or "")
            assert (where.path, parse_qsl(where.query)) == (page, [(name, text), ("sort", "-id")])
            assert current(where.path, where.query) is None
    spaced = (
        current(page, f"{name}={quote_plus(quote_plus(text))}") or ""
    )  # as our own links and Streamlit write blanks
    assert parse_qsl(urlsplit(spaced).query) == [(name, text)]
    assert current("//elsewhere", f"{name}={quote(quote(text))}") is None, "a redirect leads to these pages only"
