"""The system's Chromium, and real consoles for it.

What takes long to start is shared by the tests in and below this folder that a process runs one after the other:
Chromium, a window's cache, and three consoles. A test adds runs of its own to what it shares, and ends them; ids come
from the store.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from playwright.sync_api import BrowserContext, Error, Locator, Page, Playwright, expect, sync_playwright

from engine.doctor.machine import program
from engine.home import Home
from tests.browser.consoles import Console, Lab, Members
from tests.browser.consoles import free_port as free_port
from tests.conftest import end_processes_of
from tests.labs import small
from tests.waiting import PATIENCE_S, wait_until

SHOWN = """() => {
  const all = [...document.querySelectorAll('*')];
  const state = document.querySelector('[data-testid=stApp]')?.dataset.testScriptState;
  const [looking, active] = [all.filter((each) => each.pulse).length, all.filter((each) => each.pulse?.active).length];
  return `Script: ${state}. Parts that poll: ${looking}, active: ${active}.\n${document.body.innerText.slice(0, 3000)}`;
}"""
"""Returns the text of a page, and how many of its parts poll for updates."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",
    "--renderer-process-limit=1",
]
HERE = Path(__file__).parent
T = TypeVar("T")
C = TypeVar("C", bound=Console)

expect.set_options(
    timeout=PATIENCE_S * 1000
)  # the usual 5 s are short where two consoles, two browsers and their runs share two cores


class Kept:
    """Makes each thing once, and keeps it until a test outside of this folder comes."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._stack = ExitStack()

    def get(self, make: Callable[..., AbstractContextManager[T]], *given: object) -> T:
        """Return what `make` gives, made for the first who asks."""
        if (make, given) not in self._made:
            self._made[make, given] = self._stack.enter_context(make(*given))
        found: T = self._made[make, given]
        return found

    def close(self) -> None:
        """End all of it, the newest first."""
        self._made.clear()
        self._stack.pop_all().close()


KEPT = Kept()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Close what is kept behind the last test of this folder that has use for it: no other can run an event loop, or a
    Playwright, beside this one's.
    """
    try:
        return (yield)
    finally:
        if nextitem is None or HERE not in nextitem.path.parents or nextitem.path.name == "test_watchers.py":
            KEPT.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the text of the page to the report of a failed test."""
    report = yield
    for page in [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Page)]:
        if report.when == "call" and report.failed and not page.is_closed():
            with suppress(Error):
                report.sections.append((f"page {page.url}", page.evaluate(SHOWN)))
    return report


def pytest_sessionfinish() -> None:
    """Close what is kept where the tests were broken off."""
    KEPT.close()


@contextmanager
def _serve(kind: type[C]) -> Iterator[C]:
    with TemporaryDirectory(prefix="parallab-browser-", ignore_cleanup_errors=True) as folder:
        served = kind(Home(Path(folder) / "home").create())
        try:
            served.start()
            yield served
        finally:
            served.stop()
            end_processes_of(served.home)


def _kept(kind: type[C], monkeypatch: pytest.MonkeyPatch) -> C:
    """Return the console of this kind, and name its home in the environment of the test."""
    found = KEPT.get(_serve, kind)
    monkeypatch.setenv("PARALLAB_HOME", str(found.home.path))
    return found


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give the lab that most tests share."""
    return _kept(Lab, monkeypatch)


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> Members:
    """Give the lab with accounts."""
    return _kept(Members, monkeypatch)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Give a console with a runner, which carries out what is launched."""
    return _kept(Console, monkeypatch)


@pytest.fixture
def still(home: Home) -> Home:
    """Give a home whose console, started after this, starts no runner and leaves runs as they are."""
    small.without_a_runner(home)
    return home


@pytest.fixture
def console(home: Home) -> Iterator[Console]:
    """Serve the test's own home."""
    served = Console(home)
    served.start()
    try:
        yield served
    finally:
        served.stop()


@contextmanager
def _playwright() -> Iterator[Playwright]:
    """Start Playwright as a process of no home, or the end of the test that came first would end it."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PARALLAB_HOME")
            found = stack.enter_context(sync_playwright())
        yield found


@contextmanager
def _window(timed: bool) -> Iterator[BrowserContext]:
    """Open a window of a Chromium of its own, which keeps what it has loaded and compiled; a test can put the clock of
    a `timed` one forward.
    """
    settings: dict[str, Any] = {
        "viewport": {"width": 1300, "height": 1400},
        "reduced_motion": "reduce",
        "args": FLAGS,
        "timeout": PATIENCE_S * 1000,
    }
    with TemporaryDirectory(prefix="parallab-browser-", ignore_cleanup_errors=True) as folder:
        chromiums = KEPT.get(_playwright).chromium
        with chromiums.launch_persistent_context(
            folder, executable_path=chromium(), headless=True, **settings
        ) as opened:
            opened.set_default_timeout(PATIENCE_S * 1000)
            first = opened.pages[0]  # stays open, and with it the process of the consoles' host and its scripts
            first.route("**", lambda route: route.fulfill(body="", content_type="text/html"))
            first.goto("http://127.0.0.1")
            if timed:
                opened.clock.install()
            yield opened


def _opened(shared: BrowserContext) -> Iterator[Page]:
    """Open a page that knows nobody, in a window that others have used. It can be told that its tab is hidden:
    `window.tabHidden = true` and the event.
    """
    opened = shared.new_page()
    opened.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.tabHidden === true });")
    yield opened
    for each in shared.pages[1:]:  # the window goes with its first
        each.close()
    shared.clear_cookies()
    shared.set_offline(False)


@pytest.fixture
def page() -> Iterator[Page]:
    """Open a page that knows nobody."""
    yield from _opened(KEPT.get(_window, False))


@pytest.fixture
def timed_page() -> Iterator[Page]:
    """Open such a page whose clock can be put forward."""
    yield from _opened(KEPT.get(_window, True))


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """Collect what the browser complains of on a page, and what the page asks of others than the console."""
    found: list[str] = []
    page.on(
        "console",
        lambda message: (
            found.append(f"{message.text} {message.location['url']}") if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("http://127.0.0.1:", "data:", "blob:")) else found.append(request.url)
        ),
    )
    return found


def sign_in(page: Page, address: str, name: str, password: str, to: str = "/") -> None:
    """Go to a page, which asks for a sign-in, and sign in there."""
    page.goto(address + to)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def chromium() -> str:
    """Return the path of Chromium, for a test marked `browser`."""
    found = program("chromium-headless-shell")
    assert found, "Mark this test `browser`."
    return found


def zoom(page: Page, plot: Locator, to: float = 0.53, down: float = 0) -> None:
    """Drag over a stretch of a plot, from its middle to a share `to` of its width, and `down` by some pixels."""
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.50, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * to, box["y"] + box["height"] / 2 + down, steps=5)
    page.mouse.up()
    wait_until(lambda: plot.evaluate("plot => plot.layout.xaxis.autorange") is False, "the drag zoomed")


def double_click(page: Page, plot: Locator) -> None:
    """Double-click the middle of a plot, however much time passes between the two clicks: plotly's own patience is half
    a second.
    """
    plot.evaluate(
        "plot => { plot._context.doubleClickDelay = 600_000; plot._mouseDownTime = 0; return "
        "Plotly.redraw(plot).then(() => {}); }"
    )
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
