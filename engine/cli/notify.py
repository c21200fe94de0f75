"""`notify`: notification channels, and for admins the allowed receivers and the mail server."""

import sys
from collections.abc import Callable

import click

from engine.access.receivers import KIND_WORDS, Kind, ReceiverKind
from engine.cli.answers import answer, moment, picked, print_json, table, wants_json
from engine.cli.frame import FAILED, OWNER, argument, command, explained, option
from engine.cli.runner import tell_ignored_settings
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.notices.channels import END_WORDS, REACH_WORDS, Channel, Ends, Reach
from engine.store.notices.outbox import Sent

ENDS = option(explained(END_WORDS), default="all")
REACH = option(explained(REACH_WORDS), "--of", default="runs")
CHANNEL_ID = argument("NUMBER")


@click.group("notify")
def notify_command() -> None:
    """Get notified by Slack, Discord, another webhook or e-mail when your runs, sweeps and duels end or fail. The
    runner sends the messages.

    All these commands accept --json.
    """


@command("hosts", within=notify_command, short_help="List, allow or remove receivers of messages.")
def hosts_command(
    add: str | None = option("Allow webhooks to a public host, over https.", metavar="HOST"),
    add_internal: str | None = option(
        "Allow webhooks of kind json to this host and port inside the lab's network, also over http.",
        metavar="HOST:PORT",
    ),
    add_domain: str | None = option(
        "In a lab without accounts: allow e-mail to addresses of this domain.", metavar="DOMAIN"
    ),
    remove: str | None = option("Remove a receiver, given as HOST, HOST:PORT or DOMAIN.", metavar="HOST"),
    owner: str = OWNER,
) -> None:
    """List the allowed receivers, after adding or removing one."""
    wanted: list[tuple[ReceiverKind, str | None]] = [("public", add), ("internal", add_internal), ("mail", add_domain)]
    with Store.open(Home.find()) as store:
        for kind, host in wanted:
            if host is not None:
                store.channels.allow_receiver(kind, host, by=owner)
        if remove is not None:
            _remove_receiver(store, remove, owner)
        found = store.read.channels.listed_receivers()
    words = {"public": "webhooks, https", "internal": "webhooks of kind json", "mail": "e-mail without accounts"}
    rows = [(str(each.receiver), words[each.receiver.kind], moment(each.added_at), each.added_by) for each in found]
    answer(found, table(("TO", "FOR", "SINCE", "BY"), rows))


def _remove_receiver(store: Store, text: str, owner: str) -> None:
    kinds: list[ReceiverKind] = (
        ["internal", "public"] if ":" in text else ["public", "mail"] if "." in text else ["public"]
    )
    done = [store.channels.refuse_receiver(kind, text, by=owner) for kind in kinds]
    if not any(done):
        unknown = f"Receiver '{text[:80]}' is not listed. `python -m engine notify hosts` shows the listed ones."
        raise ConfigError.of("remove", unknown)


@command("add", within=notify_command, short_help="Add a channel.")
def add_command(
    kind: Kind = argument(),
    recipient: str = option(
        "E-mail address, in a lab without accounts. With accounts, your account's address is used.", "--to", default=""
    ),
    address_stdin: bool = option("Read a webhook's address from standard input instead of prompting."),
    ends: Ends = ENDS,
    reach: Reach = REACH,
    owner: str = OWNER,
) -> None:
    """Add a channel. A webhook's address is a secret: it is prompted for, never an argument, and shown shortened."""
    if kind != "email" and recipient:
        secret = (
            "--to applies only to e-mail. Enter a webhook's address at the prompt or with --address-stdin, so that it "
            "stays out of the shell's history."
        )
        raise ConfigError.of("to", secret)
    address = recipient if kind == "email" else _address(address_stdin)
    with Store.open(Home.find()) as store:
        made = store.channels.add(kind, address, owner=owner, ends=ends, reach=reach)
    answer({"channel": made}, f"Channel {made} added for {owner}. Test it: python -m engine notify test {made}")


def _address(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().strip()
    return str(click.prompt("Address of the webhook", hide_input=True, err=True)).strip()


@command("list", within=notify_command, short_help="List channels and the last messages.")
def list_command(
    everybody: bool = option("Include the channels of other people.", "--all"),
    limit: int = option("Number of messages to show.", type=click.IntRange(0, 1_000), default=10),
    owner: str = OWNER,
) -> None:
    """List channels and the last messages, with delivery errors."""
    whose = None if everybody else owner
    with Reader.open(Home.find()) as reader:
        channels, sent = reader.channels.of(whose), reader.outbox.sent(whose, limit=limit)
    if wants_json():
        print_json({"channels": channels, "messages": sent})
        return
    headings = ("NUMBER", "OWNER", "KIND", "TO", "ENDS", "OF", "")
    click.echo(table(headings, map(_cells, channels), "No channels. Add one: python -m engine notify add slack"))
    if channels and sent:
        click.echo("\n" + table(("WHEN", "CHANNEL", "OF", "STATE", "WHY"), map(_message, sent)))


def _cells(channel: Channel) -> tuple[object, ...]:
    said = f"paused: {channel.paused_because}" if channel.paused_at else ""
    return (channel.id, channel.owner, KIND_WORDS[channel.kind], channel.shown, channel.ends, channel.reach, said)


def _message(sent: Sent) -> tuple[object, ...]:
    ids = (("run", sent.run_id), ("sweep", sent.sweep_id), ("duel", sent.duel_id))
    of = next((f"{name} {number}" for name, number in ids if number), sent.kind)
    return (moment(sent.made_at), sent.channel_id, of, sent.state, sent.last_error)


@command("set", within=notify_command, short_help="Change the events of a channel.")
def set_command(channel_id: int = CHANNEL_ID, ends: Ends = ENDS, reach: Reach = REACH, owner: str = OWNER) -> None:
    """Change which events a channel reports."""
    _change(channel_id, lambda store: store.channels.change(channel_id, ends=ends, reach=reach, by=owner), "is changed")


@command("test", within=notify_command, short_help="Send a test message.")
def send_test_command(channel_id: int = CHANNEL_ID, owner: str = OWNER) -> None:
    """Have the runner send a test message; `notify list` shows its delivery."""
    said = "will get a test message from the runner"
    _change(channel_id, lambda store: store.channels.test(channel_id, by=owner), said)


@command("pause", within=notify_command, short_help="Pause a channel.")
def pause_command(channel_id: int = CHANNEL_ID, owner: str = OWNER) -> None:
    """Pause a channel until it is resumed; events in between are not sent later."""
    _change(channel_id, lambda store: store.channels.pause(channel_id, by=owner), "is paused")


@command("resume", within=notify_command, short_help="Resume a paused channel.")
def resume_command(channel_id: int = CHANNEL_ID, owner: str = OWNER) -> None:
    """Resume a paused channel, starting with messages that were not delivered yet."""
    _change(channel_id, lambda store: store.channels.resume(channel_id, by=owner), "is resumed")


@command("remove", within=notify_command, short_help="Delete a channel and its address.")
def remove_command(channel_id: int = CHANNEL_ID, owner: str = OWNER) -> None:
    """Delete a channel, its address and its undelivered messages."""
    _change(channel_id, lambda store: store.channels.delete(channel_id, by=owner), "is deleted")


def _change(channel_id: int, change: Callable[[Store], object], said: str) -> None:
    with Store.open(Home.find()) as store:
        change(store)
    answer({"channel": channel_id, "now": said}, f"Channel {channel_id} {said}.")


@command("mail", within=notify_command, short_help="Show and test the mail server's settings.")
def mail_command(check: bool = option("Connect, encrypt and sign in; no message is sent."), owner: str = OWNER) -> int:
    """Show the mail server's settings. With --check, connect, encrypt and sign in, without sending a message."""
    from engine.notices import mail
    from engine.notices.mail_server import mail_server

    home = Home.find()
    with Store.open(home) as store:
        store.access.permit("check mail", by=owner)
    server = mail_server(home)
    if server is None:
        none = (
            f"This lab has no mail server. Create {home.path}/mail.toml, or set PARALLAB_MAIL_HOST (see "
            "docs/notifications.md)."
        )
        raise ConfigError.of("mail", none)
    tell_ignored_settings(home)  # the runner sends e-mail
    outcome = mail.check(server) if check else None
    said = (
        f"Sender {server.sender}, server {server.host}:{server.port}, security "
        f"{server.security}{', with sign-in' if server.user else ''}."
    )
    if outcome is not None:
        said += f" {outcome.error or 'Check passed: the server answers and accepts the sign-in.'}"
    about = picked(server, "host", "port", "security", "sender")
    tried = {"checked": outcome is not None, "error": outcome.error if outcome else ""}
    answer({**about, "signs_in": bool(server.user), **tried}, said)
    return FAILED if outcome and not outcome.delivered else 0
