"""`notify hosts`: the allowed receivers of messages, for admins."""

import click

from engine.access.receivers import ReceiverKind
from engine.cli.answers import moment, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Store


@click.command("hosts", short_help="List, allow or remove receivers of messages.")
@click.option("--add", metavar="HOST", help="Allow webhooks to a public host, over https.")
@click.option(
    "--add-internal",
    metavar="HOST:PORT",
    help="Allow webhooks of kind json to this host and port inside the lab's network, also over http.",
)
@click.option(
    "--add-domain", metavar="DOMAIN", help="In a lab without accounts: allow e-mail to addresses of this domain."
)
@click.option("--remove", metavar="HOST", help="Remove a receiver, given as HOST, HOST:PORT or DOMAIN.")
@owner_option
@json_option
def hosts_command(
    add: str | None, add_internal: str | None, add_domain: str | None, remove: str | None, owner: str, as_json: bool
) -> None:
    """List the allowed receivers, after adding or removing one."""
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


def _remove(store: Store, text: str, owner: str) -> None:
    kinds: list[ReceiverKind] = (
        ["internal", "public"] if ":" in text else ["public", "mail"] if "." in text else ["public"]
    )
    done = [store.channels.refuse_receiver(kind, text, by=owner) for kind in kinds]
    if not any(done):
        raise ConfigError(
            [
                Problem(
                    "remove",
                    (f"Receiver '{text[:80]}' is not listed. `python -m engine notify hosts` shows the listed ones."),
                )
            ]
        )
