"""A real console in a lab with accounts: every route of it is shut to whoever has not signed in, and an open socket
outlives no sign-out.
"""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.core.visitor import COOKIE
from engine.home import ROOT, Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import key_of
from engine.upkeep.backups import back_up, restore
from tests.access.people import PASSWORD, settle
from tests.browser.conftest import Console
from tests.labs import small
from tests.waiting import PATIENCE_S

ROUTES = """
import json
from app.asgi import app
print(json.dumps([[type(route).__name__, route.path, sorted(getattr(route, "methods", None) or [])] for route in app._build_starlette_app().routes]))
"""  # noqa: E501
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
WANTED = ("/api/token", "/_stcore/health", "/run")
ODD: tuple[Callable[[str], str], ...] = (
    lambda path: f"/{path}",
    lambda path: f"//{path}",
    lambda path: f"/.{path}",
    lambda path: path.upper(),
    lambda path: f"{path}/",
    lambda path: f"{path};x=1",
    lambda path: f"{path}%00",
    lambda path: f"{path}%20",
    lambda path: f"{path}?x=/healthz",
    lambda path: f"/%2e%2e{path}",
    lambda path: f"/healthz/..{path}",
    lambda path: f"/healthz/%2e%2e{path}",
    lambda path: f"/signin/..{path}",
    lambda path: f"/signin%2f..{path}",
    lambda path: f"/signin;{path}",
    lambda path: f"/signin%00{path}",
    lambda path: f"/%{ord(path[1]):02x}{path[2:]}",
    lambda path: f"\\{path[1:]}",
    lambda path: f"http://127.0.0.1{path}",
    lambda path: path[1:],
)
"""Ways to write a path that some servers take for another one."""

pytestmark = pytest.mark.processes


@dataclass
class Door:
    """The console, and what it answers to."""

    console: Console
    home: Home

    def ask(self, method: str, target: str, **headers: str) -> tuple[int, dict[str, str]]:
        """Send a request exactly as it is written here; return the status and the headers."""
        lines = {"Host": f"127.0.0.1:{self.console.port}", "Connection": "close"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        with socket.create_connection(("127.0.0.1", self.console.port), timeout=PATIENCE_S) as client:
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            client.sendall(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
            answer = b""
            while b"\r\n\r\n" not in answer and (part := client.recv(65_536)):
                answer += part
        status, *rest = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        return int(status.split()[1]), {
            name.lower(): value for name, _, value in (line.partition(": ") for line in rest)
        }

    def sign_in(self, name: str) -> str:
        """Return the cookie of a browser on which somebody has just signed in."""
        answer = httpx.post(
            f"{self.console.address}/signin", data={"name": name, "password": PASSWORD}, timeout=PATIENCE_S
        )
        assert answer.status_code == 303
        return f"{COOKIE}={answer.cookies[COOKIE]}"

    def open(self, cookie: str = "", origin: str | None = None) -> ClientConnection:
        """Open the socket of a page."""
        headers = {"Cookie": cookie} if cookie else {}
        address, ours = f"ws://127.0.0.1:{self.console.port}/_stcore/stream", origin or self.console.address
        return connect(
            address,
            origin=ours,
            additional_headers=headers,
            subprotocols=["streamlit"],
            max_size=None,
            open_timeout=PATIENCE_S,
        )  # type: ignore[arg-type,list-item]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    home = Home(tmp_path_factory.mktemp("lab") / "home").create()
    settle(home, "mo", "mia", "max", "may", "zoe")
    small.without_a_runner(home)
    console = Console(home)
    console.start()
    yield Door(console, home)
    console.stop()


@pytest.fixture(scope="module")
def routes() -> list[tuple[str, str, list[str]]]:
    """Return every route of the console, Streamlit's among them: kind, path, methods."""
    told = subprocess.run(
        [sys.executable, "-c", ROUTES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return [(kind, path, methods) for kind, path, methods in json.loads(told.stdout.splitlines()[-1])]


PROVIDERS = ("/signin/provider", "/auth/login", "/auth/logout", "/oauth2callback")
"""The ways to a provider and back, which lead to the form where the lab has none."""


def test_every_route_is_shut_without_a_sign_in(door: Door, routes: list[tuple[str, str, list[str]]]) -> None:
    paths = sorted(
        {re.sub(r"\{[^}]*\}", "x", path) or "/" for kind, path, _ in routes if kind != "WebSocketRoute"}
        | {"/", "/run", "/static/x.js", "/nothing"}
    )
    assert {
        "/api/token",
        "/_stcore/upload_file/x/x",
        "/media/x",
        "/_stcore/metrics",
        "/healthz",
        "/signin",
        "/signout",
    } <= set(paths)
    found = {(method, path): door.ask(method, path)[0] for path in paths for method in METHODS}
    let_in = {asked: status for asked, status in found.items() if status != 401}
    public = {
        **{(method, "/healthz"): 200 if method in ("GET", "HEAD") else 405 for method in METHODS},
        **{(method, "/signin"): {"GET": 200, "HEAD": 200, "POST": 401}.get(method, 405) for method in METHODS},
        **{(method, "/signout"): 303 if method in ("GET", "HEAD", "POST") else 405 for method in METHODS},
        **{(method, path): 303 if method in ("GET", "HEAD") else 405 for method in METHODS for path in PROVIDERS},
    }
    assert {asked: status for asked, status in let_in.items() if public.get(asked) != status} == {}
    assert {asked: found[asked] for asked in public} == public
    assert [path for kind, path, _ in routes if kind == "WebSocketRoute"] == ["/_stcore/stream"]


@pytest.mark.parametrize("path", WANTED)
def test_no_way_of_writing_a_path_leads_round_the_door(door: Door, path: str) -> None:
    for write in ODD:
        for accept in ("*/*", "text/html"):
            status, headers = door.ask("GET", write(path), accept=accept)
            assert status in (303, 400, 401), f"{write(path)} was answered {status}"
            assert headers.get("location", "/signin").startswith("/signin")


def test_a_foreign_host_or_a_second_one_is_refused(door: Door) -> None:
    cookie = door.sign_in("zoe")
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "evil.example:8501", ""):
        assert door.ask("GET", "/api/token", Host=host, Cookie=cookie)[0] == 400
    assert door.ask("GET", "/api/token", Cookie=cookie, X_Forwarded_Host="evil.example")[0] == 200
    assert door.ask("GET", "/api/token", Cookie=f"{cookie}\r\nHost: evil.example")[0] == 400
    assert door.ask("GET", "/api/token", Cookie="parallab_session=\xff\x01; =; a=b")[0] in (400, 401)


def test_a_request_whose_headers_do_not_end_is_given_up(door: Door) -> None:
    with socket.create_connection(("127.0.0.1", door.console.port), timeout=PATIENCE_S) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{door.console.port}\r\n".encode())
        with suppress(ConnectionError):
            for _ in range(64):  # a megabyte in all; whoever keeps it could be sent any number
                client.sendall(b"X-More: " + b"a" * 16_384 + b"\r\n")
        with suppress(ConnectionError):
            assert b" 400 " in client.recv(65_536).partition(b"\r\n")[0]
            while client.recv(65_536):
                pass


def test_a_direct_client_cannot_name_the_place_that_its_failures_are_counted_at(door: Door) -> None:
    answers = []
    for number in range(11):
        form = {"name": "mallory", "password": "guessed", "next": "/"}
        headers = {"x-forwarded-for": f"198.51.100.{number}"}
        answers.append(httpx.post(f"{door.console.address}/signin", data=form, headers=headers, timeout=PATIENCE_S))
    assert {answer.status_code for answer in answers} == {401}
    assert ["Too many failed sign-ins" in answer.text for answer in answers] == [False] * 10 + [True]


def test_a_socket_opens_for_who_has_signed_in_on_our_own_page_alone(door: Door) -> None:
    cookie = door.sign_in("zoe")
    for given, origin in (
        ("", None),
        (f"{COOKIE}=forged", None),
        (cookie, "http://localhost:9"),
        (cookie, "https://evil.example"),
    ):
        with pytest.raises(InvalidStatus, match="403"):
            door.open(given, origin)
    with door.open(cookie) as page:
        assert talk(page)


def talk(page: ClientConnection) -> bool:
    """Have the first page's script run; say whether the browser was given the lab's pages."""
    page.send(BackMsg(rerun_script=ClientState(page_name="machine")).SerializeToString())
    pages = False
    while True:
        message = ForwardMsg.FromString(page.recv(timeout=PATIENCE_S, decode=False))
        pages = pages or message.WhichOneof("type") == "navigation"
        if message.WhichOneof("type") == "script_finished":
            return pages


def _sign_out(door: Door, cookie: str) -> None:
    assert (
        httpx.post(f"{door.console.address}/signout", headers={"cookie": cookie}, timeout=PATIENCE_S).status_code == 303
    )


def _other_password(door: Door, _: str) -> None:
    with Store.open(door.home) as store:
        store.people.set_password("mia", f"{PASSWORD} of late", by="mia")


def _shut_out(door: Door, _: str) -> None:
    with Store.open(door.home) as store:
        store.people.disable("max", by="ada")


def _restore(door: Door, _: str) -> None:
    restore(door.home, back_up(door.home, by="ada").path, by="ada")


ENDS: dict[str, Callable[[Door, str], None]] = {
    "mo": _sign_out,
    "mia": _other_password,
    "max": _shut_out,
    "may": _restore,
}
"""By whom it happens to."""


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_sign_in_ends_its_cookie_and_its_open_socket(door: Door, name: str) -> None:
    cookie = door.sign_in(name)
    with door.open(cookie) as page:
        assert talk(page)
        assert door.ask("GET", "/api/token", Cookie=cookie)[0] == 200
        ENDS[name](door, cookie)
        assert [
            door.ask("GET", path, Cookie=cookie)[0] for path in ("/api/token", "/media/x", "/_stcore/health", "/run")
        ] == [401] * 4
        with pytest.raises(ConnectionClosed):
            talk(page)
        assert page.close_code == 1008
    with pytest.raises(InvalidStatus, match="403"):
        door.open(cookie)
    assert sum("Traceback" in line for line in (door.home.path / "console.log").read_text().splitlines()) == 0


def test_a_restored_backup_brings_back_runs_and_no_access(home: Home) -> None:
    with Store.open(home):
        pass
    without_accounts = back_up(home, by="root").path
    settle(home, "mo", "mia")
    with Store.open(home) as store:
        mo, token = store.sign_ins.begin("mo", "password"), store.tokens.make("mia", "a", "read", by="mia")
    with_both = back_up(home, by="ada").path
    with Store.open(home) as store:
        store.people.disable("mo", by="ada")
        store.people.set_role("mia", "viewer", by="ada")
        store.people.set_password("ada", "another fine sentence", by="ada")
        store.people.add("zoe", "member", by="ada")
    with Reader.open(home) as reader:
        accounts = reader.people.accounts()
    for made in (with_both, without_accounts):
        restore(home, made, by="ada")
        with Reader.open(home) as reader:
            assert reader.people.accounts() == accounts
            assert (reader.tokens.holder(token), reader.sign_ins.signed_in(key_of(mo)), reader.sign_ins.of("mo")) == (
                None,
                None,
                [],
            )
            assert reader.access.has_people()
            assert reader.audit.entries(command="restore")[0].who == "ada"
        assert not home.restoring.exists()
