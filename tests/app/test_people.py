"""The People page and the audit log on it: for admins alone; what it lists, adds, changes, and gives away as a file."""

import csv
import io

import pytest
from streamlit.testing.v1 import AppTest

from app.audit_log import PAGE, Asked, _table
from engine.access import document, passwords
from engine.access.matrix import OF_NOBODY, abilities
from engine.access.rules import COMMANDS, ROLES, Standing
from engine.errors import Forbidden
from engine.home import Home
from engine.store import Reader, Store
from engine.transfer.tables import as_csv
from engine.upkeep.disk_use import disk_use
from tests.app import labs, people_labs
from tests.app.people_labs import PASSWORD, sign_in
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html

FORMULA = '=HYPERLINK("http://evil.example")'


@pytest.fixture
def accounts(home: Home) -> Home:
    people_labs.people(home)
    return home


def words(test: AppTest) -> str:
    assert not test.exception
    return " ".join([said(test), *(each.value for each in test.success)]).replace("\\", "")


def add(test: AppTest, **fields: str) -> AppTest:
    for name, value in fields.items():
        test.text_input(key=f"people.add.{name}").input(value)
    next(button for button in test.button if button.label == "Add").click()
    return test.run()


def test_only_an_admin_is_shown_the_people_and_the_log(accounts: Home, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "mo")
    for view in ("Accounts", "Audit log"):
        test = opened("people", {"view": view})
        assert "mo is a member, and to add people takes an admin." in words(test)
        assert "ada" not in html(test)
    sign_in(accounts, monkeypatch, "ada")
    shown = html(opened("people"))
    assert all(f"<strong>{name}</strong>" in shown for name in people_labs.PEOPLE)


def test_it_says_what_each_holds_and_when_they_were_seen(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(accounts) as store:
        first, _ = labs.add(store, "mo"), labs.add(store, "mo")
        labs.drive(store, accounts, first, "running")
    (accounts.run_folder(first) / "checkpoint").write_bytes(b"x" * 5_000_000)
    accounts.run_folder(999).mkdir()
    with Reader.open(accounts) as reader:
        assert disk_use(accounts, reader.owner_of_each()).keys() == {"mo"}
    sign_in(accounts, monkeypatch, "ada")
    shown = html(opened("people"))
    assert "2 runs, 1 on, 1 waiting" in shown
    assert "4.8 MB on disk" in shown
    assert shown.count("never seen") == 3


def test_somebody_is_added_with_a_password_that_is_made_and_shown_once(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    test = add(opened("people"), name="  New   Person ", email="new@lab.org")
    assert "New Person has an account as member." in words(test)
    (made,) = [each.value for each in test.code]
    with Reader.open(accounts) as reader:
        assert passwords.fits(made, reader.password_of("New Person")[1])
        assert made not in str(reader.audit())
    assert not test.run().code
    assert made not in str(list(test.session_state.items()))


def test_a_password_that_is_typed_is_kept_nowhere_and_what_does_not_do_is_a_sentence(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    test = add(opened("people"), name="New", password="short")
    assert "A password has 10 to 200 characters" in words(test)
    assert test.text_input(key="people.add.name").value == "New"
    test = add(test, password=PASSWORD)
    assert "New has an account as member." in words(test)
    assert not test.code
    assert PASSWORD not in str(list(test.session_state.items()))
    test.toggle(key="people.add.provider").set_value(True)
    assert "give their e-mail" in words(add(test, name="Other"))


def test_roles_sign_ins_and_the_last_admin(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    ids = {one.name: one.id for one in _people(accounts)}
    opened_box = opened("people")
    opened_box.session_state[f"people.change.{ids['mo']}"] = True
    test = opened_box.run()
    test.button(key=f"people.Make a viewer.{ids['mo']}").click().run()
    assert {one.name: one.role for one in _people(accounts)}["mo"] == "viewer"
    test.session_state[f"people.change.{ids['ada']}"] = True
    test = test.run()
    test.button(key=f"people.Make a member.{ids['ada']}").click().run()
    assert "ada is the only admin of this lab" in words(test)
    monkeypatch.setattr("app.person.may", lambda *_: True)
    sign_in(accounts, monkeypatch, "mia")
    with Store.open(accounts) as store, pytest.raises(Forbidden, match="takes an admin"):
        store.set_role("mo", "admin", by="mia")


def test_the_dialogs_set_a_password_and_shut_somebody_out(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(which: str) -> None:
        from app import people_asking

        getattr(people_asking, which)("mo")

    mo = sign_in(accounts, monkeypatch, "mo")
    sign_in(accounts, monkeypatch, "ada")
    test = AppTest.from_function(script, kwargs={"which": "ask_password"}, default_timeout=120).run()
    next(button for button in test.button if button.label == "Set it").click().run()
    assert "mo has another password" in words(test)
    with Reader.open(accounts) as reader:
        assert passwords.fits(test.code[0].value, reader.password_of("mo")[1])
        assert not reader.sign_ins("mo"), mo
    test = AppTest.from_function(script, kwargs={"which": "ask_shut_out"}, default_timeout=120).run()
    test.button(key="people.out.now").click().run()
    assert {one.name: one.active for one in _people(accounts)}["mo"] is False


def test_the_log_is_narrowed_and_turned_page_by_page(accounts: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(accounts, monkeypatch, "ada")
    with Store.open(accounts) as store:
        for _ in range(PAGE):
            store.permit("back up", by="ada", detail="<b>by hand</b>")
        with pytest.raises(Forbidden):
            store.permit("restore", by="mo")
    test = opened("people", {"view": "Audit log"})
    first = html(test)
    assert first.count("<tr>") == PAGE + 1
    assert "&lt;b&gt;by hand" in first and "<b>" not in first
    test.button(key="audit.older").click().run()
    assert "<td>add person</td>" in html(test)
    test.button(key="audit.newer").click().run()
    assert html(test) == first or html(test).count("<tr>") == PAGE + 1
    test.toggle(key="audit.refused").set_value(True).run()
    assert html(test).count("<tr>") == 2
    assert "<strong>refused</strong> mo is a member" in html(test)
    test.selectbox(key="audit.who").set_value("vera").run()
    assert "Nothing of that kind was done." in words(test)


def test_the_file_of_the_log_holds_no_formula_and_no_more_than_asked_for(accounts: Home) -> None:
    with Store.open(accounts) as store:
        store.permit("back up", by="ada", detail=FORMULA)
        store.permit("collect", by="ada")
    rows = list(csv.DictReader(io.StringIO(as_csv(_table(Asked("ada", "back up", False))).decode())))
    assert [(row["who"], row["command"], row["detail"]) for row in rows] == [("ada", "back up", f"'{FORMULA}")]


def test_the_table_of_rules_stands_in_the_docs_and_says_what_the_rules_do() -> None:
    text = document.PAGE.read_text()
    assert document.written(text) == text, "write it anew: python -m engine.access.document"
    for each in abilities():
        for role in ROLES:
            own, others = (Standing("me", role).may(each.command, owners) for owners in (["me"], ["you"]))
            if each.command in OF_NOBODY:
                assert bool(each.reach[role]) == Standing("me", role).may(each.command)
            else:
                assert (each.reach[role] != "", each.reach[role] == "everyone's") == (own, others)
    assert set(COMMANDS) >= OF_NOBODY


def _people(home: Home) -> list:  # type: ignore[type-arg]
    with Reader.open(home) as reader:
        return reader.people()
