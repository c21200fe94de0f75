"""`tokens`: API tokens for scripts."""

import click

from engine.cli.answers import moment, print_json, say, table
from engine.cli.frame import json_option, owner_option
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import Scope


@click.group("tokens")
def tokens_command() -> None:
    """Create and revoke API tokens, which scripts use instead of a password. All these commands accept --json."""


@tokens_command.command("make", short_help="Create a token.")
@click.argument("name")
@click.option("--person", help="Owner of the token; default: yourself.")
@click.option(
    "--scope",
    type=click.Choice(("read", "launch")),
    default="read",
    show_default=True,
    help="Permission: read only, or also launch runs.",
)
@click.option("--days", type=int, default=90, show_default=True, help="Days until it expires.")
@owner_option
@json_option
def make_command(name: str, person: str | None, scope: Scope, days: int, owner: str, as_json: bool) -> None:
    """Create a token; NAME describes its purpose. It is shown only once: the store keeps only its SHA-256."""
    with Store.open(Home.find()) as store:
        token = store.tokens.make(person or owner, name, scope, by=owner, days=days)
    print_json({"token": token}) if as_json else click.echo(token)


@tokens_command.command("list", short_help="List a person's tokens.")
@click.option("--person", help="Owner of the tokens; default: yourself.")
@owner_option
@json_option
def tokens_list_command(person: str | None, owner: str, as_json: bool) -> None:
    """List a person's tokens, without their secrets."""
    with Reader.open(Home.find()) as reader:
        found = reader.tokens.of(reader.people.one(person or owner).name)
    if as_json:
        print_json([vars(token) for token in found])
        return
    rows = [
        (
            each.id,
            each.name,
            each.scope,
            moment(each.expires_at),
            moment(each.used_at),
            "revoked" if each.revoked_at else "",
        )
        for each in found
    ]
    click.echo(table(("ID", "NAME", "SCOPE", "UNTIL", "USED", ""), rows) if rows else "No tokens.")


@tokens_command.command("revoke", short_help="Revoke a token.")
@click.argument("token_id", metavar="ID", type=int)
@owner_option
@json_option
def revoke_command(token_id: int, owner: str, as_json: bool) -> None:
    """Revoke a token."""
    with Store.open(Home.find()) as store:
        done = store.tokens.revoke(token_id, by=owner)
    say(
        {"done": token_id},
        f"Token {token_id} revoked." if done else f"Token {token_id} doesn't exist or is already revoked.",
        as_json,
    )
