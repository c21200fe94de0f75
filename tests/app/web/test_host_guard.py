"""Requests from foreign hosts and origins, safe headers, and signed name cookies."""

import asyncio
import json
import stat
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from app.auth.middleware import Guard
from app.core import visitor
from engine import __version__
from engine.access.rules import Program
from engine.commands.accounts import sign_in
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Store
from engine.store.access.people import checked_name
from engine.store.schema.upgrade import newest
from tests.app.browsing import BASE, Client


@pytest.fixture
def client(home: Home) -> Client:
    return Client()


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1:9",
        "http://127.0.0.1:8502",
        "null",
        "http://127.0.0.1:8501.evil.example",
    ],
)
def test_a_foreign_origin_is_refused_on_our_routes(client: Client, origin: str) -> None:
    assert client.get("/api/token", headers={"origin": origin}).status_code == 403
    answer = client.post("/api/name", json={"name": "Ada"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_from_another_site_without_origin_is_refused(client: Client, site: str) -> None:
    assert client.get("/api/token", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize(
    "headers", [{}, {"origin": BASE}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}]
)
def test_our_own_pages_and_plain_clients_are_answered(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/api/token", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "", "localhost@evil", "[::2]"]
)
def test_an_unknown_host_is_refused(client: Client, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("second", ["evil.example", "127.0.0.1:8501"])
def test_a_second_host_is_refused_whoever_reads_the_request(client: Client, second: str) -> None:
    assert client.get("/healthz", headers=[("host", "127.0.0.1:8501"), ("host", second)]).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8501", "LOCALHOST", "[::1]:8501"])
def test_the_names_of_this_machine_are_known(client: Client, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_every_answer_carries_the_safe_headers(client: Client) -> None:
    for answer in (client.get("/healthz"), client.get("/api/token", headers={"origin": "http://evil.example"})):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "connect-src 'self' ws://127.0.0.1:8501" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_cookie_is_kept_from_unencrypted_connections_where_people_come_over_https(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PlainTextResponse("")
    answer.set_cookie("_streamlit_xsrf", "a")
    answer.set_cookie("parallab_session", "b", secure=True)

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(Guard(answer)), base_url=BASE) as client:
            return await client.get("/healthz")

    def cookies() -> list[str]:
        found = asyncio.run(asked())
        return [header.lower() for header in found.headers.get_list("set-cookie")]

    assert ["secure" in cookie for cookie in cookies()] == [False, True]
    monkeypatch.setenv("PARALLAB_HTTPS", "1")
    assert [cookie.count("; secure") for cookie in cookies()] == [1, 1]


FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "http://[bad"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
]


@pytest.mark.parametrize("headers", [*FOREIGN, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}])
def test_a_foreign_page_gets_nothing_but_links(client: Client, headers: dict[str, str]) -> None:
    for path in ("/media/x", "/_stcore/upload_file/a/b", "/run", "/signin", "/signout"):
        assert client.get(path, headers=headers).status_code == 403
        assert client.post(path, headers=headers).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/signin", headers=link).status_code == 303, "a link from elsewhere leads to the page"
    assert client.post("/signin", headers=link).status_code == 403


def test_a_signed_name_is_read_back_and_a_proof_is_no_cookie(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visitor.read(home, visitor.sign(home, "Ada Lovelace")) == "Ada Lovelace"
    assert visitor.read(home, visitor.sign(Home(tmp_path / "other"), "Ada")) is None
    first = visitor.sign(home, "Ada")
    assert stat.S_IMODE(home.cookie_key.stat().st_mode) == 0o600
    assert visitor.sign(home, "Ada") == first
    assert list(home.path.glob("cookie.key.*")) == []
    assert visitor.take_over(home, visitor.hand_over(home, "Ada")) == "Ada"
    assert visitor.read(home, visitor.hand_over(home, "Ada")) is None
    assert visitor.take_over(home, visitor.sign(home, "Ada")) is None
    proof = visitor.hand_over(home, "Ada")
    monkeypatch.setattr(visitor, "HANDOVER_AGE_S", -1)
    assert visitor.take_over(home, proof) is None
    assert checked_name("  Ada \n Lovelace ") == "Ada Lovelace"


@pytest.mark.parametrize("cookie", [None, "", "Ada", "IkFkYSI.forged", "💥"])
def test_a_cookie_without_our_signature_names_nobody(home: Home, cookie: str | None) -> None:
    assert visitor.read(home, cookie) is None


BAD = [
    ("", "at least one"),
    ("   ", "at least one"),
    (None, "at least one"),
    ("x" * 41, "at most 40"),
    ("a\x00b", "control"),
]


@pytest.mark.parametrize(("text", "word"), BAD)
def test_a_bad_name_is_refused_with_a_sentence(text: object, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        checked_name(text)


PASSWORD = "seven brown foxes"


def health(**options: object) -> tuple[int, dict[str, object]]:
    answer = Client().get("/healthz", **options)
    return answer.status_code, answer.json()


@pytest.fixture
def cookie(home: Home) -> dict[str, str]:
    """Give the lab an account, and the cookie of its sign-in."""
    with Store.open(home) as store:
        store.people.add("ada", "admin", by=Program("first"), password=PASSWORD)
    return {"cookie": f"parallab_session={sign_in(home, 'ada', PASSWORD)}"}


def damage(home: Home) -> None:
    for name in ("-wal", "-shm"):
        home.database.with_name(home.database.name + name).unlink(missing_ok=True)
    home.database.write_bytes(b"this is no database " * 500)


def test_an_empty_home_is_well_and_sentences_lose_its_paths(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.health._SINCE", float("-inf"))  # as after the seconds that a runner has to start
    status, told = health()
    assert (status, told.pop("disk_free_bytes", 0) > 0) == (200, True)  # type: ignore[operator]
    assert told == {
        "console": "parallab",
        "version": __version__,
        "store": "ok",
        "schema": newest(),
        "runner": "absent",
    }
    home = Home(tmp_path / "lab")
    assert home.unnamed(f"Run 9 doesn't exist in {home.database}. The list command shows all runs.") == (
        "Run 9 doesn't exist. The list command shows all runs."
    )
    assert home.unnamed(f"See {home.runner_log}.") == "See the home/runner.log."
    assert home.unnamed(f"The home {home.path} can't be made.") == "The home can't be made."


def test_strangers_are_told_whether_it_lives_and_no_path(home: Home, cookie: dict[str, str]) -> None:
    assert (health()[0], health()[1]["store"]) == (200, "ok")
    damage(home)
    status, told = health()
    assert (status, told["store"], told["runner"], told["schema"]) == (
        503,
        "The store is not an SQLite database. Move the file away, or set PARALLAB_HOME to another folder.",
        "unknown",
        None,
    )
    assert str(home.path) not in json.dumps(told)
    for path in ("/", "/signin", "/api/token", "/api/v1/runs", "/metrics"):
        answer = Client().get(path, headers=cookie)
        assert (answer.status_code, str(home.path) in answer.text, answer.headers["retry-after"]) == (503, False, "1")
