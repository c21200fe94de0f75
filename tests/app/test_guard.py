import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse

from app.guard import Guard
from engine.home import Home
from tests.app.browsing import BASE, Client


@pytest.fixture
def client(home: Home) -> Client:
    return Client()


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:9", "http://127.0.0.1:8502", "null", "http://127.0.0.1:8501.evil.example"])
def test_a_foreign_origin_is_refused_on_our_routes(client: Client, origin: str) -> None:
    assert client.get("/api/token", headers={"origin": origin}).status_code == 403
    answer = client.post("/api/name", json={"name": "Ada"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_from_another_site_without_origin_is_refused(client: Client, site: str) -> None:
    assert client.get("/api/token", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("headers", [{}, {"origin": BASE}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}])
def test_our_own_pages_and_plain_clients_are_answered(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/api/token", headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "", "localhost@evil", "[::2]"])
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


def test_every_cookie_is_kept_from_unencrypted_connections_where_people_come_over_https(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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


FOREIGN = [{"origin": "http://evil.example"}, {"origin": "http://[bad"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}]


@pytest.mark.parametrize("headers", [*FOREIGN, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}])
def test_a_foreign_page_gets_nothing_but_links(client: Client, headers: dict[str, str]) -> None:
    for path in ("/media/x", "/_stcore/upload_file/a/b", "/run", "/signin", "/signout"):
        assert client.get(path, headers=headers).status_code == 403
        assert client.post(path, headers=headers).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/signin", headers=link).status_code == 303, "a link from elsewhere leads to the page"
    assert client.post("/signin", headers=link).status_code == 403
