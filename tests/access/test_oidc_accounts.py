"""What a provider's token says of a person, and the account that comes of it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from engine.access.providers import Rules
from engine.access.rules import Program, Role
from engine.commands.accounts import Vouched, groups_of, role_of, sign_in_by_provider, vouched
from engine.errors import SignInRefused
from engine.home import Home
from engine.store import Demand, Launch, Reader, Store
from engine.store.access.sign_ins import key_of

ISSUER = "https://id.example.org"
FIRST = Program("first")
RULES = Rules(roles={"admin": ("lab-admins",), "member": ("lab-members", "students"), "viewer": ("guests",)})
CLAIMS = {
    "iss": ISSUER,
    "sub": "4711",
    "name": "Mia",
    "email": "mia@example.org",
    "email_verified": True,
    "groups": ["students"],
}


# ---- the token -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["students"], "member"),
        (["guests", "lab-admins", "students"], "admin"),
        (["Students"], None),
        ([], None),
        ("guests", "viewer"),
        ([1, None], None),
        (7, None),
    ],
)
def test_the_highest_role_of_somebody_s_groups_is_theirs(groups: object, role: Role | None) -> None:
    assert role_of({"groups": groups}, RULES) == role
    assert role_of({"groups": groups}, RULES.model_copy(update={"default_role": "viewer"})) == (role or "viewer")


def test_a_token_names_groups_and_a_verified_address_or_nobody() -> None:
    assert groups_of({"realm_access": {"roles": ["a", "b"]}}, "realm_access.roles") == {"a", "b"}
    assert groups_of({"https://lab.org/groups": ["a"]}, "https://lab.org/groups") == {"a"}
    assert groups_of({"roles": {"a": {"org": "1"}, "b": {}}}, "roles") == {"a", "b"}
    assert groups_of({"realm_access": ["a"]}, "realm_access.roles") == groups_of({}, "groups") == frozenset()
    assert vouched(CLAIMS, RULES) == Vouched(ISSUER, "4711", "Mia", "mia@example.org", "member")
    assert vouched(CLAIMS | {"email_verified": "true"}, RULES).email == "mia@example.org"
    for claim in (False, "false", None, 1, "yes"):
        found = vouched(CLAIMS | {"email_verified": claim}, RULES)
        assert (found.email, found.unverified) == ("", True)
    assert vouched(CLAIMS | {"email": "mia@example.org, eve@example.org"}, RULES).email == ""
    for wrong in ({"sub": ""}, {"iss": None}, {"sub": 4711}, {"sub": "x" * 256}):
        with pytest.raises(SignInRefused, match="has no identity"):
            vouched(CLAIMS | wrong, RULES)
    assert vouched(CLAIMS | {"name": "  Mia\u202e\n \u200bM\x00 "}, RULES).name == "Mia M"
    assert vouched(CLAIMS | {"name": "", "preferred_username": "mia"}, RULES).name == "mia"


# ---- the account ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    with Store.open(home) as opened:
        opened.people.add("ada", "admin", by=FIRST, email="ada@example.org")
        yield opened


def known(
    store: Store, subject: str, role: Role | None = "member", *, name: str = "Mia", email: str = ""
) -> tuple[str, Role, str]:
    person = store.people.known_by_provider(ISSUER, subject, name, email, role)
    return person.name, person.role, person.role_from


def test_somebody_new_gets_an_account_under_a_name_that_is_nobody_s(store: Store) -> None:
    store.runs.add(Launch("hogwild", {}, Program("Grace"), demand=Demand(1, 0, 1, 1)))
    assert known(store, "1") == ("Mia", "member", "provider")
    assert known(store, "1", name="Mia Renamed") == ("Mia", "member", "provider")
    assert [known(store, str(number), name="mia")[0] for number in (2, 3)] == ["mia 2", "mia 3"]
    assert (
        known(store, "4", name="Grace")[0] == "Grace 2"
    )  # runs of a Grace are here, and anybody can call themselves Grace
    assert known(store, "5", name="runner")[0] == "runner 2"
    assert known(store, "6", name="", email="kim@example.org")[0] == "kim"
    assert known(store, "7", name="x" * 300)[0] == "x" * 40
    assert known(store, "8", name="X" * 300)[0] == "X" * 34 + " 2"
    assert known(store, "9", name="")[0] == "Somebody"


def test_the_provider_s_role_follows_its_groups_and_an_admin_s_gift_stays(store: Store) -> None:
    assert [known(store, "1", role)[1] for role in ("viewer", "admin", "member")] == ["viewer", "admin", "member"]
    store.people.set_role("Mia", "viewer", by="ada")
    assert known(store, "1", "admin") == ("Mia", "viewer", "admin")
    assert known(store, "1", None) == ("Mia", "viewer", "admin")
    told = [(entry.who, entry.role, entry.command, entry.targets) for entry in reversed(_audit(store))]
    assert told[2:4] == [(ISSUER, "program", "set role", ("Mia",))] * 2


def test_whose_groups_have_no_role_any_more_is_signed_out_everywhere(store: Store, home: Home) -> None:
    known(store, "1")
    secret = store.sign_ins.begin("Mia", "provider")
    with pytest.raises(SignInRefused, match="no longer has access to this lab"):
        known(store, "1", None)
    with Reader.open(home) as reader:
        assert reader.sign_ins.signed_in(key_of(secret)) is None
    with pytest.raises(SignInRefused, match="Eve has no access to this lab yet"):
        known(store, "2", None, name="Eve")


def test_a_lab_without_an_admin_waits_and_the_last_one_stays(home: Home) -> None:
    with Store.open(home) as store:
        with pytest.raises(SignInRefused, match="This lab has no admin yet"):
            known(store, "1")
        assert not store.read.access.has_people()
    with Store.open(home) as store:
        assert known(store, "1", "admin") == ("Mia", "admin", "provider")
        for role in ("viewer", None):
            assert known(store, "1", role)[1] == "admin"
        known(store, "2", "admin")
        assert known(store, "1", "viewer")[1] == "viewer"


def test_a_verified_address_links_an_account_that_an_admin_made_and_nothing_else_does(store: Store) -> None:
    with pytest.raises(SignInRefused):
        known(store, "1", None, name="ada")
    assert known(store, "1", None, email="ADA@example.org") == ("ada", "admin", "admin")
    with pytest.raises(SignInRefused, match=r"is linked to another identity at https://id\.example\.org"):
        known(store, "2", "admin", email="ada@example.org")
    store.people.unlink("ada", by="ada")
    assert known(store, "2", None, email="ada@example.org")[0] == "ada"
    store.people.add("kim", "viewer", by="ada", email="kim@example.org")
    store.people.add("kim b", "admin", by="ada", email="Kim@example.org")
    with pytest.raises(SignInRefused, match="Several accounts of this lab have the e-mail address"):
        known(store, "3", email="kim@example.org")


def test_who_is_shut_out_stays_out_by_either_way_of_being_known(store: Store) -> None:
    known(store, "1")
    store.people.add("kim", "member", by="ada", email="kim@example.org")
    for name in ("Mia", "kim"):
        store.people.disable(name, by="ada")
    for attempt in (partial(known, store, "1"), partial(known, store, "2", email="kim@example.org")):
        with pytest.raises(SignInRefused, match="is disabled"):
            attempt()
    assert store.db.row("SELECT 1 FROM people WHERE subject = '2'") is None


def test_either_answer_to_a_provider_s_word_is_in_the_audit_log(store: Store, home: Home) -> None:
    assert sign_in_by_provider(home, vouched(CLAIMS, RULES), browser="Firefox")
    with pytest.raises(SignInRefused, match=r"Your e-mail address was ignored: the provider has not verified it\."):
        sign_in_by_provider(
            home, vouched(CLAIMS | {"sub": "2", "name": "Eve", "groups": [], "email_verified": False}, RULES)
        )
    (refused, begun), told = _audit(store)[:2], ["Mia", "Eve"]
    assert (begun.who, begun.command, begun.detail, begun.refused) == (told[0], "sign in", "way=provider", "")
    assert (refused.command, refused.role) == ("sign in", "nobody")
    assert told[1] in refused.refused


def _audit(store: Store) -> list[Any]:
    with Reader.open(store.db.home) as reader:
        return list(reader.audit.entries())
