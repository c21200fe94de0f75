"""The Account page, and the page on which a password is changed: what each shows, makes and ends."""

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from app.browsers import in_words
from app.doorway import COOKIE
from engine.access import own_password
from engine.access.own_password import change_password
from engine.access.patience import Patience
from engine.access.signing_in import sign_in as by_password
from engine.errors import SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.sign_ins import key_of
from tests.app import people_labs
from tests.app.browsing import BASE, Client
from tests.app.people_labs import PASSWORD, SETUP, sign_in
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html

NEW = "another long evening"


@pytest.fixture
def accounts(home: Home) -> Home:
    people_labs.people(home)
    return home


@pytest.fixture
def mo(home: Home) -> str:
    """Give a lab with one admin, who has a password; return the secret of a sign-in of theirs."""
    with Store.open(home) as store:
        store.add_person("mo", "admin", by=SETUP, password=PASSWORD)
    return by_password(home, "mo", PASSWORD, browser="curl/8")


def post(secret: str, present: str, new: str, again: str | None = None, **headers: str) -> httpx.Response:
    body = {"present": present, "new": new, "again": new if again is None else again}
    return Client().post("/password", data=body, headers={"cookie": f"{COOKIE}={secret}", "origin": BASE} | headers)


def test_it_shows_who_one_is_and_what_one_may_do(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "mo")
    test = opened("account")
    assert not test.exception
    assert "Member: also launches, and stops, retries and edits their own runs." in said(test)
    shown = html(test)
    assert "<td>cancel a run</td><td>their own</td>" in shown
    assert "<td>launch runs</td><td></td>" in shown
    assert "add people" not in shown
    assert "Firefox on Linux" in shown
    assert "this one" in shown


def test_the_other_browsers_are_signed_out_and_this_one_stays(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    other = sign_in(accounts, monkeypatch, "mo")
    here = sign_in(accounts, monkeypatch, "mo")
    test = opened("account")
    test.button(key="account.others").click().run()
    assert not test.exception
    with Reader.open(accounts) as reader:
        assert reader.signed_in(key_of(other)) is None
        assert reader.signed_in(key_of(here)) is not None
        entry = reader.audit(command="end sign-ins")[0]
    assert (entry.who, entry.targets, entry.detail) == ("mo", ("mo",), "")
    assert opened("account").button(key="account.others").disabled


def test_a_token_is_shown_once_then_listed_and_taken_back(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "mo")
    test = opened("account")
    test.text_input(key="account.token.name").input("nightly")
    test.selectbox(key="account.token.scope").set_value("launch")
    test.button[_place(test, "Make a token")].click().run()
    assert not test.exception
    (shown,) = [each.value for each in test.code if each.value.startswith("plab_")]
    with Reader.open(accounts) as reader:
        holder = reader.token_holder(shown)
        assert holder and (holder.name, holder.scope) == ("mo", "launch")
        (made,) = reader.tokens("mo")
    assert not [value for value in test.session_state.values() if shown in str(value)]
    assert not [each.value for each in test.run().code if each.value.startswith("plab_")]
    test.button(key=f"account.revoke.{made.id}").click().run()
    with Reader.open(accounts) as reader:
        assert reader.token_holder(shown) is None
        assert shown not in str(reader.audit())


def test_a_viewer_is_offered_tokens_for_reading_alone_and_a_bad_one_is_a_sentence(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "vera")
    test = opened("account")
    assert len(test.selectbox(key="account.token.scope").options) == 1
    test.button[_place(test, "Make a token")].click().run()
    assert "A token needs a name" in said(test).replace("\\", "")


def _place(test: AppTest, label: str) -> int:
    return next(place for place, button in enumerate(test.button) if button.label == label)


def test_a_lab_without_accounts_says_how_they_begin(home: Home) -> None:
    test = opened("account")
    assert "Nobody has an account in this lab" in said(test)
    assert not test.get("bidi_component")


def test_another_password_needs_the_present_one_ends_all_sign_ins_and_begins_one(home: Home, mo: str) -> None:
    other = by_password(home, "mo", PASSWORD)
    for wrong, words in (
        (post(mo, "not this one", NEW), "The present password is another one."),
        (post(mo, PASSWORD, NEW, "not the same"), "are not the same"),
        (post(mo, PASSWORD, "short"), "10 to 200 characters"),
        (post(mo, PASSWORD, PASSWORD), "is the present one"),
    ):
        assert wrong.status_code in (401, 422)
        assert words in wrong.text
        assert "set-cookie" not in wrong.headers
        assert PASSWORD not in wrong.text and NEW not in wrong.text
    done = post(mo, PASSWORD, NEW)
    assert (done.status_code, done.headers["location"]) == (303, "/account?changed=password")
    secret = done.cookies[COOKIE]
    assert "HttpOnly" in done.headers["set-cookie"]
    with Reader.open(home) as reader:
        assert [reader.signed_in(key_of(each)) is not None for each in (mo, other, secret)] == [False, False, True]
        log = str(reader.audit())
    assert PASSWORD not in log and NEW not in log
    assert by_password(home, "mo", NEW)


def test_the_page_is_for_who_is_signed_in_has_a_password_and_comes_from_no_foreign_page(home: Home, mo: str) -> None:
    cookie = {"cookie": f"{COOKIE}={mo}"}
    shown = Client().get("/password", headers=cookie)
    assert "Present password" in shown.text and "For mo." in shown.text
    assert shown.headers["cache-control"] == "no-store"
    assert post(mo, PASSWORD, NEW, origin="http://evil.example").status_code == 403
    assert Client().get("/password", headers={"accept": "text/html"}).headers["location"] == "/signin?next=/password"
    assert post("nobody's", PASSWORD, NEW).status_code == 401
    with Store.open(home) as store:
        store.add_person("eve", "viewer", by=SETUP, email="eve@lab.org")
        secret = store.begin_sign_in("eve", "provider")
    assert Client().get("/password", headers={"cookie": f"{COOKIE}={secret}"}).headers["location"] == "/account"
    with Reader.open(home) as reader:
        assert reader.signed_in(key_of(mo)) is not None


def test_guesses_at_the_present_password_are_counted(home: Home, mo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_password, "patience", Patience())
    monkeypatch.setattr(own_password.passwords, "fits", lambda *_: False)
    for _ in range(10):
        with pytest.raises(SignInRefused, match="is another one"):
            change_password(home, "mo", "a wrong guess", NEW)
    with pytest.raises(SignInRefused, match="Too many sign-ins failed"):
        change_password(home, "mo", PASSWORD, NEW)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1", "Safari on iPhone"),
        ("curl/8.5.0", "curl"),
        ("<script>", "script"),
        ("", "unknown"),
    ],
)
def test_a_browser_is_named_as_people_name_it(agent: str, words: str) -> None:
    assert in_words(agent) == words
