"""`notify`: where somebody is told that their runs have ended, and for admins whom messages may go to and by which mail
server.
"""

import sys
from collections.abc import Callable

import click

from engine.access.receivers import KIND_WORDS, KINDS, Kind, ReceiverKind
from engine.cli.answers import moment, print_json, table
from engine.cli.frame import FAILED, json_option, owner_option
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


@click.group("notify", short_help="Be told by webhook or e-mail when runs end.")
def notify_command() -> None:
    """Be told by Slack, Discord, any other webhook or e-mail when your runs, sweeps and duels end or fail. The runner
    sends the messages.

    Each of these commands answers in JSON with --json.
    """


@notify_command.command("add", short_help="Add a channel.")
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--to",
    "recipient",
    default="",
    help="For e-mail in a lab without accounts: the address. With accounts it is that of your own.",
)
@click.option(
    "--address-stdin", is_flag=True, help="Read a webhook's address from standard input instead of asking for it."
)
@_ends
@_reach
@owner_option
@json_option
def add_command(
    kind: Kind, recipient: str, address_stdin: bool, ends: Ends, reach: Reach, owner: str, as_json: bool
) -> None:
    """Add a channel. A webhook's address is a secret: it is asked for, never given as an argument, and shown shortened
    from then on.
    """
    if kind != "email" and recipient:
        raise ConfigError(
            [
                Problem(
                    "to",
                    (
                        "--to is for e-mail. A webhook's address is asked for, or read with --address-stdin, so "
                        "that it stays out of the shell's history."
                    ),
                )
            ]
        )
    address = recipient if kind == "email" else _address(address_stdin)
    with Store.open(Home.find()) as store:
        made = store.channels.add(kind, address, owner=owner, ends=ends, reach=reach)
    _say({"channel": made}, f"Channel {made} tells {owner}. Try it: python -m engine notify test {made}", as_json)


@notify_command.command("list", short_help="List channels and the last messages.")
@click.option("--all", "everybody", is_flag=True, help="Those of everybody.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000), default=10, show_default=True, help="So many of the newest messages."
)
@owner_option
@json_option
def list_command(everybody: bool, limit: int, owner: str, as_json: bool) -> None:
    """List channels and the last messages, with why one could not be sent."""
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


@notify_command.command("set", short_help="Have a channel tell of other ends.")
@_number
@_ends
@_reach
@owner_option
@json_option
def set_command(channel_id: int, ends: Ends, reach: Reach, owner: str, as_json: bool) -> None:
    """Have a channel tell of other ends from now on."""
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
    """Have the runner send a test message; `notify list` says what became of it."""
    _order(
        lambda store: store.channels.test(channel_id, by=owner),
        channel_id,
        "gets a test message from the runner",
        as_json,
    )


@notify_command.command("pause", short_help="Have a channel tell nothing for a while.")
@_number
@owner_option
@json_option
def pause_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Have a channel tell nothing until it is resumed; what ends meanwhile is not told later."""
    _order(lambda store: store.channels.pause(channel_id, by=owner), channel_id, "is paused", as_json)


@notify_command.command("resume", short_help="Have a paused channel tell again.")
@_number
@owner_option
@json_option
def resume_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Have a paused channel tell again, beginning with what was on its way."""
    _order(lambda store: store.channels.resume(channel_id, by=owner), channel_id, "tells again", as_json)


@notify_command.command("remove", short_help="Delete a channel with its address.")
@_number
@owner_option
@json_option
def remove_command(channel_id: int, owner: str, as_json: bool) -> None:
    """Delete a channel with its address and what was to be sent there."""
    _order(lambda store: store.channels.delete(channel_id, by=owner), channel_id, "is deleted", as_json)


@notify_command.command("hosts", short_help="List, allow or refuse whom messages may go to.")
@click.option("--add", metavar="HOST", help="Let webhooks go to a host out in the world, over https.")
@click.option(
    "--add-internal",
    metavar="HOST:PORT",
    help="Let webhooks of kind json go to exactly this receiver inside the lab's network, http too.",
)
@click.option(
    "--add-domain", metavar="DOMAIN", help="In a lab without accounts: let e-mail go to addresses of this domain."
)
@click.option("--remove", metavar="HOST", help="Let none go there any more, as HOST, HOST:PORT or DOMAIN.")
@owner_option
@json_option
def hosts_command(
    add: str | None, add_internal: str | None, add_domain: str | None, remove: str | None, owner: str, as_json: bool
) -> None:
    """List whom messages may go to, after allowing or refusing a receiver."""
    wanted: list[tuple[ReceiverKind, str | None]] = [("public", add), ("internal", add_internal), ("mail", add_domain)]
    with Store.open(Home.find()) as store:
        for kind, host in wanted:
            if host is not None:
                store.channels.allow_receiver(kind, host, by=owner)
        if remove is not None:
            _remove(store, remove, owner)
        found = store.read.channels.listed_receivers()
    if as_json:
        print_json(found)
        return
    words = {"public": "webhooks, https", "internal": "webhooks of kind json", "mail": "e-mail without accounts"}
    click.echo(
        table(
            ("TO", "FOR", "SINCE", "BY"),
            [(str(each.receiver), words[each.receiver.kind], moment(each.added_at), each.added_by) for each in found],
        )
    )


@notify_command.command("mail", short_help="Say how the mail server is set up, and try it.")
@click.option("--check", is_flag=True, help="Connect, encrypt and sign in; no message is sent.")
@owner_option
@json_option
@click.pass_context
def mail_command(ctx: click.Context, check: bool, owner: str, as_json: bool) -> None:
    """Say by which server e-mail goes. With --check connect to it, encrypt and sign in as for a message,
    and send none.
    """
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
                        f"This lab has no mail server. Write {home.path}/mail.toml, or set PARALLAB_MAIL_HOST "
                        "(docs/notifications.md)."
                    ),
                )
            ]
        )
    tell_ignored_settings(home)  # it is the runner that sends
    outcome = mail.check(server) if check else None
    said = (
        f"E-mail goes from {server.sender} by {server.host}:{server.port}, "
        f"{server.security}{', signed in' if server.user else ''}."
    )
    if outcome is not None:
        said += f" {outcome.error or 'It answers, and takes the sign-in.'}"
    about = {
        "host": server.host,
        "port": server.port,
        "security": server.security,
        "sender": server.sender,
        "signs_in": bool(server.user),
    }
    _say({**about, "checked": outcome is not None, "error": outcome.error if outcome else ""}, said, as_json)
    ctx.exit(FAILED if outcome and not outcome.delivered else 0)


def _remove(store: Store, text: str, owner: str) -> None:
    kinds: list[ReceiverKind] = (
        ["internal", "public"] if ":" in text else ["public", "mail"] if "." in text else ["public"]
    )
    done = [store.channels.refuse_receiver(kind, text, by=owner) for kind in kinds]
    if not any(done):
        raise ConfigError(
            [
                Problem(
                    "remove", f"No receiver '{text[:80]}' is listed. `python -m engine notify hosts` shows which are."
                )
            ]
        )


def _address(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().strip()
    return str(click.prompt("Address of the webhook", hide_input=True, err=True)).strip()


def _order(order: Callable[[Store], object], channel_id: int, said: str, as_json: bool) -> None:
    with Store.open(Home.find()) as store:
        order(store)
    _say({"channel": channel_id, "now": said}, f"Channel {channel_id} {said}.", as_json)


def _say(value: object, sentence: str, as_json: bool) -> None:
    print_json(value) if as_json else click.echo(sentence)


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
