"""A real console on a free port, and Debian's Chromium to drive it; without one the tests are skipped, in CI they fail."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from engine.home import ROOT, Home
from tests.app import small_labs

START_S = PATIENCE_S = 120.0
PORTS = range(20_000, 32_000)
"""Below those that the kernel gives out by itself: nothing takes one between the look and the use, or while its console is down."""
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


expect.set_options(timeout=PATIENCE_S * 1000)  # the usual 5 s are short where two consoles, two browsers and their runs share two cores


class Console:
    """The console of one home, started as a person starts it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.home.path / "console.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app/asgi.py", "--server.port", str(self.port)],
                cwd=ROOT,
                env=os.environ | {"PARALLAB_HOME": str(self.home.path)} | self.settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, START_S, "the console answers")

    def stop(self) -> None:
        """End the server as Ctrl-C does, and wait for it."""
        if self._process:
            self._process.terminate()
            self._process.wait(timeout=PATIENCE_S)
            self._process = None

    def kill(self) -> None:
        """End the server as a crash does; `start` serves on the same port again."""
        if self._process:
            self._process.kill()
            self._process.wait(timeout=PATIENCE_S)
            self._process = None

    def health(self) -> dict[str, str]:
        """Return what /healthz says."""
        found: dict[str, str] = httpx.get(f"{self.address}/healthz", timeout=PATIENCE_S).json()
        return found

    def _answers(self) -> bool:
        try:
            return self.health()["store"] == "ok"
        except (httpx.HTTPError, ValueError):
            return False


@pytest.fixture
def still(home: Home) -> Home:
    """Give a home whose console, started after this, starts no runner and leaves runs as they are."""
    small_labs.without_a_runner(home)
    return home


@pytest.fixture
def console(home: Home) -> Iterator[Console]:
    """Serve the test's home."""
    served = Console(home)
    served.start()
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium once for the tests of a file; each has windows of its own, which share nothing."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), headless=True, args=FLAGS, timeout=PATIENCE_S * 1000)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a window that knows nothing yet. A page can be told that its tab is hidden: `window.tabHidden = true` and the event."""
    context = _window(browser)
    context.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.tabHidden === true });")
    yield context.new_page()
    context.close()


@pytest.fixture
def somebody(browser: Browser) -> Iterator[Callable[[], Page]]:
    """Return what opens a page in a window of its own each time: its cookies are no one else's."""
    windows: list[BrowserContext] = []

    def opened() -> Page:
        windows.append(_window(browser))
        return windows[-1].new_page()

    yield opened
    for window in windows:
        window.close()


def _window(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1300, "height": 1400})
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


def sign_in(page: Page, address: str, name: str, password: str, to: str = "/") -> None:
    """Go to a page, which asks for a sign-in, and sign in there."""
    page.goto(address + to)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def wait_until(holds: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Wait until something holds; fail with its name past the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"Within {deadline_s:g} s it was not so that {what}.")
        time.sleep(0.05)


def chromium() -> str:
    """Return where Chromium is; without it the test is skipped, in CI it fails."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found:
        return found
    line = "No Chromium was found (apt install chromium); the browser tests need one."
    if os.environ.get("CI"):
        pytest.fail(line)
    pytest.skip(line)


def double_click(page: Page, plot: Locator) -> None:
    """Double-click the middle of a plot, however much time passes between the two clicks: plotly's own patience is half a second."""
    plot.evaluate("plot => { plot._context.doubleClickDelay = 600_000; plot._mouseDownTime = 0; return Plotly.redraw(plot).then(() => {}); }")
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
