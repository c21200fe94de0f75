"""What people write stays text on every page: no script of theirs runs, no picture of theirs is asked for, no formula is set."""

import json
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from engine.home import Home
from engine.store import Store
from tests.app import duel_labs, labs, museum_labs, small_labs
from tests.app.people_labs import PASSWORD, SETUP
from tests.browser.conftest import Console, sign_in
from tests.browser.places import Place, go, the_pages

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
PERSON = "<img src=//evil.example onerror=hurt()>"
NAME = "<script>window.hurt=1</script><img src='//evil.example/a.png' onerror='window.hurt=1'> ![b](//evil.example/b.png) [c](javascript:hurt()) $x^2$ :red[d]"
TAG = "<svg onload='window.hurt=1'>=1+1"
OTHERWISE = """() => [window.hurt, document.querySelectorAll('.katex, [src*=evil], [href*=evil], [href^=javascript]').length]"""


@pytest.fixture
def lab(still: Home) -> tuple[small_labs.Lab, int]:
    """Fill the home with something on every page, all of it by somebody with such a name and under such names; return it and a run that is on."""
    duel_labs.whole(still)
    museum_labs.visited(still, "aliased_weights", ["aliased_weights"])
    found = small_labs.fill(still)
    with Store.open(still) as store:
        store.add_person("ada", "admin", by=SETUP, password=PASSWORD)
        store.add_person(PERSON, "member", by=SETUP)
        running = labs.add(store, "ada")
        labs.drive(store, still, running, "running")
        labs.add(store, "ada")
        ids = [row["id"] for row in store.rows("SELECT id FROM runs")]
        store.tag(ids, TAG, by=SETUP)
        store.set_note(running, f"{NAME}\n\n# {NAME}", by=SETUP)
        store.make_token(PERSON, NAME[:60], "read", by=SETUP)
        store.make_token("ada", NAME[:60], "read", by=SETUP)
        with store.change() as connection:
            for table in ("runs", "sweeps", "duels", "views"):
                connection.execute(f"UPDATE {table} SET owner = ?, name = ?", [PERSON, NAME])
            connection.execute("UPDATE events SET who = ?", [PERSON])
            connection.execute("UPDATE runs SET pinned_by = ? WHERE pinned_by IS NOT NULL", [PERSON])
    return found, running


def places(lab: small_labs.Lab, running: int) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Yield each place with the texts that have to stand on it to the letter."""
    texts = {"home": (NAME, PERSON), "runs": (NAME, PERSON), "run": (NAME, PERSON), "sweep": (NAME, PERSON), "duel": (NAME, PERSON), "machine": (PERSON,)}
    for place in the_pages(lab, running):
        if place.name != "launch":
            seen = {"home": "Published figures", "runs": "Only mine", "sweep": "Finished runs", "notifications": "Add a channel"}.get(place.name, place.seen)
            yield Place(place.name, place.path, seen, place.do), texts.get(place.name, ())
    yield Place("notes", f"/run?run={running}&section=Notes", "Note"), ()
    yield Place("events", f"/run?run={running}&section=Events", "queued"), (PERSON,)
    yield Place("account", "/account", "Make a token"), (NAME[:60],)
    yield Place("people", "/people", "Add somebody"), (PERSON,)
    yield Place("audit", "/people?view=Audit+log", "Entries are only ever added"), (NAME[:60],)


def test_no_name_note_or_tag_is_anything_but_text_on_any_page(lab: tuple[small_labs.Lab, int], console: Console, somebody: Callable[[], Page]) -> None:
    page, asked = somebody(), []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, console.address, "ada", PASSWORD, "/account")
    page.get_by_text("Make a token").wait_for()
    missing = []
    for place, texts in places(*lab):
        go(page, console.address, place)
        shown = " ".join(page.evaluate("document.body.innerText").split())
        missing += [f"{place.name}: {text}" for text in texts if " ".join(text.split()) not in shown]
        assert page.evaluate(OTHERWISE) == [None, 0], place.name
    assert not missing, "\n".join(missing)
    foreign = [url for url in asked if not url.startswith((console.address, "data:", "blob:"))]
    assert not foreign, json.dumps(foreign)
