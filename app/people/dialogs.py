"""The dialogs of the People page: new passwords, an account's end, and quotas."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.ui import current_user, dialogs
from app.ui.html import as_text
from app.ui.store_access import command, give, reading, say_trouble
from app.ui.widgets import page_address, say_reach
from engine.access import passwords
from engine.access.quotas import BOUNDS, NO_LIMIT, Value, limits, read_value
from engine.access.rules import ROLE_WORDS, ROLES
from engine.commands.accounts import MOST, Slip, disable_account, from_list, sheet
from engine.commands.lab_settings import change_limits
from engine.errors import ConfigError, EngineError
from engine.home import Home
from engine.notices.public_url import public_url
from engine.store import Person, Store
from engine.store.access.people import EMAIL_LENGTH, NAME_LENGTH

_TYPED, _ADDRESS = "people.typed", "people.list.printed_address"
UNTIL_CLOSED = "It is shown only until you close this."
DONE = "people.done"
"""What the last dialog did, for the page to say."""
_unconfirmed: dict[str, list[Slip]] = {}
"""New passwords that an admin has not confirmed as printed or saved, by the store's key of their sign-in: only in the
memory of this process, so that they survive a reload of the page and nothing else.
"""
_unclosed: dict[str, list[tuple[str, str]]] = {}
"""Generated passwords and tokens that their reader has not closed, each after a sentence on it; kept like those."""


def unclosed() -> list[tuple[str, str]]:
    """Return the secrets that `show_secrets` shows. Who makes one takes the list before, and appends it to that: a
    press meanwhile ends a script or callback at its next look at the session's state.
    """
    return _unclosed.setdefault(current_user.key(), [])


def show_secrets() -> None:
    """Show new secrets in a dialog, until it is closed there; it shows them again after a reload."""
    if found := unclosed():
        dialogs.open_by_itself(_show_unclosed, found)


@st.dialog("Copy this now", dismissible=False)
def _show_unclosed(found: list[tuple[str, str]]) -> None:
    for sentence, secret in found:
        st.write(as_text(sentence))
        st.code(secret, language=None)
    if st.button("Close", type="primary", key="people.secrets.close"):
        found.clear()
        st.rerun()


@st.dialog("Accounts added", width="large", dismissible=False)
def show_sheet(slips: Sequence[Slip]) -> None:
    """Show the generated passwords of new accounts as slips to print, until confirmed: Esc does not close it, and after
    a reload it is there again.
    """
    count = "1 account" if len(slips) == 1 else f"{len(slips)} accounts"
    st.write(f"{count} added. The passwords are not stored: print or save the slips, then confirm.")
    if (address := st.session_state.get(_ADDRESS)) is None:
        _ask_address()
        return
    page = sheet(slips, address)
    st.iframe(page, height=440, alt="Slips with names and passwords")
    with st.container(horizontal=True):
        st.download_button("Save", page, "slips.html", "text/html", key="people.list.save", on_click="ignore")
        st.button("Change the address", key="people.list.again", on_click=st.session_state.pop, args=(_ADDRESS,))
        if st.button("The slips are printed or saved", type="primary", key="people.list.printed"):
            _unconfirmed.pop(current_user.key(), None)
            del st.session_state[_ADDRESS]
            st.rerun()


def _ask_address() -> None:
    """Ask for the address on the slips in a form, so that the slips shown and saved always have what was typed."""
    usual = public_url() or page_address("/")
    with st.form("people.slips", border=False):
        st.text_input(
            "Address on the slips",
            usual,
            key="people.list.address",
            help="Where these people open the console.",
        )
        say_reach(usual)
        st.form_submit_button("Show the slips", type="primary", on_click=_take_address)


def _take_address() -> None:
    st.session_state[_ADDRESS] = st.session_state["people.list.address"].strip()


@st.dialog("E-mail address")
def ask_email(name: str) -> None:
    """Set or remove the e-mail address of an account."""
    with reading() as reader:
        one = reader.people.one(name)
    with st.form("people.email", border=False):
        email = st.text_input(
            f"E-mail address of {as_text(one.name)}",
            one.email,
            max_chars=EMAIL_LENGTH,
            help="For notifications; also links the account to the provider sign-in with this verified address.",
        )
        sent = st.form_submit_button("Save", type="primary")
    who = current_user.whoever()
    if sent and command(lambda store: store.people.set_email(one.name, email, by=who)) is not None:
        st.rerun()


@st.dialog("Set password")
def ask_password(name: str) -> None:
    """Set a typed or generated password; the person is signed out everywhere."""
    st.write(as_text(f"This signs {name} out of all browsers."))
    with st.form("people.password", border=False, clear_on_submit=True):
        typed = st.text_input(
            "Password",
            type="password",
            key=_TYPED,
            autocomplete="new-password",
            placeholder="leave empty to generate one",
        )
        sent = st.form_submit_button("Set password", type="primary")
    if sent:
        _set(name, typed)


def _set(name: str, typed: str) -> None:
    made, who, kept = "" if typed else passwords.made(), current_user.whoever(), unclosed()
    done = f"Password of {name} changed. All their browsers are signed out."

    def change(store: Store) -> Person:
        changed = store.people.set_password(name, typed or made, by=who)
        if made:
            kept.append((f"{done} Send the new one through a private channel. {UNTIL_CLOSED}", made))
        return changed

    if command(change) is not None:
        if not made:
            st.session_state[DONE] = as_text(done)
        st.rerun()


@st.dialog("Disable this account?")
def ask_disable(name: str) -> None:
    """Confirm, then disable an account."""
    st.write(
        as_text(f"{name} is signed out immediately and can't sign in again. Their API tokens are revoked permanently.")
    )
    with reading() as reader:
        active = len(reader.quotas.active_runs(name))
    above = st.container()  # what the box changes
    cancel_runs = False
    if active:
        words = f"Also cancel their {'queued or running run' if active == 1 else f'{active:,} queued and running runs'}"
        cancel_runs = st.checkbox(words, key="people.out.runs")
    stay = (
        "Recorded data is kept"
        if cancel_runs
        else "Their running runs continue, their queued runs still start, and all stay"
    )
    above.write(f"{stay} under their name. An admin can enable the account again.")
    who = current_user.whoever()

    def end(store: Store) -> tuple[Person, int]:
        return disable_account(store, name, by=who, cancel_runs=cancel_runs)

    with st.container(horizontal=True):
        ordered = command(end) if st.button("Disable account", type="primary", key="people.out.now") else None
        if ordered is not None:
            person, count = ordered
            runs = f" {count:,} {'run is' if count == 1 else 'runs are'} being cancelled." if cancel_runs else ""
            st.session_state[DONE] = f"{as_text(person.name)} is disabled.{runs}"
            st.rerun()
        if st.button("Keep enabled"):
            st.rerun()


@st.dialog("Quotas")
def ask_quotas(name: str = "") -> None:
    """Set the quotas of a person, or without a name of everyone."""
    try:
        found = limits(Home.find())
    except EngineError as error:
        st.error(as_text(str(error)))
        return
    everyone = {field: getattr(found, field) for field in BOUNDS}
    own: Mapping[str, Value] = found.people.get(name, {}) if name else everyone
    st.write(as_text(f"{name}: an empty field means everyone's quota, “{NO_LIMIT}” no limit." if name else _EVERYONE))
    with st.form("people.quotas", border=False):
        texts = {
            field: st.text_input(
                f"{bounds.title}{f' ({bounds.unit})' if bounds.unit else ''}",
                _written(own[field], named=bool(name)) if field in own else "",
                key=f"people.quota.{field}",
                placeholder=f"everyone's: {_written(everyone[field])}" if name else NO_LIMIT,
                help=f"{bounds.says} {bounds.range}.",
            )
            for field, bounds in BOUNDS.items()
        }
        sent = st.form_submit_button("Set quotas", type="primary")
    if not sent:
        return
    usual = frozenset(field for field, text in texts.items() if name and not text.strip() and field in own)
    try:
        changes = {
            field: read_value(field, text.strip() or NO_LIMIT)
            for field, text in texts.items()
            if text.strip() or not name
        }
        changes = {field: value for field, value in changes.items() if field not in own or own[field] != value}
        if changes or usual:
            change_limits(Home.find(), changes, by=current_user.whoever(), person=name or None, usual=usual)
    except EngineError as error:
        st.error(as_text(str(error)))
        return
    st.rerun()


_EVERYONE = (
    "Quotas per person, also of admins; an empty field means no limit. Queued and running runs are not affected."
)


def _written(value: Value, *, named: bool = True) -> str:
    """Return a limit as it is typed; that there is none is written out where empty means another thing."""
    return f"{value:.12g}" if value is not None else NO_LIMIT if named else ""


# ------------------------------------------------------------------------------------------------------------------
# The forms that add an account, or one for each name of a list; passwords are typed, or generated and shown once.

_NAME, _ROLE, _EMAIL, _PASSWORD, _PROVIDER, _ADDED = (
    f"people.add.{each}" for each in ("name", "role", "email", "password", "provider", "done")
)

_NAMES, _LIST_ROLE = (f"people.list.{each}" for each in ("names", "role"))


def adding_list() -> None:
    """Show the collapsed form for a list of names; the passwords of its result are slips to print."""
    with st.expander("Add accounts from a list"), st.form("people.list", border=False):
        st.text_area(
            "Names",
            key=_NAMES,
            placeholder="Ada Lovelace\nMo, mo@lab.org",
            help=f"At most {MOST} lines: a name, or a name, a comma and an e-mail address. All are added, or none.",
        )
        st.session_state.setdefault(_LIST_ROLE, "member")
        st.selectbox("Role of all", ROLES, key=_LIST_ROLE)
        st.form_submit_button("Add all", type="primary", on_click=_add_list)
        say_trouble(_NAMES)
    if slips := _unconfirmed.get(current_user.key()):
        dialogs.open_by_itself(show_sheet, slips)
    else:
        show_secrets()


def _add_list() -> None:
    """Add the people before the page reruns. A second press before the slips of the first are there adds nothing: a
    press ends the callback before it at its next look at the session's state, so that the slips are kept before that.
    """
    who, role, text = current_user.whoever(), st.session_state[_LIST_ROLE], st.session_state[_NAMES]
    kept = _unconfirmed.setdefault(current_user.key(), [])

    def add(store: Store) -> None:
        people, slips = from_list(text)
        names = store.people.add_all(people, role, by=who)
        kept.extend(Slip(name, slip.password) for name, slip in zip(names, slips, strict=True))

    if kept or give(add, _NAMES):
        st.session_state.update({_NAMES: "", _LIST_ROLE: "member"})


def adding() -> None:
    """Show the collapsed form and its result."""
    with st.expander("Add account"), st.form("people.add", border=False):
        left, right = st.columns(2, gap="medium")
        with left:
            st.text_input(
                "Name",
                key=_NAME,
                max_chars=NAME_LENGTH,
                help="User name, and owner of the runs they launch. Names are unique and never reused.",
            )
            words = "; ".join(f"{role}: {words}" for role, words in ROLE_WORDS.items())
            st.session_state.setdefault(_ROLE, "member")
            st.selectbox("Role", ROLES, key=_ROLE, help=as_text(f"{words}."))
        with right:
            st.text_input(
                "E-mail",
                key=_EMAIL,
                max_chars=EMAIL_LENGTH,
                placeholder="optional",
                help="Links the account to the provider sign-in with this verified address.",
            )
            st.text_input(
                "Password",
                type="password",
                key=_PASSWORD,
                autocomplete="new-password",
                placeholder="leave empty to generate one",
            )
        st.toggle("OpenID sign-in only (no password)", key=_PROVIDER)
        st.form_submit_button("Add", type="primary", on_click=_add)
        say_trouble(_NAME)
    if (added := st.session_state.pop(_ADDED, "")) and not _unconfirmed.get(current_user.key()):
        st.success(as_text(added))


def _add() -> None:
    """Add the person before the page reruns, and clear the typed password."""
    name, role, email, typed = (str(st.session_state.get(each) or "") for each in (_NAME, _ROLE, _EMAIL, _PASSWORD))
    at_provider, who = bool(st.session_state.get(_PROVIDER)), current_user.whoever()
    st.session_state[_PASSWORD] = ""
    made = "" if typed or at_provider else passwords.made()
    slips = _unconfirmed.setdefault(current_user.key(), [])

    def add(store: Store) -> None:
        if at_provider and not email.strip():
            raise ConfigError.of(
                "email",
                "email is required for an account without a password: the provider's verified address identifies the "
                "person.",
            )
        kept = store.people.add(name, role, by=who, password=None if at_provider else typed or made, email=email)  # type: ignore[arg-type]
        slips.extend([Slip(kept, made)] if made else [])
        st.session_state[_ADDED] = f"Account {kept} added with role {role}."

    if slips or give(add, _NAME):
        st.session_state.update({_NAME: "", _EMAIL: "", _ROLE: "member", _PROVIDER: False})
