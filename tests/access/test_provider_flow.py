"""The way by a real provider into a real console, walked by a browser without scripts: who gets in, as what, and what
no copied or made-up cookie opens.
"""

from collections.abc import Iterator
from secrets import token_hex

import httpx
import pytest
from itsdangerous import URLSafeTimedSerializer
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.authorization import Entry
from tests.access.labs import Browser, Provider, lab_with_provider, said
from tests.browser.conftest import Console
from tests.conftest import end_processes_of
from tests.labs import small
from tests.waiting import PATIENCE_S

Lab = tuple[Console, Provider]

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Serve a lab whose admin is Ada; each test has people of its own."""
    folder = tmp_path_factory.mktemp("provider")
    home = Home(folder / "home").create()
    small.without_a_runner(home)
    with lab_with_provider(home, folder) as (console, provider), Browser(console) as browser:
        provider.knows("ada", "lab-admins", email="ada@example.org")
        browser.sign_in("ada")
        yield console, provider
    end_processes_of(home)


@pytest.fixture
def browser(lab: Lab) -> Iterator[Browser]:
    with Browser(lab[0]) as opened:
        yield opened


def socket(console: Console, cookies: str) -> ClientConnection:
    address = f"ws://127.0.0.1:{console.port}/_stcore/stream"
    return connect(
        address, additional_headers={"Cookie": cookies, "Origin": console.address}, proxy=None, open_timeout=PATIENCE_S
    )


def opens(console: Console, cookies: str) -> tuple[bool, bool]:
    """Say whether cookies open a page, and whether they open a socket."""
    page = httpx.get(console.address, headers={"cookie": cookies, "accept": "text/html"}, timeout=PATIENCE_S)
    try:
        with socket(console, cookies):
            return page.status_code == 200, True
    except InvalidStatus as refused:
        return page.status_code == 200, refused.response.status_code != 403


def newest(console: Console) -> Entry:
    with Reader.open(console.home) as reader:
        return reader.audit.entries(limit=1)[0]


def role_of(console: Console, name: str) -> str:
    with Reader.open(console.home) as reader:
        return reader.people.one(name).role


def test_a_first_sign_in_makes_a_member_by_group_and_the_next_one_follows_the_groups(
    lab: Lab, browser: Browser
) -> None:
    console, provider = lab
    provider.knows("mia", "others", "lab-members")
    at_provider = browser.go_to_provider(wanted="/runs?q=1")
    assert {"S256"} == {at_provider.url.params["code_challenge_method"]} and at_provider.url.params["nonce"]
    back = browser.post(str(at_provider.url), data={"sub": "mia"})
    assert (back.status_code, back.url.raw_path) == (200, b"/runs?q=1")
    assert browser.get("/api/token").status_code == 200
    assert (role_of(console, "Mia"), newest(console).command) == ("member", "sign in")
    first = browser.session()
    provider.knows("mia", "lab-guests")
    browser.sign_in("mia")
    assert (role_of(console, "Mia"), browser.session() != first) == ("viewer", True)
    assert opens(console, f"parallab_session={first}") == (False, False)  # the sign-in before ended with the new one
    with Store.open(console.home) as store:
        store.people.set_role("Mia", "member", by="Ada")
    browser.sign_in("mia")
    assert role_of(console, "Mia") == "member"
    provider.knows("nina", "others")
    assert said(browser.sign_in("nina")).startswith("Nina has no access to this lab yet")


def test_a_sign_out_ends_all_that_the_cookies_opened_and_no_copy_of_them_opens_it_again(
    lab: Lab, browser: Browser
) -> None:
    console, provider = lab
    provider.knows("sam", "lab-members", name="Sam", email="sam@example.org")
    browser.sign_in("sam")
    ours, theirs = f"parallab_session={browser.session()}", f"_streamlit_user={browser.cookies['_streamlit_user']}"
    assert opens(console, ours) == (True, True)
    assert opens(console, theirs) == (False, False)  # what Streamlit would take for thirty days
    kept = {cookie.name: (cookie.path, cookie.has_nonstandard_attr("HttpOnly")) for cookie in browser.cookies.jar}
    assert kept["parallab_session"] == ("/", True)
    assert {kept[name] for name in kept if name.startswith("_streamlit_user")} == {("/auth", True)}
    with socket(console, ours) as opened:
        assert "Redirecting to your provider's sign-out" in browser.post("/signout").text
        opened.send(b"")
        with pytest.raises(ConnectionClosed):
            opened.recv(timeout=PATIENCE_S)
    assert newest(console).command == "sign out"
    for copied in (ours, theirs, f"{ours}; {theirs}"):
        assert opens(console, copied) == (False, False)
    at_provider = browser.get("/auth/logout")
    assert at_provider.url.path == "/oauth2/end_session"
    assert not [
        cookie.name for cookie in browser.cookies.jar if cookie.name.startswith(("_streamlit_user", "parallab_session"))
    ]
    assert said(browser.get(at_provider.url.params["post_logout_redirect_uri"])) == "You have signed out."


def test_no_cookie_that_is_made_up_or_another_s_opens_anything(lab: Lab) -> None:
    console = lab[0]
    claims = (
        f'{{"origin": "{console.address}", "is_logged_in": true, "provider": "lab", "sub": "ada", "iss": '
        f'"{lab[1].address}"}}'
    )
    for key in (
        "a guess",
        "c" * 40,
    ):  # the second is the console's own: even a cookie that Streamlit would take opens nothing
        forged = URLSafeTimedSerializer(key, salt="_streamlit_user").dumps(claims)
        assert opens(console, f"_streamlit_user={forged}; parallab_session={forged}") == (False, False)
    stranger = Home(console.home.path.parent / "elsewhere").create()
    with Store.open(stranger) as store:
        store.people.add("Ada", "admin", by="first")
        foreign = store.sign_ins.begin("Ada", "provider")
    assert opens(console, f"parallab_session={foreign}") == (False, False)


def test_who_is_shut_out_is_out_at_once_and_stays_out(lab: Lab, browser: Browser) -> None:
    console, provider = lab
    provider.knows("kim", "lab-members", *[token_hex(16) for _ in range(400)])
    browser.sign_in("kim")
    assert "_streamlit_user_2" in browser.cookies  # so long a token comes in several cookies
    assert browser.get("/api/token").status_code == 200
    with Store.open(console.home) as store:
        store.people.disable("Kim", by="Ada")
    assert browser.get("/api/token").status_code == 401
    assert said(browser.sign_in("kim")) == "The account Kim is disabled. An admin can enable it."


def test_only_a_verified_address_links_an_account_that_an_admin_made(lab: Lab, browser: Browser) -> None:
    console, provider = lab
    with Store.open(console.home) as store:
        store.people.add("Vera", "viewer", by="Ada", email="vera@example.org", password="a long enough one")
    provider.knows("v1", email="vera@example.org", verified=False)
    assert said(browser.sign_in("v1")).endswith("Your e-mail address was ignored: the provider has not verified it.")
    provider.knows("v2", email="vera@example.org")
    assert browser.sign_in("v2").status_code == 200
    with Reader.open(console.home) as reader:
        assert [each.way for each in reader.sign_ins.of("Vera")] == ["provider"]
    with Browser(console) as other:  # and the password still does
        assert other.post("/signin", data={"name": "vera", "password": "a long enough one"}).url.path == "/"
        assert other.get("/api/token").status_code == 200


def test_what_fails_on_the_way_is_told_in_a_sentence(lab: Lab, browser: Browser) -> None:
    console, provider = lab
    provider.knows("ada", "lab-admins", email="ada@example.org")
    gone = browser.go_to_provider("gone", "/runs")
    assert (gone.status_code, said(gone).split(",")[0]) == (502, "Gone ID does not respond")
    assert 'href="/signin/provider?at=lab&amp;next=%2Fruns"' in gone.text  # where they wanted to go is not forgotten
    assert said(browser.sign_in("ada", "wrong")).startswith(
        "Invalid response from wrong: sign-in failed. The usual causes are a wrong client secret"
    )
    asked = str(browser.go_to_provider().url)
    assert said(browser.post(asked, data={"action": "deny"})) == "Sign-in failed: cancelled or refused at Lab ID."
    for query in ("code=x&state=y", "code=x", "state=", "error=access_denied", "error=access_denied&state=y"):
        assert said(browser.get(f"/oauth2callback?{query}")).startswith("This sign-in was not started in this browser")
    stolen = httpx.post(str(browser.go_to_provider().url), data={"sub": "ada"}, timeout=PATIENCE_S).headers["location"]
    with Browser(console) as other:  # an answer meant for another browser signs nobody in
        assert said(other.get(stolen)).startswith("This sign-in was not started in this browser")
        assert other.get("/signin/provider?at=nobody").url.path == "/signin"
        assert other.get("/auth/login?provider=x").url.path == "/signin"
    assert browser.session() == ""
    assert browser.get(stolen).url.path == "/" and browser.session()
    log = (console.home.path / "console.log").read_text()
    assert not [
        secret
        for secret in ("c" * 40, "not-the-secret", browser.session(), httpx.URL(stolen).params["code"])
        if secret in log
    ]


def test_who_comes_by_another_name_of_the_console_is_moved_to_the_one_that_the_provider_knows(
    lab: Lab, browser: Browser
) -> None:
    console = lab[0]
    asked = browser.get(f"http://localhost:{console.port}/signin/provider?at=lab&next=/runs")
    assert str(browser.post(str(asked.url), data={"sub": "ada"}).url) == f"{console.address}/runs"


def test_a_wanted_address_elsewhere_is_not_followed(lab: Lab, browser: Browser) -> None:
    for wanted in ("https://evil.example/", "//evil.example", "/auth/logout"):
        landed = browser.sign_in("ada", wanted=wanted)
        assert str(landed.url) == f"{lab[0].address}/"
