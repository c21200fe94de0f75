"""The People page and the audit log on it: for admins alone; what it lists, adds, changes, and gives away as a file."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.exceptions import RerunException
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest

from app.core.formatting import size
from app.core.visitor import COOKIE
from app.people import dialogs
from app.people.account import first_account, in_words
from app.people.audit_log import PAGE, AuditQuery, _table
from app.people.table import Known, are_ending
from app.ui.store_access import give
from engine.access import passwords, rules
from engine.access.passwords import Patience
from engine.access.quotas import BOUNDS, Limits, limits, set_limits
from engine.access.rules import COMMANDS, OF_NOBODY, PERMISSIONS, ROLES, PersonStanding, abilities
from engine.commands import accounts as sign_in_command
from engine.commands.accounts import change_password
from engine.commands.accounts import sign_in as by_password
from engine.errors import Forbidden, SignInRefused
from engine.home import ROOT, Home
from engine.runner.runner import Usage
from engine.store import Reader, Store
from engine.store.access.quotas import QuotaReader
from engine.store.access.sign_ins import key_of
from engine.store.timestamps import in_seconds
from engine.transfer.tables import as_csv
from tests.app.browsing import BASE, Client
from tests.app.reading import html, opened, said
from tests.labs import basic, people
from tests.labs.people import PASSWORD, SETUP, sign_in
from tests.waiting import PATIENCE_S

FORMULA = '=HYPERLINK("http://evil.example")'


@pytest.fixture
def accounts(home: Home) -> Home:
    people.people(home)
    return home


def words(test: AppTest) -> str:
    assert not test.exception
    return said(test)


def add(test: AppTest, **fields: str) -> AppTest:
    for name, value in fields.items():
        test.text_input(key=f"people.add.{name}").input(value)
    next(button for button in test.button if button.label == "Add").click()
    return test.run()


def test_only_an_admin_is_shown_the_people_and_the_log(
    accounts: Home, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "mo")
    for view in ("Accounts", "Audit log"):
        test = opened("people", {"view": view})
        assert "Only admins can create accounts; mo is a member." in words(test)
        assert "ada" not in html(test)
    sign_in(accounts, monkeypatch, "ada")
    shown = html(opened("people"))
    assert all(f"<strong>{name}</strong>" in shown for name in people.PEOPLE)


def test_it_says_what_each_holds_and_when_they_were_seen(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(accounts) as store:
        first, _ = basic.add(store, "mo"), basic.add(store, "mo")
        basic.drive(store, accounts, first, "running")
    (accounts.run_folder(first) / "checkpoint").write_bytes(b"x" * 5_000_000)
    accounts.run_folder(999).mkdir()
    with Store.open(accounts) as store:
        assert Usage().look(store) == 2
        bytes_ = {held.person: held.disk_bytes for held in store.read.quotas.all_held()}["mo"]
    sign_in(accounts, monkeypatch, "ada")
    shown = html(opened("people"))
    assert "2 runs in total (1 running, 1 queued)" in shown
    assert "last request now" in shown
    assert bytes_ > 5_000_000 and f"{size(bytes_)} on disk" in shown, "the figure of quotas and limits"
    assert shown.count("no request yet") == 3
    monkeypatch.setattr(QuotaReader, "last_seen", lambda self: {"mo": in_seconds(-240)})
    assert re.search("last request <time [^>]*>4 min ago</time>", html(opened("people"))), (
        "a time, not its HTML as text"
    )


def test_somebody_is_added_with_a_password_made_or_typed_and_kept_nowhere(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "ada")
    test = add(opened("people"), name="  New   Person ", email="new@lab.org")
    assert "1 account added." in words(test)
    next(button for button in test.button if button.label == "Show the slips").click().run()
    made = password_on_slip(str(test.get("iframe")[0].proto), "New Person")
    with Reader.open(accounts) as reader:
        assert passwords.fits(made, reader.sign_ins.password_of("New Person")[1])
        assert made not in str(reader.audit.entries())
    assert made not in str(list(test.session_state.items()))
    test.button(key="people.list.printed").click().run()
    test = add(opened("people"), name="New", password="short")
    assert "must have 10 to 200 characters" in words(test)
    assert test.text_input(key="people.add.name").value == "New"
    test = add(test, password=PASSWORD)
    assert "Account New added with role member." in words(test)
    assert not test.code
    assert PASSWORD not in str(list(test.session_state.items()))
    test.selectbox(key="people.add.role").set_value("admin")
    test.toggle(key="people.add.provider").set_value(True)
    test = add(test, name="Dean", email="dean@lab.org")
    assert "Account Dean added with role admin." in words(test)
    assert test.selectbox(key="people.add.role").value == "member", "the next one is no admin by mistake"
    assert test.toggle(key="people.add.provider").value is False
    test.toggle(key="people.add.provider").set_value(True)
    assert "email is required" in words(add(test, name="Other"))


def test_the_dialogs_set_a_password_and_shut_somebody_out(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(which: str) -> None:
        from app.people import dialogs

        getattr(dialogs, which)("mo")

    mo = sign_in(accounts, monkeypatch, "mo")
    sign_in(accounts, monkeypatch, "ada")
    test = AppTest.from_function(script, kwargs={"which": "ask_password"}, default_timeout=PATIENCE_S).run()
    next(button for button in test.button if button.label == "Set password").click().run()
    page = opened("people")
    for _ in range(2):
        assert "Password of mo changed." in words(page), "the page shows it, and a rerun of it too"
        (shown,) = page.code
        page.run()
    assert shown.value not in str([*test.session_state.items(), *page.session_state.items()])
    with Reader.open(accounts) as reader:
        assert passwords.fits(shown.value, reader.sign_ins.password_of("mo")[1])
        assert not reader.sign_ins.of("mo"), mo
    with monkeypatch.context() as other:
        sign_in(accounts, other, "ada")
        assert not opened("people").code, "another sign-in of the same admin does not show it"
    page.button(key="people.secrets.close").click().run()
    assert not page.code and not page.run().code
    test = AppTest.from_function(script, kwargs={"which": "ask_password"}, default_timeout=PATIENCE_S).run()
    test.text_input[0].input(PASSWORD)
    next(button for button in test.button if button.label == "Set password").click().run()
    assert test.session_state["people.done"].startswith("Password of mo changed")
    assert not opened("people").code, "nobody needs to see a typed one"
    test = AppTest.from_function(script, kwargs={"which": "ask_email"}, default_timeout=PATIENCE_S).run()
    test.text_input[0].input("mo@lab.org")
    next(button for button in test.button if button.label == "Save").click().run()
    assert {one.name: one.email for one in _people(accounts)}["mo"] == "mo@lab.org"
    test = AppTest.from_function(script, kwargs={"which": "ask_disable"}, default_timeout=PATIENCE_S).run()
    assert not test.checkbox, "no run to cancel"
    test.button(key="people.out.now").click().run()
    assert {one.name: one.active for one in _people(accounts)}["mo"] is False


def test_a_list_is_added_as_a_whole_and_its_passwords_are_slips_to_print(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "ada")
    monkeypatch.setenv("PARALLAB_PUBLIC_URL", "https://lab.example.org/")
    test = opened("people")
    test.text_area(key="people.list.names").input("zoe\nMO\n")
    button = next(button for button in test.button if button.label == "Add all")
    test = button.click().run()
    (fold,) = (each for each in test.expander if each.label == "Add accounts from a list")
    assert "Line 2: The name 'mo' is already taken" in fold.error[0].value.replace("\\", "")
    assert test.text_area(key="people.list.names").value == "zoe\nMO\n"
    test.text_area(key="people.list.names").input("zoe\nyan, yan@lab.org\n")
    test = next(button for button in test.button if button.label == "Add all").click().run()
    assert "2 accounts added." in words(test)
    (address,) = (each for each in test.text_input if each.label == "Address on the slips")
    assert address.value == "https://lab.example.org"
    assert not test.get("iframe") and not test.get("download_button"), "no slips before their address is known"
    address.input("https://class.example.org")  # and pressed at once: the form takes both together
    next(button for button in test.button if button.label == "Show the slips").click().run()
    page = str(test.get("iframe")[0].proto)
    assert page.count("<dt>Address</dt><dd>https://class.example.org</dd>") == 2
    assert page.count("<h2>Parallab</h2>") == page.count("under your name at the top right") == 2
    assert "on this machine only" not in words(test)
    assert any(button.label == "The slips are printed or saved" for button in test.button)
    with Reader.open(accounts) as reader:
        for name in ("zoe", "yan"):
            made = password_on_slip(page, name)
            assert passwords.fits(made, reader.sign_ins.password_of(name)[1])
            assert made not in str(list(test.session_state.items()))
    again = opened("people")
    next(button for button in again.button if button.label == "Show the slips").click().run()
    assert "zoe" in str(again.get("iframe")[0].proto), "a reload shows them again"
    assert [each.label for each in again.get("download_button")] == ["Save"]
    sign_in(accounts, monkeypatch, "ada")
    assert not opened("people").get("iframe"), "another sign-in of the same admin does not"
    test.button(key="people.list.printed").click().run()
    assert not test.run().get("iframe"), "confirmed"


def password_on_slip(page: str, name: str) -> str:
    made = re.search(rf"{name}</dd><dt>Password</dt><dd class=[^>]*>(.+?)</dd>", page)
    assert made
    return made[1]


def test_a_dialog_asked_for_in_another_window_opens_alone_while_a_password_is_unclosed(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "ada")
    other = opened("people")
    assert "1 account added." in words(add(opened("people"), name="zoe"))
    change = next(button for button in other.button if button.label == "Change")
    shown = words(change.click().run())
    assert "1 account added." not in shown
    assert any(button.label == "E-mail address" for button in other.button)
    assert "1 account added." in words(other.run()), "once that dialog is gone"


@pytest.mark.parametrize("form", ["one", "list"])
def test_a_second_press_while_accounts_are_added_loses_no_password(
    accounts: Home, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Streamlit ends a callback at its next look at the session's state once another press came."""
    sign_in(accounts, monkeypatch, "ada")
    test = opened("people")

    def interrupted(order: Callable[[Store], object], place: str) -> bool:
        give(order, place)
        now = get_script_run_ctx()
        assert now
        raise RerunException(RerunData(now.query_string, page_script_hash=now.page_script_hash))

    with monkeypatch.context() as patch:
        patch.setattr(dialogs, "give", interrupted)
        if form == "one":
            test = add(test, name="zoe")
        else:
            test.text_area(key="people.list.names").input("zoe")
            test = next(button for button in test.button if button.label == "Add all").click().run()
    assert "1 account added." in words(test)
    test = (
        next(button for button in test.button if button.label == {"one": "Add", "list": "Add all"}[form]).click().run()
    )
    assert "1 account added." in words(test) and "already taken" not in words(test)


def test_a_disabled_person_and_the_number_of_cancelled_runs_are_named_and_the_card_is_current(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(accounts) as store:
        running, _ = basic.add(store, "mo"), basic.add(store, "mo")
        basic.drive(store, accounts, running, "running")

    def script() -> None:
        from app.people import dialogs

        dialogs.ask_disable("mo")

    sign_in(accounts, monkeypatch, "ada")
    test = AppTest.from_function(script, default_timeout=PATIENCE_S).run()
    (dialog,) = test.get("dialog")
    kinds = [each.type for each in dialog if each.type in ("markdown", "checkbox")]
    assert kinds == ["markdown", "markdown", "checkbox"], "what the box changes is above it"
    assert "Their running runs continue" in dialog.markdown[1].value
    test.checkbox(key="people.out.runs").check().run()
    test.button(key="people.out.now").click().run()
    assert test.session_state["people.done"] == "mo is disabled. 2 runs are being cancelled."
    shown = html(opened("people"))
    assert "queued" not in shown and "1 stopping" in shown and "running" not in shown, "as the toast says"

    def is_followed() -> bool:
        with Reader.open(accounts) as reader:
            return are_ending(reader.people.everyone(), Known(reader.quotas.holdings(), {}, {}, {}))

    assert is_followed(), "the page reruns until the last of them has ended"
    with Store.open(accounts) as store:
        store.claims.end(running, "cancelled", "Cancelled by ada.")
    assert not is_followed()


def test_people_are_searched_and_their_quotas_set(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    test = opened("people")
    for text, names in (("M", ["mia", "mo"]), ("viewer", ["vera"]), ("mo@lab member", ["mo"]), ("nobody", [])):
        shown = html(test.text_input(key="people.search").input(text).run())
        assert [name for name in sorted(people.PEOPLE) if f"<strong>{name}</strong>" in shown] == names
        assert f"{len(names)} of 4 accounts" in words(test)

    def script(name: str) -> None:
        from app.people.dialogs import ask_quotas

        ask_quotas(name)

    def quotas(name: str, **texts: str) -> str:
        test = AppTest.from_function(script, kwargs={"name": name}, default_timeout=PATIENCE_S).run()
        for field, text in texts.items():
            test.text_input(key=f"people.quota.{field}").input(text)
        next(button for button in test.button if button.label == "Set quotas").click().run()
        return words(test)

    shown = AppTest.from_function(script, kwargs={"name": ""}, default_timeout=PATIENCE_S).run().text_input
    assert [each.label.partition(" (")[0] for each in shown] == [bounds.title for bounds in BOUNDS.values()]
    assert not [
        each.label for each in shown if not re.search(r"(in total|Of each single run).* [\d,.]+ to [\d,]+", each.help)
    ]
    quotas("", max_queued_per_person="50", max_cores_per_person="8")
    quotas("mo", max_queued_per_person="4", max_cores_per_person="none")
    assert "Queued runs must be a whole number, or none for no limit; got 'few'." in quotas(
        "mo", max_queued_per_person="few"
    )
    found = limits(accounts)
    assert (found.max_queued_per_person, found.max_cores_per_person) == (50, 8)
    assert found.people == {"mo": {"max_queued_per_person": 4, "max_cores_per_person": None}}
    assert "own quota: queued runs 4, CPU cores in use without limit" in html(opened("people"))
    quotas("mo", max_queued_per_person="")
    assert limits(accounts).people == {"mo": {"max_cores_per_person": None}}
    with Reader.open(accounts) as reader:
        assert [entry.who for entry in reader.audit.entries(command="set limits")] == ["ada"] * 3
    sign_in(accounts, monkeypatch, "mia")
    assert "Only admins can set limits" in quotas("mia", max_queued_per_person="999")


def test_the_header_names_who_is_signed_in_and_signs_out(accounts: Home, home: Home) -> None:
    with Store.open(home) as store:
        secret = store.sign_ins.begin("mo", "password")
    for address in ("/people", "/account"):
        page = Client().get(address, headers={"cookie": f"{COOKIE}={secret}", "accept": "text/html"})
        assert 'aria-label="Signed in as mo"' in page.text
        assert '<form method="post" action="/signout"><button type="submit">Sign out</button></form>' in page.text
        assert page.headers["cache-control"] == "no-store"


def test_roles_sign_ins_and_the_last_admin(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    ids = {one.name: one.id for one in _people(accounts)}

    def script(name: str) -> None:
        from app.people.table import ask_change

        ask_change(name)

    def press(name: str, label: str) -> AppTest:
        test = AppTest.from_function(script, kwargs={"name": name}, default_timeout=PATIENCE_S).run()
        return test.button(key=f"people.{label}.{ids[name]}").click().run()

    press("mo", "Make a viewer")
    assert {one.name: one.role for one in _people(accounts)}["mo"] == "viewer"
    test = press("ada", "Make a member")
    assert "ada is the only admin of this lab" in words(test)
    monkeypatch.setattr("app.ui.current_user.may", lambda *_: True)
    sign_in(accounts, monkeypatch, "mia")
    with Store.open(accounts) as store, pytest.raises(Forbidden, match="Only admins can"):
        store.people.set_role("mo", "admin", by="mia")


def test_the_log_is_narrowed_and_turned_page_by_page(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    with Store.open(accounts) as store:
        for _ in range(PAGE):
            store.access.permit("back up", by="ada", detail="<b>by hand</b>")
        with pytest.raises(Forbidden):
            store.access.permit("restore", by="mo")
    test = opened("people", {"view": "Audit log"})
    first = html(test)
    assert first.count("<tr>") == PAGE + 1
    assert "&lt;b&gt;by hand" in first and "<b>" not in first
    test.button(key="audit.older").click().run()
    assert "<td>add person</td>" in html(test)
    test.button(key="audit.newer").click().run()
    assert html(test) == first or html(test).count("<tr>") == PAGE + 1
    test.text_input(key="audit.since").set_value("soon").run()
    assert "since must be a time" in test.error[0].value
    test.text_input(key="audit.since").set_value("1h ago").run()
    assert html(test).count(" UTC, <time") == PAGE
    test.toggle(key="audit.refused").set_value(True).run()
    assert html(test).count("<tr>") == 2
    assert "<strong>refused</strong> Only admins can restore the store; mo is a member" in html(test)
    test.selectbox(key="audit.who").set_value("vera").run()
    assert "No matching entries." in words(test)


def test_the_log_as_a_file_and_the_table_of_rules_say_what_is_so(accounts: Home) -> None:
    with Store.open(accounts) as store:
        store.access.permit("back up", by="ada", detail=FORMULA)
        store.access.permit("collect", by="ada")
    rows = list(csv.DictReader(io.StringIO(as_csv(_table(AuditQuery("ada", "back up", False))).decode("utf-8-sig"))))
    assert [(row["who"], row["command"], row["detail"]) for row in rows] == [("ada", "back up", f"'{FORMULA}")]
    text = rules.PAGE.read_text()
    assert rules.written(text) == text, "rewrite it: python -m engine.access.rules"
    for each in abilities():
        for role in ROLES:
            own, others = (PersonStanding("me", role).may(each.command, owners) for owners in (["me"], ["you"]))
            if each.command in OF_NOBODY:
                may = PersonStanding("me", role, granted=PERMISSIONS).may(each.command)
                assert bool(each.reach[role]) == may
                without = PersonStanding("me", role).may(each.command)
                assert without == (may and each.reach[role] != "if granted")
            else:
                assert (each.reach[role] != "", each.reach[role] == "everyone's") == (own, others)
    assert set(COMMANDS) >= OF_NOBODY


def _people(home: Home) -> list:  # type: ignore[type-arg]
    with Reader.open(home) as reader:
        return reader.people.everyone()


NEW = "another long evening"


@pytest.fixture
def mo(home: Home) -> str:
    """Give a lab with one admin, who has a password; return the secret of a sign-in of theirs."""
    with Store.open(home) as store:
        store.people.add("mo", "admin", by=SETUP, password=PASSWORD)
    return by_password(home, "mo", PASSWORD, browser="curl/8")


def post(secret: str, present: str, new: str, again: str | None = None, **headers: str) -> httpx.Response:
    body = {"present": present, "new": new, "again": new if again is None else again}
    return Client().post("/password", data=body, headers={"cookie": f"{COOKIE}={secret}", "origin": BASE} | headers)


def test_the_page_shows_who_one_is_makes_tokens_that_are_shown_once_and_signs_out_other_browsers(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "mo")
    test = opened("account")
    assert not test.exception
    assert "No quota limits your runs." in said(test)
    set_limits(accounts, Limits(max_queued_per_person=4, max_run_time_s=3600))
    assert "Quota: 0 of 4 queued runs. Time limit per run: 1 h" in said(test.run())
    set_limits(accounts, Limits())
    assert any("curl -H" in each.value and "/api/v1/runs?limit=3" in each.value for each in test.code)
    assert "/docs?page=api" in html(test)
    assert "Member: everything that a viewer does, and launches, stops, retries and edits their own runs." in said(test)
    shown = html(test)
    assert "<td>cancel a run</td><td>their own</td>" in shown
    assert "<td>launch runs</td><td></td>" in shown
    assert "create accounts" not in shown
    assert "Firefox on Linux" in shown
    assert "this browser" in shown
    test.text_input(key="account.token.name").input("nightly")
    test.selectbox(key="account.token.scope").set_value("agent")
    test.number_input(key="account.token.runs").set_value(2)
    test.button[_place(test, "Create token")].click().run()
    assert not test.exception
    (shown,) = [each.value for each in test.code if each.value.startswith("plab_")]
    with Reader.open(accounts) as reader:
        holder = reader.tokens.holder(shown)
        assert holder and (holder.name, holder.scope, holder.agent and holder.agent.runs) == ("mo", "agent", 2)
        (made,) = reader.tokens.of("mo")
    assert not [value for value in test.session_state.values() if shown in str(value)]
    assert [each.value for each in test.run().code if each.value.startswith("plab_")] == [shown], "until it is closed"
    test.button(key="people.secrets.close").click().run()
    assert not [each.value for each in test.code if each.value.startswith("plab_")]
    test.button(key=f"account.revoke.{made.id}").click().run()
    with Reader.open(accounts) as reader:
        assert reader.tokens.holder(shown) is None
        assert shown not in str(reader.audit.entries())
    other = sign_in(accounts, monkeypatch, "mo")
    here = sign_in(accounts, monkeypatch, "mo")
    test = opened("account")
    test.button(key="account.others").click().run()
    assert not test.exception
    with Reader.open(accounts) as reader:
        assert reader.sign_ins.signed_in(key_of(other)) is None
        assert reader.sign_ins.signed_in(key_of(here)) is not None
        entry = reader.audit.entries(command="end sign-ins")[0]
    assert (entry.who, entry.targets, entry.detail) == ("mo", ("mo",), "")
    assert opened("account").button(key="account.others").disabled


def test_a_viewer_is_offered_tokens_for_reading_alone_and_a_bad_one_is_a_sentence(
    accounts: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(accounts, monkeypatch, "vera")
    test = opened("account")
    assert len(test.selectbox(key="account.token.scope").options) == 1
    test.button[_place(test, "Create token")].click().run()
    assert "A token name must have" in said(test)


def _place(test: AppTest, label: str) -> int:
    return next(place for place, button in enumerate(test.button) if button.label == label)


def test_a_lab_without_accounts_says_how_they_begin(home: Home) -> None:
    test = opened("account")
    assert "This lab has no accounts" in said(test) and "makes slips of their passwords to print" in said(test)
    (code,) = test.code
    there, run = code.value.splitlines()
    assert there == f"cd {ROOT}" and f"PARALLAB_HOME={home.path} " in run
    assert run.endswith("python -m engine users add NAME --role admin")
    assert "HOME" not in first_account(Home(Path("/lab/.parallab")), Path("/lab"))
    assert [each.key for each in test.get("bidi_component")] == ["pulse-"], "it notices the first account"


def test_another_password_needs_the_present_one_ends_all_sign_ins_and_comes_from_our_own_page_alone(
    home: Home, mo: str, reader: Reader
) -> None:
    cookie = {"cookie": f"{COOKIE}={mo}"}
    shown = Client().get("/password", headers=cookie)
    assert "Current password" in shown.text and "For mo." in shown.text
    assert shown.headers["cache-control"] == "no-store"
    assert post(mo, PASSWORD, NEW, origin="http://evil.example").status_code == 403
    assert Client().get("/password", headers={"accept": "text/html"}).headers["location"] == "/signin?next=/password"
    assert post("nobody's", PASSWORD, NEW).status_code == 401
    with Store.open(home) as store:
        store.people.add("eve", "viewer", by=SETUP, email="eve@lab.org")
        secret = store.sign_ins.begin("eve", "provider")
    assert Client().get("/password", headers={"cookie": f"{COOKIE}={secret}"}).headers["location"] == "/account"
    assert reader.sign_ins.signed_in(key_of(mo)) is not None
    other = by_password(home, "mo", PASSWORD)
    for wrong, words in (
        (post(mo, "not this one", NEW), "Current password is incorrect."),
        (post(mo, PASSWORD, NEW, "not the same"), "do not match"),
        (post(mo, PASSWORD, "short"), "10 to 200 characters"),
        (post(mo, PASSWORD, PASSWORD), "must differ from the current one"),
    ):
        assert wrong.status_code in (401, 422)
        assert words in wrong.text
        assert "set-cookie" not in wrong.headers
        assert PASSWORD not in wrong.text and NEW not in wrong.text
    done = post(mo, PASSWORD, NEW)
    assert (done.status_code, done.headers["location"]) == (303, "/account?changed=password")
    secret = done.cookies[COOKIE]
    assert "HttpOnly" in done.headers["set-cookie"]
    assert [reader.sign_ins.signed_in(key_of(each)) is not None for each in (mo, other, secret)] == [False, False, True]
    log = str(reader.audit.entries())
    assert PASSWORD not in log and NEW not in log
    assert by_password(home, "mo", NEW)


def test_guesses_at_the_present_password_are_counted(home: Home, mo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_command, "patience", Patience())
    monkeypatch.setattr(passwords, "fits", lambda *_: False)
    for _ in range(10):
        with pytest.raises(SignInRefused, match="is incorrect"):
            change_password(home, "mo", "a wrong guess", NEW)
    with pytest.raises(SignInRefused, match="Too many failed sign-ins"):
        change_password(home, "mo", PASSWORD, NEW)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        (
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 "
                "Mobile/15E148 Safari/604.1"
            ),
            "Safari on iPhone",
        ),
        ("curl/8.5.0", "curl"),
        ("<script>", "script"),
        ("", "unknown"),
    ],
)
def test_a_browser_is_named_as_people_name_it(agent: str, words: str) -> None:
    assert in_words(agent) == words
