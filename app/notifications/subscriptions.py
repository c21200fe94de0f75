"""A person's subscriptions to the lab's channels, recent messages, and the form that adds a subscription."""

import shlex
from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app.core.assets import at
from app.core.caches import machine_token
from app.core.formatting import duration, moment, now, since
from app.links import addresses
from app.ui import components, current_user, dialogs, widgets
from app.ui.html import (
    as_cell,
    as_text,
    block,
    duel_link,
    link,
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
from app.ui.store_access import give, message_of, reading, say_trouble
from engine.access.channels import LONGEST, Channel, lab_channels
from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.notices.outbox import Message
from engine.store.notices.subscriptions import END_WORDS, ENDS, REACH_WORDS, REACHES, Ends, Reach, Subscription

EVERY_MS, FRESH_S = 1_000, 60.0
"""Polling interval while a message younger than a minute is pending. The token is that of the runner's samples."""
SHOWN = 10
FORM = "form"
"""Place of the form's errors."""


def notifications_page() -> None:
    """Show the person's subscriptions and messages."""
    who = current_user.name()
    if who is None:
        with reading():
            st.write("Get notified when your own runs, sweeps and duels end. Enter your name to subscribe.")
        if st.button("Enter your name", key="notify.who", type="primary"):
            dialogs.open_soon(current_user.ask_name, "You are notified about runs that carry this name.", "Continue")
        return
    _section(who)


@addresses.fragment
def _section(who: str) -> None:
    with reading(lambda: components.pulse(-1, of_machine=True)) as reader:
        token = machine_token(reader)
        with reader.db.snapshot():
            subscriptions, messages = reader.subscriptions.of(who), reader.outbox.sent(who, limit=SHOWN)
        on_its_way = any(each.waits and (since(each.made_at) or 0.0) < FRESH_S for each in messages)
        if any(each.waits for each in messages):
            widgets.runner_banner(reader)
        try:
            channels = lab_channels(Home.find())
        except EngineError as error:
            st.error(as_text(message_of(error)))
            channels = {}
        st.header("Subscriptions", anchor=False)
        if not subscriptions:
            st.write("No subscriptions yet. Add one below to be notified when your own runs, sweeps and duels end.")
        for subscription in subscriptions:
            with st.container(border=True):
                _subscription(subscription, channels)
        st.header("New subscription", anchor=False)
        if refusal := current_user.why_not("add subscription"):
            st.caption(as_text(refusal))
        elif not channels:
            st.info("This lab has no channels, so nothing can be sent yet. An admin defines them.")
            st.html(link("Documentation: notifications", at("/docs?page=notifications")))
            if current_user.may("set limits"):
                file = Home.find().notices
                st.caption("As an admin, write them into this file and make it private:")
                st.code(f"{file}\nchmod 600 {shlex.quote(str(file))}", language=None, wrap_lines=True)
        else:
            _form(reader, who, channels)
    if messages:
        st.header("Recent messages", anchor=False)
        _messages(messages)
    components.pulse(token, of_machine=True, active=on_its_way, every_ms=EVERY_MS, early_ms=EVERY_MS)


def _subscription(subscription: Subscription, channels: Mapping[str, Channel]) -> None:
    """Show one subscription with its actions."""
    number = subscription.id
    tells = f"Notifies about {REACH_WORDS[subscription.reach]}: {END_WORDS[subscription.ends]}."
    st.html(block("pl-said", stacked([strong(f"{subscription.title}, subscription {number}"), quiet(tells)])))
    if subscription.paused_at:
        st.warning(as_text(f"Paused: {subscription.paused_because}"))
    say_trouble(f"subscription {number}")
    with st.container(horizontal=True, gap="small"):
        if subscription.paused_at:
            resume = "Resume messages, starting with the pending ones."
            _button("Resume", number, lambda store, who: store.subscriptions.resume(number, by=who), resume)
        else:
            test = "The runner sends a test message within 2 seconds."
            _button("Send test", number, lambda store, who: store.subscriptions.test(number, by=who), test)
            pause = "Events during the pause are not sent later."
            _button("Pause", number, lambda store, who: store.subscriptions.pause(number, by=who), pause)
        with st.popover("Change", key=f"notify.change.{number}"):
            options = channels if subscription.channel in channels else {subscription.channel: None, **channels}
            channel = st.selectbox(
                "Channel",
                options,
                list(options).index(subscription.channel),
                format_func=lambda each: each or subscription.title,
                key=f"notify.channel.{number}",
            )
            ends, reach = _events(f".{number}", subscription.ends, subscription.reach)
            another = channel if channel != subscription.channel else ""

            def change(store: Store, who: str) -> None:
                store.subscriptions.change(number, ends=ends, reach=reach, channel=another, by=who)

            _button("Save", number, change, "Applies to events from now on; pending messages go to the channel chosen.")
        delete = "Deletes your address there and all pending messages."
        _button("Delete", number, lambda store, who: store.subscriptions.delete(number, by=who), delete)


def _button(label: str, number: int, order: Callable[[Store, str], object], words: str) -> None:
    """Show a button that runs a command before the section is redrawn; errors are shown on the page."""

    def ordered() -> None:
        who = current_user.whoever()
        give(lambda store: order(store, who), f"subscription {number}")

    st.button(label, key=f"notify.{label}.{number}", help=words, on_click=ordered)


def _events(of: str, ends: Ends = "all", reach: Reach = "runs") -> tuple[Ends, Reach]:
    left, right = st.columns(2)
    ends = left.selectbox("Outcomes", ENDS, ENDS.index(ends), format_func=END_WORDS.__getitem__, key=f"notify.ends{of}")
    at, words = REACHES.index(reach), REACH_WORDS.__getitem__
    return ends, right.selectbox("Events", REACHES, at, format_func=words, key=f"notify.reach{of}")


def _form(reader: Reader, who: str, channels: Mapping[str, Channel]) -> None:
    """Show the form; an added subscription appears above it."""
    with st.container(border=True):
        channel = channels[st.selectbox("Channel", channels, key="notify.channel")]
        st.caption(as_text(channel.about or channel.shown))
        account = reader.subscriptions.account_address(who)
        address = ""
        if channel.takes == "email" and account is not None:
            own = f"E-mail is sent to your account's address, {account}."
            adds = "Add one" if current_user.may("set email") else "An admin can add one"
            lacks = f"Your account has no e-mail address. {adds} on the page People."
            st.write(as_text(own if account else lacks))
        elif channel.takes != "nothing":
            domains = f"Allowed domains: {', '.join(channel.domains) or 'none yet'}."
            label, allowed = (channel.asks, None) if channel.asks else ("E-mail address", domains)
            address = st.text_input(label, key=f"notify.address.{channel.name}", max_chars=LONGEST, help=allowed)
        ends, reach = _events("")
        say_trouble(FORM)
        st.caption("One notification per sweep or duel when all its runs have ended, and one at the first failure.")

        def add() -> None:  # an address that was typed just before the click is not yet in the script's variable
            typed = st.session_state.get(f"notify.address.{channel.name}", address)
            give(lambda store: store.subscriptions.add(channel.name, typed, owner=who, ends=ends, reach=reach), FORM)

        st.button("Add subscription", type="primary", key="notify.add", on_click=add)


def _messages(messages: Sequence[Message]) -> None:
    rows = [
        [
            nowrap(when(each.made_at)),
            nowrap(" ".join(filter(None, (each.channel, each.address)))),
            _of(each),
            as_cell(each.state, "finished" if each.delivered_at else "failed" if each.failed_at else "queued"),
            wide(_why(each)),
        ]
        for each in messages
    ]
    st.html(table(["Time", "Channel", "Subject", "State", "Error"], rows, caption="Recent messages"))


def _of(message: Message) -> str:
    links = {"run": run_link, "sweep": sweep_link, "duel": duel_link}
    kind, number = next(iter(message.ids.items()), ("", "0"))
    first = "first failure: " if message.kind == "failure" else ""
    return first + links[kind](f"{kind} {number}", int(number)) if kind else "test"


def _why(message: Message) -> str:
    """Return the last attempt's error and the time of the next one, as HTML."""
    left_s = (moment(message.due_at) - now()).total_seconds()
    following = f" Next attempt in {duration(left_s)}." if message.waits and message.last_error and left_s > 0 else ""
    return message.last_error + following
