"""A person's notification channels, recent messages, and the form that adds a channel."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app.core.formatting import duration, moment, now, since
from app.ui import current_user, dialogs, widgets
from app.ui.html import (
    as_cell,
    as_text,
    block,
    duel_link,
    nowrap,
    quiet,
    run_link,
    stacked,
    strong,
    sweep_link,
    table,
    when,
    wide,
)
from app.ui.store_access import command, give, message_of, reading, say_trouble
from engine.access.receivers import KIND_WORDS, KINDS, LONGEST, Kind
from engine.errors import EngineError
from engine.home import Home
from engine.notices.mail_server import mail_server
from engine.store import Reader, Store
from engine.store.notices.channels import END_WORDS, ENDS, REACH_WORDS, REACHES, Channel, Ends, Reach
from engine.store.notices.outbox import Sent

TICK_S, FRESH_S = 2.0, 60.0
"""Refresh interval while a message younger than a minute is pending."""
SHOWN = 10
_TICKS = "notify.ticks"


def notifications_section(*, is_page: bool = False) -> None:
    """Show the person's channels and messages, as a section or (`is_page`) as the whole page."""
    who = current_user.name()
    if who is None:
        with reading():
            st.write("Get notified when your own runs, sweeps and duels end. Enter your name to set up channels.")
        if st.button("Enter your name", key="notify.who", type="primary"):
            dialogs.open_soon(current_user.ask_name, "You are notified about runs that carry this name.", "Continue")
        return
    st.fragment(_section, run_every=TICK_S if st.session_state.get(_TICKS) else None)(
        who, st.header if is_page else st.subheader
    )


def _section(who: str, heading: Callable[..., object]) -> None:
    with reading() as reader:
        with reader.db.snapshot():
            channels, sent = reader.channels.of(who), reader.outbox.sent(who, limit=SHOWN)
        on_its_way = any(each.waits and (since(each.made_at) or 0.0) < FRESH_S for each in sent)
        if on_its_way != bool(st.session_state.get(_TICKS)):
            st.session_state[_TICKS] = on_its_way
            st.rerun()
        if any(each.waits for each in sent):
            widgets.runner_banner(reader)
        heading("Channels", anchor=False)
        _channels(channels)
        heading("New channel", anchor=False)
        _add(reader, who)
    if sent:
        heading("Recent messages", anchor=False)
        _messages(sent, {channel.id: channel for channel in channels})


def _channels(channels: Sequence[Channel]) -> None:
    if not channels:
        st.write(
            "No channels yet. Add one below to be notified when your own runs, sweeps and duels end, then send a test "
            "message."
        )
    for channel in channels:
        with st.container(border=True):
            _channel(channel)


def _add(reader: Reader, who: str) -> None:
    if refusal := current_user.why_not("add channel"):
        st.caption(as_text(refusal))
    else:
        show(reader, who)


def _channel(channel: Channel) -> None:
    """Show one channel with its actions."""
    tells = f"Notifies about {REACH_WORDS[channel.reach]}: {END_WORDS[channel.ends]}."
    st.html(block("pl-said", stacked([strong(_name(channel)) + f" {channel.shown}", quiet(tells)])))
    if channel.paused_at:
        st.warning(as_text(f"Paused: {channel.paused_because}"))
    say_trouble(f"channel {channel.id}")
    with st.container(horizontal=True, gap="small"):
        if channel.paused_at:
            _button(
                "Resume",
                channel,
                lambda store, who: store.channels.resume(channel.id, by=who),
                "Resume messages, starting with the pending ones.",
            )
        else:
            _button(
                "Send test",
                channel,
                lambda store, who: store.channels.test(channel.id, by=who),
                "The runner sends a test message within 2 seconds.",
            )
            _button(
                "Pause",
                channel,
                lambda store, who: store.channels.pause(channel.id, by=who),
                "Events during the pause are not sent later.",
            )
        _change(channel)
        if st.button("Delete", key=f"notify.delete.{channel.id}", help="Asks for confirmation."):
            dialogs.open_soon(ask_delete, channel)


def _button(label: str, channel: Channel, order: Callable[[Store, str], object], words: str) -> None:
    """Show a button that runs a command before the section is redrawn; errors are shown on the page."""

    def ordered() -> None:
        who = current_user.whoever()
        give(lambda store: order(store, who), f"channel {channel.id}")

    st.button(label, key=f"notify.{label}.{channel.id}", help=words, on_click=ordered)


def _change(channel: Channel) -> None:
    with st.popover("Change", key=f"notify.change.{channel.id}"):
        ends = st.selectbox(
            "Outcomes",
            ENDS,
            ENDS.index(channel.ends),
            format_func=lambda each: END_WORDS[each],
            key=f"notify.ends.{channel.id}",
        )
        reach = st.selectbox(
            "Events",
            REACHES,
            REACHES.index(channel.reach),
            format_func=lambda each: REACH_WORDS[each],
            key=f"notify.reach.{channel.id}",
        )
        _button(
            "Save",
            channel,
            lambda store, who: store.channels.change(channel.id, ends=ends, reach=reach, by=who),
            "Applies to events from now on.",
        )


@st.dialog("Delete this channel?")
def ask_delete(channel: Channel) -> None:
    """Confirm, then delete the channel with its address."""
    st.write(
        as_text(f"{KIND_WORDS[channel.kind]} {channel.shown}: its address and all pending messages will be deleted.")
    )
    who = current_user.whoever()
    with st.container(horizontal=True):
        if st.button("Delete channel", type="primary") and command(
            lambda store: store.channels.delete(channel.id, by=who) is None
        ):
            st.rerun()
        if st.button("Keep channel"):
            st.rerun()


def _name(channel: Channel) -> str:
    return f"{KIND_WORDS[channel.kind]}, channel {channel.id}"


def _messages(sent: Sequence[Sent], channels: Mapping[int, Channel]) -> None:
    rows = [
        [
            nowrap(when(each.made_at)),
            nowrap(_name(channels[each.channel_id])),
            _of(each),
            _state(each),
            wide(_why(each)),
        ]
        for each in sent
    ]
    st.html(table(["Time", "Channel", "Subject", "State", "Error"], rows, caption="Recent messages"))


def _of(sent: Sent) -> str:
    if sent.kind == "test":
        return "test"
    if sent.run_id is not None:
        first = "first failure: " if sent.kind == "failure" else ""
        return first + run_link(f"run {sent.run_id}", sent.run_id)
    return (
        sweep_link(f"sweep {sent.sweep_id}", sent.sweep_id)
        if sent.sweep_id is not None
        else duel_link(f"duel {sent.duel_id}", sent.duel_id or 0)
    )


def _why(sent: Sent) -> str:
    """Return the last attempt's error and the time of the next one, as HTML."""
    left_s = (moment(sent.due_at) - now()).total_seconds()
    following = f" Next attempt in {duration(left_s)}." if sent.waits and sent.last_error and left_s > 0 else ""
    return sent.last_error + following


def _state(sent: Sent) -> str:
    return as_cell(sent.state, "finished" if sent.delivered_at else "failed" if sent.failed_at else "queued")


# ---- The form that adds a channel: target and events ---------------------------------------------------------------
# Only the store keeps a webhook's address.

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
