"""Sign-ins as browsers see them: never fixed beforehand, ended by time, of no use to whoever copies the store, and
given by our own form alone.
"""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from argon2 import PasswordHasher
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse

from app.auth import sign_in_routes
from app.auth.middleware import Gate, Guard
from app.core.visitor import COOKIE, HTTPS, STRICT_COOKIE, safe_way
from app.web.routes import routes
from engine.access import passwords
from engine.access.passwords import OF_A_NAME_FROM_ONE_PLACE, Patience
from engine.commands import accounts
from engine.errors import ConfigError, SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import IDLE_S, LASTS_S, NOBODY, SEEN_EVERY_S, key_of
from engine.store.timestamps import in_seconds
from tests import cheap
from tests.access.people import PASSWORD, come_in, cookies_of, is_in, secret_of, settle
from tests.app.browsing import BASE, Client
from tests.inputs import drawn
from tests.waiting import PATIENCE_S


class Checks(PasswordHasher):
    """Counts the checks of passwords, and how many there were at once; each waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=64, parallelism=1)
        self.count = self.now = self.most = 0
        self.go = threading.Event()
        self._lock = threading.Lock()

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:
        with self._lock:
            self.count, self.now = self.count + 1, self.now + 1
            self.most = max(self.most, self.now)
        self.go.wait(PATIENCE_S)
        try:
            return super().verify(hash, password)
        finally:
            with self._lock:
                self.now -= 1


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checks]:
    """Check passwords at little cost, and count that."""
    passwords._dummy_hash.cache_clear()
    found = Checks()
    found.go.set()
    monkeypatch.setattr(passwords, "_hasher", found)
    yield found
    found.go.set()
    passwords._dummy_hash.cache_clear()


@pytest.fixture
def client(home: Home, checks: Checks, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Give a lab with accounts, whose door has seen no failures yet."""
    monkeypatch.setattr(accounts, "patience", Patience())
    settle(home, "mo")
    return Client()


# ---- never fixed, never replayed -----------------------------------------------------------------------------------


def test_a_cookie_that_was_planted_before_is_not_the_one_after(client: Client) -> None:
    planted = "A" * 43
    first = secret_of(come_in(client, cookie=f"{COOKIE}={planted}"))
    assert first != planted
    assert (is_in(client, planted), is_in(client, first)) == (False, True)
    second = secret_of(come_in(client, cookie=f"{COOKIE}={first}"))
    assert (is_in(client, first), is_in(client, second)) == (False, True), (
        "signing in again ends what the browser had before"
    )


def test_a_copy_of_the_store_signs_nobody_in(client: Client, home: Home, tmp_path: Path) -> None:
    secret = secret_of(come_in(client))
    with Store.open(home) as store:
        token = store.tokens.make("ada", "a", "read", by="ada")
        store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    copy = tmp_path / "copy.db"
    shutil.copyfile(home.database, copy)
    assert secret.encode() not in copy.read_bytes()
    assert token.encode() not in copy.read_bytes()
    assert PASSWORD.encode() not in copy.read_bytes()
    with closing(sqlite3.connect(copy)) as found:
        kept = {
            str(value)
            for name in ("sign_ins", "tokens", "people")
            for row in found.execute(f"SELECT * FROM {name}")
            for value in row
        }
    assert key_of(secret) in kept
    assert not [
        value for value in kept if value.isascii() and value.isprintable() and ";" not in value and is_in(client, value)
    ]


@pytest.mark.parametrize(("column", "age_s"), [("expires_at", 1.0), ("seen_at", IDLE_S + 60)])
def test_a_sign_in_ends_by_age_and_by_idleness(
    client: Client, home: Home, column: str, age_s: float, reader: Reader
) -> None:
    secret = secret_of(come_in(client))
    (row,) = reader.db.rows("SELECT began_at, expires_at FROM sign_ins")
    assert row["expires_at"] > in_seconds(LASTS_S - 60)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute(f"UPDATE sign_ins SET {column} = ?", [in_seconds(-age_s)])
    assert not is_in(client, secret)


def test_who_was_signed_out_by_a_new_password_reads_that_on_the_sign_in_page(client: Client, home: Home) -> None:
    secret, why = secret_of(come_in(client)), "You were signed out because your password was changed."
    with Store.open(home) as store:
        store.people.end_sign_ins("ada", by="ada")
        other = secret_of(come_in(client))
        store.people.set_password("ada", f"{PASSWORD} of late", by="ada")
    shown = [client.get("/signin", headers={"cookie": f"{COOKIE}={each}"}).text for each in (other, secret, "none")]
    assert [why in page for page in shown] == [True, False, False]


def test_a_sign_in_that_is_used_does_not_idle(client: Client, home: Home, reader: Reader) -> None:
    secret = secret_of(come_in(client))
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE sign_ins SET seen_at = ?", [in_seconds(60 - IDLE_S)])
    assert is_in(client, secret)
    assert reader.db.rows("SELECT seen_at FROM sign_ins")[0][0] > in_seconds(-60)


def test_a_use_a_minute_after_the_last_one_is_recorded_even_if_that_was_recorded_late(
    client: Client, home: Home, reader: Reader
) -> None:
    key = key_of(secret_of(come_in(client)))
    with Store.open(home) as store:
        for age_s, is_noted in ((5, False), (SEEN_EVERY_S - 1, True)):
            with store.db.change() as connection:
                connection.execute("UPDATE sign_ins SET seen_at = ?", [before := in_seconds(-age_s)])
            store.sign_ins.note_use(key)
            assert (reader.quotas.last_seen() != {"ada": before}) == is_noted
    assert SEEN_EVERY_S <= 60, "what People shows as the last request is at most a minute old"


# ---- the form and the cookie ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("https", "name"), [("", COOKIE), ("1", STRICT_COOKIE)])
def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(
    client: Client, monkeypatch: pytest.MonkeyPatch, https: str, name: str
) -> None:
    monkeypatch.setenv(HTTPS, https)
    set_ = cookies_of(come_in(client))
    assert set(set_) == {name, sign_in_routes.COOKIE}
    for cookie in set_.values():
        assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (True, "lax", "/", "")
        assert bool(cookie["secure"]) == bool(https)
    secret = set_[name].value
    assert client.get("/api/token", headers={"cookie": f"{name}={secret}"}).status_code == 200
    if https:
        assert client.get("/api/token", headers={"cookie": f"{COOKIE}={secret}"}).status_code == 401, (
            "a name that any host may set is not taken over HTTPS"
        )


def test_only_a_post_of_our_own_form_signs_in_or_out(client: Client) -> None:
    fields = {"name": "ada", "password": PASSWORD}
    assert client.get("/signin", params=fields).status_code == 200
    for wrong in (
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
    ):
        answer = client.post("/signin", data=fields, headers=wrong)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert "set-cookie" not in client.post("/signin", json=fields, headers={"origin": BASE}).headers
    secret = secret_of(come_in(client))
    cookie = {"cookie": f"{COOKIE}={secret}"}
    assert client.get("/signout", headers=cookie).headers["location"] == "/"
    assert client.post("/signout", headers=cookie | {"origin": "http://evil.example"}).status_code == 403
    assert is_in(client, secret)
    gone = client.post("/signout", headers=cookie | {"origin": BASE})
    assert (gone.status_code, gone.headers["location"], cookies_of(gone)[COOKIE]["max-age"]) == (
        303,
        "/signin?out",
        "0",
    )
    assert not is_in(client, secret)


@drawn(
    100,
    wanted=st.one_of(
        st.text(),
        st.text(alphabet="/\\.:@?#%;&= \t\r\n\x00\u3000\uff0fabehtpsigno", max_size=20).map(lambda text: f"/{text}"),
        st.just("/run?run=1"),
    ),
)
def test_the_way_after_signing_in_never_leads_elsewhere(wanted: str) -> None:
    way = safe_way(wanted)
    for address in (way, RedirectResponse(way).headers["location"]):
        there = urlsplit(
            urljoin(
                "http://console.lab:8501/signin", address.translate({9: None, 10: None, 13: None}).replace("\\", "/")
            )
        )
        assert (there.scheme, there.netloc) == ("http", "console.lab:8501")
    assert way.startswith("/")
    assert not way.startswith(("//", "/api/", "/signin", "/signout"))


# ---- guessing ------------------------------------------------------------------------------------------------------


def test_passwords_are_hashed_as_rfc_9106_recommends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", cheap.USUAL)
    stored = passwords.hashed(PASSWORD)
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$") and not passwords.is_outdated(stored)
    assert passwords.fits(PASSWORD, stored) and not passwords.fits(f"{PASSWORD}x", stored)


@pytest.mark.parametrize(
    ("password", "words"),
    [
        ("ada-love", "must have 10 to 200 characters; got 8"),
        ("x" * 201, "got 201"),
        ("abcabcabcabc", "too few different characters"),
        ("Ada.Lovelace1", "too similar to the user name"),
    ],
)
def test_a_password_that_is_easily_guessed_is_refused(password: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        passwords.hashed(password, "ada.lovelace")


@pytest.mark.parametrize("password", ["blue lamp 7", "ada.lovelace and 6 more", "abcdabcdab", "abcd" * 50])
def test_a_password_may_hold_the_name_among_enough_else_and_be_about_as_long(password: str) -> None:
    assert passwords.fits(password, passwords.hashed(password, "ada.lovelace"))


def test_a_wrong_name_and_a_wrong_password_are_one_answer_and_one_check(
    client: Client, home: Home, checks: Checks, store: Store
) -> None:
    store.people.add("olga", "viewer", by="ada", email="olga@lab.org")
    store.people.disable("mo", by="ada")
    answers = []
    for name in ("ada", "nobody at all", "mo", "olga", ""):
        before = checks.count
        answer = come_in(client, name, "something else")
        assert (answer.status_code, checks.count - before) == (401, 1)
        assert NOBODY in answer.text
        answers.append(answer.text.replace(f'value="{name}"', ""))
    assert len(set(answers)) == 1


def test_the_right_password_of_a_disabled_account_is_answered_with_whom_to_ask(
    client: Client, store: Store, checks: Checks
) -> None:
    store.people.disable("mo", by="ada")
    for _ in range(OF_A_NAME_FROM_ONE_PLACE + 1):
        answer = come_in(client, "mo")
        assert answer.status_code == 401 and not cookies_of(answer)
        assert "The account mo is disabled. Ask an admin to enable it: ada." in answer.text
    assert checks.count == OF_A_NAME_FROM_ONE_PLACE + 1
    entry = store.read.audit.entries(command="sign in", limit=1)[0]
    assert (entry.who, entry.refused, entry.detail) == ("mo", "account disabled", "from=127.0.0.1")
    assert NOBODY in come_in(client, "mo", "wrong").text


def test_ten_failures_wait_and_keep_out_neither_other_places_nor_known_browsers(client: Client) -> None:
    seen = cookies_of(come_in(client))[sign_in_routes.COOKIE].value
    for name in ("ada", "who nobody is"):
        answers = [come_in(client, name, "wrong") for _ in range(OF_A_NAME_FROM_ONE_PLACE + 1)]
        assert [("Too many" in answer.text, NOBODY in answer.text) for answer in answers] == [(False, True)] * 10 + [
            (True, False)
        ]
    assert "Too many" in come_in(client).text, "the right password has to wait as well"
    assert come_in(client, cookie=f"{sign_in_routes.COOKIE}={seen}").status_code == 303
    assert "Too many" in come_in(client, cookie=f"{sign_in_routes.COOKIE}={seen}x").text, "a forged one is not known"
    assert come_in(client, "mo").status_code == 303, "another name is nobody's fault"


def test_failures_are_bounded_by_name_and_place_by_place_and_by_name() -> None:
    now = 0.0
    patience = Patience(lambda: now)

    def fails(name: str, address: str, known: str = "") -> bool:
        try:
            patience.begin("lab", name, address, known)
        except SignInRefused:
            return False
        return True

    assert [fails("ada", "10.0.0.1") for _ in range(11)] == [True] * 10 + [False]
    assert fails("ada", "10.0.0.2")
    assert [fails(f"name {number}", "10.9.9.9") for number in range(101)] == [True] * 100 + [False]
    assert [fails("mo", f"10.1.{number}.1") for number in range(101)] == [True] * 100 + [False]
    assert fails("mo", "10.1.0.1", known="a browser of mo's")
    assert [fails("eve", f"2001:db8::{number}") for number in range(11)] == [True] * 10 + [False], (
        "all of them are one customer's"
    )
    now = 901.0
    assert fails("ada", "10.0.0.1")


def test_failures_are_counted_exactly_where_many_try_at_once() -> None:
    patience, started = Patience(), threading.Barrier(20)

    def one(_: int) -> bool:
        started.wait(PATIENCE_S)
        try:
            patience.begin("lab", "ada", "10.0.0.1", "")
        except SignInRefused:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(one, range(20))) == OF_A_NAME_FROM_ONE_PLACE
    patience.forgive(patience.begin("lab", "ada", "10.0.0.2", ""))
    assert [len(failed) for key, failed in patience._failed.items() if "10.0.0.2" in str(key)] == [0, 0]


def test_checks_are_bounded_at_once_and_a_flood_of_them_holds_up_nobody_else(client: Client, checks: Checks) -> None:
    checks.go.clear()

    async def flood() -> tuple[list[httpx.Response], list[int]]:
        app = Starlette(routes=routes(), middleware=[Middleware(Guard), Middleware(Gate)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, timeout=PATIENCE_S) as browser:

            async def come(number: int) -> httpx.Response:
                return await browser.post(
                    "/signin", data={"name": f"name {number}", "password": "wrong"}, headers={"origin": BASE}
                )

            tries = [asyncio.create_task(come(number)) for number in range(sign_in_routes.MOST_WAITING + 6)]
            sent_away, _ = await asyncio.wait(tries, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            others = [(await browser.get("/healthz")).status_code for _ in range(50)]
            while checks.now < accounts.AT_ONCE:  # each has a thread, which may be late
                await asyncio.sleep(0.01)
            checks.go.set()
            assert sent_away
            return await asyncio.gather(*tries), others

    answers, others = asyncio.run(flood())
    assert sorted(answer.status_code for answer in answers) == [401] * sign_in_routes.MOST_WAITING + [503] * 6
    assert others == [200] * 50
    assert (checks.most, checks.count) == (accounts.AT_ONCE, sign_in_routes.MOST_WAITING)


def test_a_body_is_bounded_in_length_and_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"origin": BASE, "content-type": "application/x-www-form-urlencoded"}
    assert (
        client.post("/signin", content=b"name=" + b"x" * sign_in_routes.LONGEST_FORM, headers=form).status_code == 413
    )
    assert client.post("/signin", content="&".join(f"a{n}=1" for n in range(50)), headers=form).status_code == 401
    monkeypatch.setattr(sign_in_routes, "PATIENCE_S", 0.2)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"name=ada&"
        await asyncio.sleep(30)
        yield b"password=x"

    answer = client.post("/signin", content=slowly(), headers=form)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_nothing_that_was_typed_wrongly_is_kept(client: Client, home: Home, reader: Reader) -> None:
    typed = "hunter2-in-the-wrong-field"
    come_in(client, typed, "also wrong-hunter3")
    come_in(client, "Mo", "hunter4")
    who = [(entry.who, entry.detail, bool(entry.refused)) for entry in reader.audit.entries(command="sign in")]
    assert who == [("mo", "from=127.0.0.1", True), ("someone", "from=127.0.0.1", True)]
    files = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
    assert [word for word in (typed, "hunter3", "hunter4", PASSWORD) if word.encode() in files] == []
