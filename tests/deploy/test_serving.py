"""Where the console may be served, and that no way in goes round it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from app.auth.middleware import is_near
from app.core.assets import at, cookie_path, inside
from app.core.console_address import FAR, REFUSED, ConsoleAddress, refusal
from app.core.visitor import safe_way
from app.ui.widgets import PAGES
from engine.errors import ConfigError
from engine.home import ROOT, Home
from engine.store import Store
from engine.system.runner_process import is_running, runner_process
from tests.app.browsing import Client
from tests.browser.conftest import free_port
from tests.waiting import PATIENCE_S, wait_until

WORDS = "correct horse battery"


@pytest.fixture
def port() -> int:
    return free_port()


@contextmanager
def started(home: Home, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a console by one of the ways in, which ends with the block."""
    surroundings = os.environ | {"PARALLAB_HOME": str(home.path), "PARALLAB_RUNNER": "separate"} | environment
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=surroundings,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


WAYS: dict[str, Callable[[int], list[str]]] = {
    "the one way in": lambda port: ["app", "--port", str(port), "--address", "0.0.0.0"],
    "streamlit itself": lambda port: [
        "streamlit",
        "run",
        "app/asgi.py",
        "--server.port",
        str(port),
        "--server.address",
        "0.0.0.0",
    ],
    "uvicorn": lambda port: ["uvicorn", "app.asgi:app", "--port", str(port), "--host", "0.0.0.0"],
}


@pytest.mark.processes
@pytest.mark.parametrize("way", WAYS)
def test_without_accounts_no_way_in_serves_beyond_loopback(home: Home, port: int, way: str) -> None:
    with started(home, *WAYS[way](port)) as console:
        _, said = console.communicate(timeout=PATIENCE_S)
    assert (console.returncode, FAR in said) == (REFUSED, True), said


@pytest.mark.processes
def test_with_an_account_it_serves_by_the_names_it_was_given(home: Home, port: int) -> None:
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada", password=WORDS)
    with started(
        home,
        "app",
        PARALLAB_ADDRESS="0.0.0.0",
        PARALLAB_PORT=str(port),
        PARALLAB_HOSTS="lab.example.org",
        STREAMLIT_SERVER_HEADLESS="false",  # would ask for an e-mail address and wait
        STREAMLIT_GLOBAL_DEVELOPMENT_MODE="true",
        STREAMLIT_SERVER_PORT="1",
    ) as console:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _status(f"{address}/healthz") == 200 or console.poll() is not None, "the console answers")
        assert _status(f"{address}/healthz", "lab.example.org") == 200
        assert _status(f"{address}/healthz", "other.example.org") == 400
        assert _status(f"{address}/api/token", "lab.example.org") == 401
        wait_until(lambda: _is_healthy(port), "a health check, which gives a busy machine 4 s, finds it well")


@pytest.mark.processes
def test_a_second_start_of_a_served_console_starts_the_runner_that_was_stopped(home: Home, port: int) -> None:
    with started(home, "app", "--port", str(port)):
        wait_until(lambda: _status(f"http://127.0.0.1:{port}/healthz") == 200, "the console answers")
        with started(home, "app", "--port", str(port), PARALLAB_RUNNER="") as second:
            _, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0
        assert said.startswith(
            f"The console is running already; started a runner for {home.path}.\n"
            f"Parallab is on http://127.0.0.1:{port}/?token="
        )
        wait_until(lambda: runner_process(home) is not None, "the runner is alive")
        with started(home, "app", "--port", str(port), PARALLAB_RUNNER="") as third:
            _, said = third.communicate(timeout=PATIENCE_S)
        assert (third.returncode, "in use by a Parallab console" in said) == (1, True)
    with Store.open(home) as store:
        store.runner.ask_to_stop()
    wait_until(lambda: not is_running(home), "the runner has stopped")


def _status(address: str, host: str = "") -> int:
    try:
        return httpx.get(address, headers={"host": host} if host else {}, timeout=PATIENCE_S).status_code
    except httpx.HTTPError:
        return 0


def _is_healthy(port: int) -> bool:
    told = os.environ | {"PARALLAB_PORT": str(port), "PARALLAB_ADDRESS": "0.0.0.0"}
    return subprocess.run([sys.executable, "-m", "app.web.port_check"], cwd=ROOT, env=told).returncode == 0


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PARALLAB_ADDRESS": "lab.example.org"}, "PARALLAB_ADDRESS must be an address to listen on"),
        ({"PARALLAB_ADDRESS": "https://lab.example.org"}, "the URL of links into PARALLAB_PUBLIC_URL."),
        (
            {"PARALLAB_PUBLIC_URL": "lab.example.org"},
            "PARALLAB_PUBLIC_URL must be a URL such as https://lab.example.org, got 'lab.example.org'.",
        ),
        ({"PARALLAB_PORT": "70000"}, "PARALLAB_PORT must be a whole number from 1 to 65535, got '70000'."),
        ({"PARALLAB_PORT": "٣"}, "PARALLAB_PORT must be"),
        ({"PARALLAB_HOSTS": "a.example, https://b.example"}, "got 'https://b.example'."),
        ({"PARALLAB_HOSTS": "*"}, "PARALLAB_HOSTS must be host names"),
        ({"PARALLAB_BASE": "/lab//two"}, "PARALLAB_BASE must be a path"),
        ({"PARALLAB_BASE": "/.."}, "PARALLAB_BASE must be a path"),
    ],
)
def test_a_value_that_cannot_be_is_told_with_its_rule(environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        ConsoleAddress.of(environment)
    assert said in str(error.value)


def test_what_the_environment_asks_for_is_read(home: Home) -> None:
    plain = ConsoleAddress.of({})
    assert (plain.address, plain.port, plain.base, plain.is_near) == ("127.0.0.1", 8501, "", True)
    asked = ConsoleAddress.of(
        {
            "PARALLAB_ADDRESS": "::",
            "PARALLAB_PORT": "9000",
            "PARALLAB_HOSTS": "Lab.Example, *.example.org",
            "PARALLAB_BASE": "lab/one/",
        }
    )
    assert (asked.address, asked.port, asked.base) == ("::", 9000, "/lab/one")
    assert asked.hosts == ("localhost", "127.0.0.1", "[::1]", "lab.example", "*.example.org")
    assert [
        refusal(ConsoleAddress.of(each)) for each in ({}, {"PARALLAB_ADDRESS": "::1"}, {"PARALLAB_BASE": "/lab"})
    ] == [
        "",
        "",
        "",
    ]
    assert refusal(ConsoleAddress.of({"PARALLAB_HOSTS": "lab.example"})) == FAR, (
        "other names than this machine's are of no use to people of this machine"
    )
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada", password=WORDS)
    assert refusal(asked) == ""


@pytest.mark.parametrize(
    ("server", "client", "near"),
    [
        (("127.0.0.1", 8501), ("127.0.0.1", 9), True),
        (("::1", 8501), ("::1", 9), True),
        (("127.0.0.1", 8501), ("192.0.2.7", 0), False),
        (("192.0.2.1", 8501), ("127.0.0.1", 9), False),
        (("127.0.0.1", 8501), ("unknown", 0), False),
        (("testserver", 80), ("127.0.0.1", 9), False),
        (("/run/socket", None), None, True),
    ],
)
def test_who_comes_through_a_proxy_on_this_machine_is_as_far_as_they_are(
    server: tuple[str, int | None], client: tuple[str, int] | None, near: bool
) -> None:
    assert is_near({"type": "http", "headers": [], "server": server, "client": client}) is near


# ---- under a path --------------------------------------------------------------------------------------------------


@pytest.fixture
def under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_BASE", "/lab")


@pytest.mark.usefixtures("under")
def test_under_a_path_all_of_ours_is_there_and_nothing_beside_it(home: Home) -> None:
    assert (
        at("/run?run=5"),
        inside("/lab/run"),
        inside("/lab"),
        inside("/labs"),
        inside("/api/token"),
        cookie_path(),
    ) == (
        *("/lab/run?run=5", "/run", "/", "/labs", "/api/token"),
        "/lab",
    )
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada", password=WORDS)
    client = Client()
    assert [client.get(path).status_code for path in ("/healthz", "/lab/healthz", "/lab/api/token", "/api/token")] == [
        200,
        200,
        401,
        401,
    ]
    page = {"accept": "text/html"}
    assert client.get("/lab/run?run=5", headers=page).headers["location"] == "/lab/signin?next=/lab/run%3Frun%3D5"
    assert [client.get(path, headers=page).headers["location"] for path in ("/", "/lab/")] == [
        "/lab/signin",
        "/lab/signin",
    ]
    answer = client.post("/lab/signin", data={"name": "ada", "password": WORDS, "next": "/lab/run?run=5"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/lab/run?run=5")
    assert "path=/lab;" in answer.headers["set-cookie"].lower()
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert client.get("/lab/api/token", headers={"cookie": cookie}).status_code == 200
    assert client.get("/", headers={"cookie": cookie}).headers["location"] == "/lab/"
    left = client.post("/lab/signout", headers={"cookie": cookie})
    assert (left.headers["location"], "path=/lab;" in left.headers["set-cookie"].lower()) == ("/lab/signin?out", True)
    assert client.get("/lab/api/token", headers={"origin": "http://evil.example"}).status_code == 403


@pytest.mark.usefixtures("under")
@pytest.mark.parametrize(
    "wanted",
    [
        "/",
        "/run",
        "//evil.example/lab/",
        "/lab/signin",
        "/lab/api/log",
        "https://evil.example/lab/",
        "/lab\\..",
        "/labs/run",
    ],
)
def test_under_a_path_a_way_out_of_it_leads_to_the_first_page(wanted: str) -> None:
    assert safe_way(wanted) == "/lab/"
    assert safe_way("/lab/run?run=5") == "/lab/run?run=5"


ADDRESSES = "|".join(PAGES)
LEAVES_THE_PATH = re.compile(
    r"""href=["']/(?!/)|action=["']/|fetch\([`"']/|src=["']/|link_button\("[^"]*", f?"/"""
    rf"""|return f?"/({ADDRESSES})\?|": f"/({ADDRESSES})\?"""
)


def test_every_address_of_ours_that_a_browser_gets_is_made_for_the_path() -> None:
    """What begins with a slash would leave the path; in browser code an address is relative, since each page lies right
    under it.
    """
    files = [
        path
        for folder in ("app", "pages")
        for path in sorted((ROOT / folder).rglob("*.*"))
        if path.suffix in (".py", ".js", ".html")
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if LEAVES_THE_PATH.search(line)
    ]
    assert not found
    assert all(
        map(
            LEAVES_THE_PATH.search,
            (
                '<a href="/run?run=5">',
                "fetch(`/api/series?",
                '"run": f"/run?run={run.id}"',
                'return f"/runs?{query}"',
            ),
        )
    )


def test_the_console_names_itself_and_its_url_not_streamlit() -> None:
    assert "hideWelcomeMessage = true" in (ROOT / ".streamlit" / "config.toml").read_text()
    assert ConsoleAddress("127.0.0.1", 8502, base="/lab").url == "http://127.0.0.1:8502/lab"
    assert ConsoleAddress("::1").url == "http://[::1]:8501"
