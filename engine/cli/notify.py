"""`notify`: the lab's channels for notifications, and subscriptions to them."""

from collections.abc import Callable

import click

from engine.access.channels import ADDRESS, lab_channels
from engine.cli.answers import answer, moment, picked, print_json, table, wants_json
from engine.cli.frame import OWNER, argument, command, explained, option
from engine.home import Home
from engine.store import Reader, Store
from engine.store.notices.outbox import Message
from engine.store.notices.subscriptions import END_WORDS, REACH_WORDS, Ends, Reach, Subscription

ENDS = option(explained(END_WORDS), default="all")
REACH = option(explained(REACH_WORDS), "--of", default="runs")
NUMBER = argument("NUMBER")


@click.group("notify")
def notify_command() -> None:
    """Get notified by Slack, Discord, e-mail or another channel of the lab when your runs, sweeps and duels end or
    fail. The runner sends the messages.

    All these commands accept --json.
    """


@command("channels", within=notify_command, short_help="List the lab's channels.")
def channels_command() -> None:
    """List the channels that an admin has defined in notices.toml in the home, and the subscriptions of an earlier
    version that have none of them yet. URLs are secrets and shown shortened.
    """
    home = Home.find()
    channels = list(lab_channels(home).values())
    with Reader.open(home) as reader:
        left = [each for each in reader.subscriptions.of() if not each.channel]
    if wants_json():
        names = ("name", "shown", "takes", "asks", "about", "domains")
        print_json({"channels": [picked(each, *names) for each in channels], "without_channel": left})
        return
    takes = {"nothing": "", "email": "e-mail address"}
    rows = [(each.name, each.shown, takes.get(each.takes, each.asks), each.about) for each in channels]
    none = f"No channels. Define them in {home.notices} (docs/notifications.md)."
    click.echo(table(("NAME", "URL", "ASKS FOR", "ABOUT"), rows, none))
    if left:
        click.echo(
            "\nSubscriptions of an earlier version, to webhooks that no channel has replaced yet. Ask the owner for\n"
            "the webhook's URL, define it as a channel in notices.toml, then: python -m engine notify set NUMBER\n"
            "--channel NAME, and python -m engine notify resume NUMBER\n"
        )
        click.echo(table(("NUMBER", "OWNER", "HOST"), [(each.id, each.owner, each.host) for each in left]))
    if (home.path / "mail.toml").exists():
        click.echo(
            f"\n{home.path}/mail.toml is no longer read: define the channel email in notices.toml, such as url = "
            f'"mailtos://USER:PASSWORD@HOST?from=SENDER&to={ADDRESS}", then delete mail.toml.'
        )


@command("add", within=notify_command, short_help="Subscribe to a channel.")
def add_command(
    channel: str = argument(),
    address: str = option(
        "Your address on the channel, if it takes one. For e-mail with accounts, your account's is used.",
        "--to",
        default="",
    ),
    ends: Ends = ENDS,
    reach: Reach = REACH,
    owner: str = OWNER,
) -> None:
    """Subscribe to a channel of the lab; `notify channels` lists them."""
    with Store.open(Home.find()) as store:
        made = store.subscriptions.add(channel, address, owner=owner, ends=ends, reach=reach)
    said = f"Subscription {made} to {channel} added for {owner}. Test it: python -m engine notify test {made}"
    answer({"subscription": made}, said)


@command("list", within=notify_command, short_help="List subscriptions and the last messages.")
def list_command(
    everybody: bool = option("Include the subscriptions of other people.", "--all"),
    limit: int = option("Number of messages to show.", type=click.IntRange(0, 1_000), default=10),
    owner: str = OWNER,
) -> None:
    """List subscriptions and the last messages, with delivery errors."""
    whose = None if everybody else owner
    with Reader.open(Home.find()) as reader:
        subscriptions, messages = reader.subscriptions.of(whose), reader.outbox.sent(whose, limit=limit)
    if wants_json():
        print_json({"subscriptions": subscriptions, "messages": messages})
        return
    headings = ("NUMBER", "OWNER", "CHANNEL", "ENDS", "OF", "")
    none = "No subscriptions. Add one: python -m engine notify add CHANNEL (notify channels lists the channels)"
    click.echo(table(headings, map(_cells, subscriptions), none))
    if subscriptions and messages:
        click.echo("\n" + table(("WHEN", "CHANNEL", "OF", "STATE", "WHY"), map(_message, messages)))


def _cells(one: Subscription) -> tuple[object, ...]:
    said = f"paused: {one.paused_because}" if one.paused_at else ""
    return (one.id, one.owner, one.title, one.ends, one.reach, said)


def _message(message: Message) -> tuple[object, ...]:
    of = next((f"{kind} {number}" for kind, number in message.ids.items()), message.kind)
    return (moment(message.made_at), message.channel, of, message.state, message.last_error)


@command("set", within=notify_command, short_help="Change the events or the channel of a subscription.")
def set_command(
    number: int = NUMBER,
    ends: Ends = ENDS,
    reach: Reach = REACH,
    channel: str = option("Another channel; messages that are queued go there too.", default=""),
    owner: str = OWNER,
) -> None:
    """Change which events a subscription reports, and where."""

    def change(store: Store) -> None:
        store.subscriptions.change(number, ends=ends, reach=reach, channel=channel, by=owner)

    _change(number, change, "is changed")


@command("test", within=notify_command, short_help="Send a test message.")
def send_test_command(number: int = NUMBER, owner: str = OWNER) -> None:
    """Have the runner send a test message; `notify list` shows its delivery."""
    said = "will get a test message from the runner"
    _change(number, lambda store: store.subscriptions.test(number, by=owner), said)


@command("pause", within=notify_command, short_help="Pause a subscription.")
def pause_command(number: int = NUMBER, owner: str = OWNER) -> None:
    """Pause a subscription until it is resumed; events in between are not sent later."""
    _change(number, lambda store: store.subscriptions.pause(number, by=owner), "is paused")


@command("resume", within=notify_command, short_help="Resume a paused subscription.")
def resume_command(number: int = NUMBER, owner: str = OWNER) -> None:
    """Resume a paused subscription, starting with messages that were not delivered yet."""
    _change(number, lambda store: store.subscriptions.resume(number, by=owner), "is resumed")


@command("remove", within=notify_command, short_help="Delete a subscription and its address.")
def remove_command(number: int = NUMBER, owner: str = OWNER) -> None:
    """Delete a subscription, its address and its undelivered messages."""
    _change(number, lambda store: store.subscriptions.delete(number, by=owner), "is deleted")


def _change(number: int, change: Callable[[Store], object], said: str) -> None:
    with Store.open(Home.find()) as store:
        change(store)
    answer({"subscription": number, "now": said}, f"Subscription {number} {said}.")
