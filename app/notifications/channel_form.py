"""The form that adds a channel: target and events. Only the store keeps a webhook's address."""

import streamlit as st

from app.ui.html import as_text
from app.ui.store_access import give, message_of, say_trouble
from engine.access.receivers import KIND_WORDS, KINDS, LONGEST, Kind
from engine.errors import EngineError
from engine.home import Home
from engine.notices.mail_server import mail_server
from engine.store import Reader
from engine.store.notices.channels import END_WORDS, ENDS, REACH_WORDS, REACHES, Ends, Reach

_KIND, _ADDRESS, _RECIPIENT, _ENDS, _REACH = (
    f"notify.{name}" for name in ("kind", "address", "recipient", "ends", "reach")
)
FORM = "form"
_HOW: dict[Kind, str] = {
    "slack": "In Slack: your workspace's apps, Incoming Webhooks, Add New Webhook. Format: https://hooks.slack.com/services/T…/B…/…",
    "discord": "In Discord: Edit Channel, Integrations, Webhooks, Copy Webhook URL. Format: https://discord.com/api/webhooks/…/…",
    "json": "Your own receiver of JSON by POST. See docs/notifications.md for the fields.",
    "email": "Sent by the runner through the lab's mail server.",
}


def show(reader: Reader, who: str) -> None:
    """Show the form; an added channel appears above it."""
    kind: Kind = st.segmented_control(
        "Target", KINDS, default=KINDS[0], format_func=lambda each: KIND_WORDS[each], key=_KIND, required=True
    )
    with st.container(border=True):
        ready = _email(reader, who) if kind == "email" else _webhook(reader, kind)
        left, right = st.columns(2)
        left.selectbox("Outcomes", ENDS, format_func=lambda each: END_WORDS[each], key=_ENDS)
        right.selectbox("Events", REACHES, format_func=lambda each: REACH_WORDS[each], key=_REACH)
        say_trouble(FORM)
        st.caption("One notification per sweep or duel when all its runs have ended, and one at the first failure.")
        st.button(
            "Add channel", type="primary", key="notify.add", disabled=not ready, on_click=_add_channel, args=(kind, who)
        )


def _webhook(reader: Reader, kind: Kind) -> bool:
    """Show the webhook address field; return whether a channel can be added."""
    st.text_input("Webhook URL", key=_ADDRESS, type="password", max_chars=LONGEST, autocomplete="off", help=_HOW[kind])
    hosts = ", ".join(
        str(each.receiver)
        for each in reader.channels.listed_receivers()
        if each.receiver.kind in (("public", "internal") if kind == "json" else ("public",))
    )
    st.caption(
        as_text(
            "The URL is stored as a secret: only its host and last characters are shown later. Allowed hosts: "
            f"{hosts or 'none'}."
        )
    )
    return True


def _email(reader: Reader, who: str) -> bool:
    """Show the e-mail address, or a field for it in a lab without accounts; return whether a channel can be added."""
    try:
        server = mail_server(Home.find())
        account = reader.channels.account_address(who)
    except EngineError as error:
        st.error(as_text(message_of(error)))
        return False
    if server is None:
        st.info("This lab has no mail server. An admin can set one up; see docs/notifications.md.")
        return False
    if account is None:
        st.text_input("E-mail address", key=_RECIPIENT, max_chars=LONGEST, help=_HOW["email"])
        domains = ", ".join(each.host for each in sorted(reader.channels.receivers(), key=str) if each.kind == "mail")
        st.caption(as_text(f"Allowed e-mail domains: {domains or 'none yet; an admin can add one'}."))
        return True
    st.write(
        as_text(f"E-mail is sent to your account's address, {account}.")
        if account
        else "Your account has no e-mail address. An admin can add one on the page People."
    )
    return bool(account)


def _add_channel(kind: Kind, who: str) -> None:
    """Add the channel before the page reruns, and clear the form; errors are shown on the page."""
    state = st.session_state
    field = _RECIPIENT if kind == "email" else _ADDRESS
    address, ends, reach = str(state.get(field, "")), _chosen_ends(), _chosen_reach()
    if give(lambda store: store.channels.add(kind, address, owner=who, ends=ends, reach=reach), FORM):
        state[field] = ""


def _chosen_ends() -> Ends:
    found = st.session_state.get(_ENDS)
    return next((each for each in ENDS if each == found), "all")


def _chosen_reach() -> Reach:
    found = st.session_state.get(_REACH)
    return next((each for each in REACHES if each == found), "runs")
