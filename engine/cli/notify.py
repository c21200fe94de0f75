"""`notify`: notification channels, and for admins the mail server."""

import sys
from collections.abc import Callable

import click

from engine.access.receivers import KIND_WORDS, KINDS, Kind
from engine.cli.answers import moment, print_json, say, table
from engine.cli.frame import FAILED, json_option, owner_option
from engine.cli.receivers import hosts_command
from engine.cli.runner_start import tell_ignored_settings
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Reader, Store
from engine.store.notices.channels import END_WORDS, ENDS, REACH_WORDS, REACHES, Channel, Ends, Reach
from engine.store.notices.outbox import Sent

_ends = click.option(
    "--ends",
    type=click.Choice(ENDS),
    default="all",
    show_default=True,
    help="; ".join(f"{name}: {words}" for name, words in END_WORDS.items()) + ".",
)
_reach = click.option(
    "--of",
    "reach",
    type=click.Choice(REACHES),
    default="runs",
    show_default=True,
    help="; ".join(f"{name}: {words}" for name, words in REACH_WORDS.items()) + ".",
)
_number = click.argument("channel_id", metavar="NUMBER", type=int)


@click.group("notify")
def notify_command() -> None:
    """Get notified by Slack, Discord, another webhook or e-mail when your runs, sweeps and duels end or fail. The
    runner sends the messages.

    All these commands accept --json.
    """


notify_command.add_command(hosts_command)


@notify_command.command("add", short_help="Add a channel.")
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--to",
    "recipient",
    default="",
    help="E-mail address, in a lab without accounts. With accounts, your account's address is used.",
)
@click.option(
    "--address-stdin", is_flag=True, help="Read a webhook's address from standard input instead of prompting."
)
@_ends
@_reach
@owner_option
@json_option
def add_command(
    kind: Kind, recipient: str, address_stdin: bool, ends: Ends, reach: Reach, owner: str, as_json: bool
) -> None:
    """Add a channel. A webhook's address is a secret: it is prompted for, never an argument, and shown shortened."""
    if kind != "email" and recipient:
        raise ConfigError(
            [
                Problem(
                    "to",
                    (
                        "--to applies only to e-mail. Enter a webhook's address at the prompt or with "
                        "--address-stdin, so that it stays out of the shell's history."
                    ),
                )
            ]
        )
    address = recipient if kind == "email" else _address(address_stdin)
    with Store.open(Home.find()) as store:
        made = store.channels.add(kind, address, owner=owner, ends=ends, reach=reach)
    say({"channel": made}, f"Channel {made} added for {owner}. Test it: python -m engine notify test {made}", as_json)


@notify_command.command("list", short_help="List channels and the last messages.")
@click.option("--all", "everybody", is_flag=True, help="Include the channels of other people.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000), default=10, show_default=True, help="Number of messages to show."
)
@owner_option
@json_option
def list_command(everybody: bool, limit: int, owner: str, as_json: bool) -> None:
    """List channels and the last messages, with delivery errors."""
    whose = None if everybody else owner
    with Reader.open(Home.find()) as reader:
        channels, sent = reader.channels.of(whose), reader.outbox.sent(whose, limit=limit)
    if as_json:
        print_json({"channels": channels, "messages": sent})
        return
    if not channels:
        click.echo("No channels. Add one: python -m engine notify add slack")
        return
    click.echo(table(("NUMBER", "OWNER", "KIND", "TO", "ENDS", "OF", ""), [_cells(each) for each in channels]))
    if sent:
        click.echo("\n" + table(("WHEN", "CHANNEL", "OF", "STATE", "WHY"), [_message(each) for each in sent]))


@notify_command.command("set", short_help="Change the events of a channel.")
@_number
@_ends
@_reach
@owner_option
@json_option
def set_command(channel_id: int, ends: Ends, reach: Reach, owner: str, as_json: bool) -> None:
    """Change which events a channel reports."""
    _order(
        lambda store: store.channels.change(channel_id, ends=ends, reach=reach, by=owner),
        channel_id,
        "is changed",
        as_json,
    )


@notify_command.command("test", short_help="Send a test message.")
@_number
@owner_option
@json_option
def test_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Have the runner send a test message; `notify list` shows its delivery."""
    _order(
        lambda store: store.channels.test(channel_id, by=owner),
        channel_id,
        "will get a test message from the runner",
        as_json,
    )


@notify_command.command("pause", short_help="Pause a channel.")
@_number
@owner_option
@json_option
def pause_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Pause a channel until it is resumed; events in between are not sent later."""
    _order(lambda store: store.channels.pause(channel_id, by=owner), channel_id, "is paused", as_json)


@notify_command.command("resume", short_help="Resume a paused channel.")
@_number
@owner_option
@json_option
def resume_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Resume a paused channel, starting with messages that were not delivered yet."""
    _order(lambda store: store.channels.resume(channel_id, by=owner), channel_id, "is resumed", as_json)


@notify_command.command("remove", short_help="Delete a channel and its address.")
@_number
@owner_option
@json_option
def remove_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Delete a channel, its address and its undelivered messages."""
    _order(lambda store: store.channels.delete(channel_id, by=owner), channel_id, "is deleted", as_json)


@notify_command.command("mail", short_help="Show and test the mail server's settings.")
@click.option("--check", is_flag=True, help="Connect, encrypt and sign in; no message is sent.")
@owner_option
@json_option
@click.pass_context
def mail_command(ctx: click.Context, check: bool, owner: str, as_json: bool) -> None:
    """Show the mail server's settings. With --check, connect, encrypt and sign in, without sending a message."""
    from engine.notices import mail
    from engine.notices.mail_server import mail_server

    home = Home.find()
    with Store.open(home) as store:
        store.access.permit("check mail", by=owner)
    server = mail_server(home)
    if server is None:
        raise ConfigError(
            [
                Problem(
                    "mail",
                    (
                        f"This lab has no mail server. Create {home.path}/mail.toml, or set PARALLAB_MAIL_HOST (see "
                        "docs/notifications.md)."
                    ),
                )
            ]
        )
    tell_ignored_settings(home)  # the runner sends e-mail
    outcome = mail.check(server) if check else None
    said = (
        f"Sender {server.sender}, server {server.host}:{server.port}, security "
        f"{server.security}{', with sign-in' if server.user else ''}."
    )
    if outcome is not None:
        said += f" {outcome.error or 'Check passed: the server answers and accepts the sign-in.'}"
    about = {
        "host": server.host,
        "port": server.port,
        "security": server.security,
        "sender": server.sender,
        "signs_in": bool(server.user),
    }
    say({**about, "checked": outcome is not None, "error": outcome.error if outcome else ""}, said, as_json)
    ctx.exit(FAILED if outcome and not outcome.delivered else 0)


def _address(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().strip()
    return str(click.prompt("Address of the webhook", hide_input=True, err=True)).strip()


def _order(order: Callable[[Store], object], channel_id: int, said: str, as_json: bool) -> None:
    with Store.open(Home.find()) as store:
        order(store)
    say({"channel": channel_id, "now": said}, f"Channel {channel_id} {said}.", as_json)


def _cells(channel: Channel) -> tuple[object, ...]:
    said = f"paused: {channel.paused_because}" if channel.paused_at else ""
    return (channel.id, channel.owner, KIND_WORDS[channel.kind], channel.shown, channel.ends, channel.reach, said)


def _message(sent: Sent) -> tuple[object, ...]:
    of = next(
        (
            f"{name} {number}"
            for name, number in (("run", sent.run_id), ("sweep", sent.sweep_id), ("duel", sent.duel_id))
            if number
        ),
        sent.kind,
    )
    return (moment(sent.made_at), sent.channel_id, of, sent.state, sent.last_error)
