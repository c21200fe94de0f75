"""Where a person is told that something of theirs has ended: their channels, the last messages, and a form for another
channel.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape

import streamlit as st

from app.core.formatting import duration, moment, now, since
from app.notifications import channel_form
from app.notifications.pending_commands import give, say_trouble
from app.ui import current_user, dialogs, widgets
from app.ui.html import as_cell, as_text, duel_link, run_link, sweep_link, table, when, wide
from app.ui.store_access import command, reading
from engine.access.receivers import KIND_WORDS
from engine.store import Reader, Store
from engine.store.notices.channels import END_WORDS, ENDS, REACH_WORDS, REACHES, Channel
from engine.store.notices.outbox import Sent

TICK_S, FRESH_S = 2.0, 60.0
"""While a message that is younger than a minute is on its way, the section looks again so often."""
SHOWN = 10
_TICKS = "notify.ticks"


def notifications_section(*, is_page: bool = False) -> None:
    """Show the person's channels and messages, below a header of a page of several things, or (`is_page`) as all of a
    page.
    """
    who = current_user.name()
    if who is None:
        with reading():
            st.write(
                "Messages tell people that runs of theirs have ended. Say who you are, and you can set up "
                "where yours go."
            )
        if st.button("Say who you are", key="notify.who"):
            dialogs.open_soon(current_user.ask_name, "Your runs carry your name; messages tell you of those.", "Go on")
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
        heading("Add a channel", anchor=False)
        _add(reader, who)
    if sent:
        heading("Last messages", anchor=False)
        _messages(sent, {channel.id: channel for channel in channels})


def _channels(channels: Sequence[Channel]) -> None:
    if not channels:
        st.write(
            "You have no channel yet, so nobody tells you when your runs end. Add one below, then send a test message."
        )
    for channel in channels:
        with st.container(border=True):
            _channel(channel)


def _add(reader: Reader, who: str) -> None:
    if refusal := current_user.why_not("add channel"):
        st.caption(as_text(refusal))
    else:
        channel_form.show(reader, who)


def _channel(channel: Channel) -> None:
    """Show one channel with what can be done to it."""
    tells = f"Tells of {REACH_WORDS[channel.reach]}: {END_WORDS[channel.ends]}."
    words = f"<strong>{escape(_name(channel))}</strong> {escape(channel.shown)}"
    st.html(f'<div class="pl-said">{words}<br><span class="pl-quiet">{escape(tells)}</span></div>')
    if channel.paused_at:
        st.warning(as_text(f"Paused: {channel.paused_because}"))
    say_trouble(f"channel {channel.id}")
    with st.container(horizontal=True, gap="small"):
        if channel.paused_at:
            _button(
                "Resume",
                channel,
                lambda store, who: store.channels.resume(channel.id, by=who),
                "Tell again, beginning with what was on its way.",
            )
        else:
            _button(
                "Send test",
                channel,
                lambda store, who: store.channels.test(channel.id, by=who),
                "The runner sends a message within a second or two.",
            )
            _button(
                "Pause",
                channel,
                lambda store, who: store.channels.pause(channel.id, by=who),
                "What ends meanwhile is not told later.",
            )
        _change(channel)
        if st.button("Delete", key=f"notify.delete.{channel.id}", help="Asks first."):
            dialogs.open_soon(ask_delete, channel)


def _button(label: str, channel: Channel, order: Callable[[Store, str], object], words: str) -> None:
    """Show a button that gives a command before the section is drawn again; what can't be done stands on the page."""

    def ordered() -> None:
        who = current_user.whoever()
        give(lambda store: order(store, who), f"channel {channel.id}")

    st.button(label, key=f"notify.{label}.{channel.id}", help=words, on_click=ordered)


def _change(channel: Channel) -> None:
    with st.popover("Change", key=f"notify.change.{channel.id}"):
        ends = st.selectbox(
            "Which ends",
            ENDS,
            ENDS.index(channel.ends),
            format_func=lambda each: END_WORDS[each],
            key=f"notify.ends.{channel.id}",
        )
        reach = st.selectbox(
            "Of what",
            REACHES,
            REACHES.index(channel.reach),
            format_func=lambda each: REACH_WORDS[each],
            key=f"notify.reach.{channel.id}",
        )
        _button(
            "Save",
            channel,
            lambda store, who: store.channels.change(channel.id, ends=ends, reach=reach, by=who),
            "It holds for what ends from now on.",
        )


@st.dialog("Delete this channel?")
def ask_delete(channel: Channel) -> None:
    """Ask once more, then delete the channel with its address."""
    st.write(
        as_text(
            f"{KIND_WORDS[channel.kind]} {channel.shown}: its address is deleted, and what is still to be sent "
            "there with it."
        )
    )
    who = current_user.whoever()
    with st.container(horizontal=True):
        if st.button("Delete the channel", type="primary") and command(
            lambda store: store.channels.delete(channel.id, by=who) is None
        ):
            st.rerun()
        if st.button("Keep it"):
            st.rerun()


def _name(channel: Channel) -> str:
    return f"{KIND_WORDS[channel.kind]}, channel {channel.id}"


def _messages(sent: Sequence[Sent], channels: Mapping[int, Channel]) -> None:
    rows = [
        [
            _nowrap(when(each.made_at)),
            _nowrap(escape(_name(channels[each.channel_id]))),
            _of(each),
            _state(each),
            wide(_why(each)),
        ]
        for each in sent
    ]
    st.html(table(["When", "Channel", "Of", "State", "Why"], rows, caption="The last messages"))


def _of(sent: Sent) -> str:
    if sent.kind == "test":
        return "a test"
    if sent.run_id is not None:
        first = "the first failure: " if sent.kind == "failure" else ""
        return first + run_link(f"run {sent.run_id}", sent.run_id)
    return (
        sweep_link(f"sweep {sent.sweep_id}", sent.sweep_id)
        if sent.sweep_id is not None
        else duel_link(f"duel {sent.duel_id}", sent.duel_id or 0)
    )


def _why(sent: Sent) -> str:
    """Return why the last attempt failed, and when the next one is, as HTML."""
    left_s = (moment(sent.due_at) - now()).total_seconds()
    following = f" Next attempt in {duration(left_s)}." if sent.waits and sent.last_error and left_s > 0 else ""
    return escape(sent.last_error + following)


def _nowrap(cell: str) -> str:
    return f'<span class="pl-nowrap">{cell}</span>'


def _state(sent: Sent) -> str:
    return as_cell(sent.state, "finished" if sent.delivered_at else "failed" if sent.failed_at else "queued")
