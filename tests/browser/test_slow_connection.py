"""A connection that answers later than a person presses again: no press is lost, none launches twice, Back is no press,
and a connection that is gone is said.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, TimeoutError, WebSocketRoute, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from engine.registry import experiment
from engine.store import Store
from tests.browser.axe import findings, grave
from tests.browser.conftest import Lab
from tests.browser.places import LAUNCH, Place, give_name, go, launched, settle
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
ROWS = ".pl-runs tbody tr[data-key]"
ENDED = "script_finished"
"""The message that ends a run of a page."""


class Connection:
    """A page's connection to the console, which can keep back what the console answers."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._keeps_back: Collection[str] | None = ()
        self._ended = 0
        self.presses = 0
        """How often the page has told the console of a button that was pressed."""
        self._held: list[str | bytes] = []
        self._sockets: list[WebSocketRoute] = []
        page.route_web_socket(re.compile("/_stcore/stream"), self._relay)

    def _relay(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)
        console = socket.connect_to_server()

        def answer(message: str | bytes) -> None:
            told = ForwardMsg.FromString(message) if isinstance(message, bytes) else ForwardMsg()
            kind = told.WhichOneof("type")
            self._ended += kind == ENDED and told.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN
            if self._keeps_back is None or kind in self._keeps_back:
                self._held.append(message)
            else:
                socket.send(message)

        def ask(message: str | bytes) -> None:
            if isinstance(message, bytes):
                states = BackMsg.FromString(message).rerun_script.widget_states.widgets
                self.presses += any(each.trigger_value for each in states)
            console.send(message)

        console.on_message(answer)
        socket.on_message(ask)

    def open(self, address: str, seen: Locator) -> None:
        """Open a page, and keep answers back once it is drawn whole."""
        self._page.goto(address)
        expect(seen).to_be_visible()
        settle(self._page)
        self.slow()

    def slow(self, kinds: Collection[str] | None = None) -> None:
        """Keep answers back from now on, or only messages of some kinds."""
        self._keeps_back = kinds

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Wait after the block until the console has ended a run of the page, whose answer may be kept back."""
        before = self._ended
        yield

        def has_ended() -> bool:
            self._page.wait_for_timeout(20)
            return self._ended > before

        wait_until(has_ended, "the console has ended a run of the page")

    def release(self, count: int | None = None) -> None:
        """Give the page all answers, or as many of the first messages and go on with keeping back."""
        if count is None:
            self._keeps_back = ()
        for message in self._held[:count]:
            self._sockets[-1].send(message)
        del self._held[:count]

    @property
    def held(self) -> int:
        """How many messages are kept back."""
        return len(self._held)

    def lose(self) -> None:
        """End the connection; none can be made until `restore`."""
        self._page.context.set_offline(True)
        self._sockets[-1].close()

    def restore(self) -> None:
        """Let the page connect again."""
        self._page.context.set_offline(False)


@pytest.fixture
def connection(page: Page) -> Connection:
    return Connection(page)


def asked(page: Page) -> dict[str, list[str]]:
    """Return what the page's address says."""
    return parse_qs(urlsplit(page.url).query)


def test_two_changes_before_an_answer_are_both_kept_and_the_navigation_resets_them(
    lab: Lab, page: Page, connection: Connection
) -> None:
    finished = page.get_by_role("button", name="finished", exact=True)
    connection.open(f"{lab.address}/runs", finished)
    page.get_by_role("textbox", name="Search", exact=True).fill("a")
    with connection.answered():
        page.get_by_role("textbox", name="Search", exact=True).press("Enter")
    with connection.answered():
        page.get_by_role("button", name="active", exact=True).click()
    with connection.answered():
        finished.click()
    with connection.answered():
        page.locator(".pl-runs thead").get_by_role("button", name="Owner").click()
    connection.release()
    page.wait_for_url(lambda url: "sort=" in url)
    settle(page)
    assert asked(page) == {"search": ["a"], "show": ["active", "finished"], "sort": ["owner"]}
    expect(finished).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Runs", exact=True).first.click()
    expect(page.get_by_role("button", name="all", exact=True)).to_have_attribute("aria-pressed", "true")
    settle(page)
    assert asked(page) == {}


def test_the_second_of_two_tabs_pressed_before_an_answer_opens(lab: Lab, page: Page, connection: Connection) -> None:
    values = page.get_by_role("radio", name="Values", exact=True)
    connection.open(f"{lab.address}/compare?runs={lab.compared[0]},{lab.compared[1]}", values)
    with connection.answered():
        values.click()
    with connection.answered():
        page.get_by_role("radio", name="Differences", exact=True).click()
    connection.release()
    page.wait_for_url(lambda url: "tab=differences" in url)
    settle(page)
    expect(page.get_by_role("radio", name="Differences", exact=True)).to_be_checked()


def test_the_last_of_two_experiments_chosen_before_an_answer_is_shown(
    lab: Lab, page: Page, connection: Connection
) -> None:
    radio = page.get_by_role("radio", name="Hogwild!")
    connection.open(f"{lab.address}{LAUNCH}", radio)
    radio.focus()
    with connection.answered():
        page.keyboard.press("ArrowUp")
    with connection.answered():
        page.keyboard.press("ArrowUp")
    connection.release()
    expect(page.get_by_role("heading", name="Synchronous parallel SGD")).to_be_visible()
    settle(page)
    expect(page.get_by_role("radio", name="Synchronous parallel SGD")).to_be_checked()
    assert asked(page) == {"experiment": ["sync_sgd"], "preset": ["quick"]}


def test_back_right_after_a_key_restores_the_search_of_the_address(
    lab: Lab, page: Page, connection: Connection
) -> None:
    page.goto(f"{lab.address}/runs?search={lab.compared[0]}")
    page.locator(f'{ROWS}[data-key="run-{lab.compared[0]}"] input').check()
    expect(page.get_by_text("1 run selected")).to_be_visible()
    settle(page)
    connection.slow()  # the console's answer comes after the key's effect was due
    page.evaluate(
        """(path) => {
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
          history.pushState({}, "", path);
          window.dispatchEvent(new PopStateEvent("popstate"));
        }""",
        f"/runs?search={lab.compared[1]}",
    )
    page.wait_for_timeout(500)
    connection.release()
    expect(page.locator(f'{ROWS}[data-key="run-{lab.compared[1]}"]')).to_be_visible()
    expect(page.get_by_text("1 run selected")).to_be_hidden()
    settle(page)
    expect(page.locator(ROWS).last).to_have_attribute("data-key", f"run-{lab.compared[1]}")


def test_a_preset_is_launched_though_the_form_still_shows_the_settings_before(
    lab: Lab, page: Page, connection: Connection
) -> None:
    launch = page.get_by_role("button", name="Launch", exact=True)
    connection.open(f"{lab.address}{LAUNCH}?experiment=hogwild&preset=quick", launch)
    with connection.answered():
        page.get_by_role("radio", name="tuned", exact=True).click()
    with connection.answered():
        launch.click()
    connection.release()
    run = launched(lab.home, page)
    assert (run.preset, run.config) == ("tuned", experiment("hogwild").configure("tuned").model_dump())


def test_a_ready_made_sweep_stays_in_the_form_though_the_browser_still_has_the_form_before(
    lab: Lab, page: Page, connection: Connection
) -> None:
    for is_tuned, ready, values in (
        (True, "Show scaling", "trainers"),
        (False, "Find the sweet spot of splits", "splits"),  # of another experiment
    ):
        page.goto(f"{lab.address}{LAUNCH}")
        button = page.get_by_role("button", name=ready)
        expect(button).to_be_visible()
        settle(page)
        if is_tuned:
            page.get_by_role("radio", name="tuned", exact=True).click()
            page.wait_for_url("**preset=tuned**")
            settle(page)
        connection.slow()
        with connection.answered():
            button.click()
        with connection.answered():
            page.get_by_text("Lesson size", exact=True).click()
        connection.release()
        expect(page.get_by_role("textbox", name=f"Values of {values}")).to_be_visible()
        settle(page)
        expect(page.get_by_role("switch", name="Run a sweep")).to_be_checked()
        expect(page.get_by_role("switch", name="Lesson size")).to_be_checked()
        expect(page.get_by_role("radio", name="quick", exact=True)).to_be_checked()
        if is_tuned:
            expect(page.get_by_role("spinbutton", name="Batch size")).to_have_value("32")
            expect(page.get_by_role("spinbutton", name="Seeds", exact=True)).to_have_value("1")


def test_an_answer_while_a_key_is_down_or_after_a_later_one_takes_no_step_back(
    lab: Lab, page: Page, connection: Connection
) -> None:
    point = page.get_by_role("slider", name=re.compile("Bubble share")).nth(1)
    connection.open(f"{lab.address}/exercises?exercise=pipeline_bubble", point)
    point.focus()
    with connection.answered():
        page.keyboard.press("Home")
    page.keyboard.down("ArrowUp")
    connection.release()
    expect(page.get_by_text("3 of 4 values to set.")).to_be_visible()
    settle(page)
    page.keyboard.up("ArrowUp")
    page.get_by_text("Type the values instead").click()
    typed = page.get_by_role("textbox", name="splits 2")
    expect(typed).to_have_value("1")
    expect(point).to_have_attribute("aria-valuetext", "1 %")
    point.focus()
    connection.slow()
    with connection.answered():
        page.keyboard.press("End")
    of_end = connection.held
    with connection.answered():
        page.keyboard.press("PageDown")
    connection.release(of_end)  # the answer to a key, after a later one
    page.wait_for_timeout(300)
    page.keyboard.press("ArrowDown")
    connection.release()
    expect(typed).to_have_value("89")
    expect(point).to_have_attribute("aria-valuetext", "89 %")


TWICE = "pressed twice"


def named(page: Page, lab: Lab, connection: Connection) -> Locator:
    """Open Launch, give the run its name, and return the button."""
    go(page, lab.address, Place("launch", f"{LAUNCH}?experiment=sync_sgd&preset=quick", "Run name"))
    title = page.get_by_role("textbox", name="Run name")
    title.fill(TWICE)
    with connection.answered():
        title.press("Enter")
    settle(page)
    return page.get_by_role("button", name="Launch", exact=True)


def asked_again(launch: Locator, name: Locator) -> bool:
    """Press, and return whether the name is asked for; a press directly after an answer may still belong to it."""
    with suppress(TimeoutError):
        launch.click(timeout=1000)
        name.wait_for(timeout=6000)
    return name.is_visible()


def cancelled(lab: Lab) -> int:
    """Cancel the runs that were launched here, and return how many were queued."""
    with Store.open(lab.home) as store:
        rows = store.db.rows("SELECT id FROM runs WHERE name = ? AND status = 'queued'", [TWICE])
        for row in rows:
            store.runs.cancel(row["id"], by="Ada")
    return len(rows)


def test_launch_or_the_name_given_twice_before_the_answer_launches_one_run_and_later_another(
    lab: Lab, page: Page, connection: Connection
) -> None:
    launch = named(page, lab, connection)
    launch.click()
    name = page.get_by_role("textbox", name="Your name")
    expect(name).to_be_focused()
    page.keyboard.press("Escape")
    expect(name).to_be_hidden()
    settle(page)
    wait_until(lambda: asked_again(launch, name), "the first press was answered, so another one counts")
    name.fill("Ada")
    expect(page.get_by_role("button", name="Save and launch")).to_be_enabled()
    connection.slow()
    with connection.answered():
        name.press("Enter")
    name.press("Enter")
    page.wait_for_timeout(500)
    connection.release()
    page.wait_for_url("**/run?run=*")
    settle(page)
    assert cancelled(lab) == 1
    launch = named(page, lab, connection)
    connection.slow()
    with connection.answered():
        launch.click()
    launch.click()
    launch.press("Enter")
    page.wait_for_timeout(500)  # the console has taken what arrived
    connection.release()
    page.wait_for_url("**/run?run=*")
    settle(page)
    assert cancelled(lab) == 1


def test_the_console_takes_no_second_press_of_a_launch_from_a_page_that_sends_it(
    lab: Lab, page: Page, connection: Connection
) -> None:
    launch = named(page, lab, connection)
    launch.click()
    give_name(page)
    page.wait_for_url("**/run?run=*")
    assert cancelled(lab) == 1
    launch = named(page, lab, connection)
    connection.slow()
    with connection.answered():
        launch.click()
    with connection.answered():
        launch.dispatch_event("click")  # no press of a person's: tools.js lets it pass
    assert cancelled(lab) == 1
    connection.release()
    settle(page)
    named(page, lab, connection).click()
    page.wait_for_url("**/run?run=*")
    assert cancelled(lab) == 1


def test_a_press_counts_as_soon_as_the_answer_to_the_last_one_is_seen(
    lab: Lab, page: Page, connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no runs")
    page.goto(f"{lab.address}/runs")
    page.get_by_role("button", name="Import").click()
    give_name(page)
    page.locator('input[type="file"]').set_input_files(tmp_path / "notes.txt")
    imports = page.get_by_role("button", name="Import file")
    expect(imports).to_be_enabled()
    settle(page)
    connection.slow([ENDED])
    before = connection.presses
    imports.click()
    expect(page.get_by_text("notes.txt")).to_have_count(2)
    imports.click()
    wait_until(lambda: page.wait_for_timeout(20) or connection.presses == before + 2, "the console has both presses")


def test_a_connection_that_is_gone_is_said_until_it_is_back(lab: Lab, page: Page, connection: Connection) -> None:
    page.goto(f"{lab.address}{LAUNCH}")
    settle(page)
    said = page.get_by_text("Connection lost.")
    expect(said).to_be_hidden()
    connection.lose()
    expect(page.get_by_role("status").and_(said)).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert not [each for each in grave(findings(page)) if "pl-gone" in each.target], scheme
    page.set_viewport_size({"width": 390, "height": 800})
    box = said.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    connection.restore()
    expect(said).to_be_hidden()
