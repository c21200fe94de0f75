"""`users`, `tokens` and `audit`: who has an account, what they may do, what their scripts show, and what was done by
whom.
"""

import sys
from collections.abc import Callable

import click

from engine.access.rules import ROLE_WORDS, ROLES, Role
from engine.cli.answers import moment, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Person, Reader, Store
from engine.store.access.sign_ins import Scope

_role = click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="; ".join(f"{name}: {words}" for name, words in ROLE_WORDS.items()) + ".",
)


@click.group("users", short_help="Manage who has an account, and with which role.")
def users_command() -> None:
    """Manage who has an account in this lab, and with which role.

    The first account has to be an admin's; from then on the console asks for a sign-in, and roles hold for pages, API
    and this command line. Each of these commands answers in JSON with --json.
    """


@users_command.command("add", short_help="Give somebody an account.")
@click.argument("name")
@_role
@click.option(
    "--email", default="", help="Where notifications go; who signs in with this address at a provider is this person."
)
@click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input instead of asking for it twice."
)
@click.option("--no-password", is_flag=True, help="For somebody who signs in at the lab's OpenID provider.")
@owner_option
@json_option
def add_command(
    name: str, role: Role, email: str, password_stdin: bool, no_password: bool, owner: str, as_json: bool
) -> None:
    """Give somebody an account with a password; an argon2 hash of it is kept."""
    if no_password and not email:
        raise ConfigError(
            [
                Problem(
                    "email",
                    (
                        "Somebody without a password is known by the address that the provider vouches for: give "
                        "it as --email."
                    ),
                )
            ]
        )
    password = None if no_password else _password(password_stdin)
    with Store.open(Home.find()) as store:
        kept = store.people.add(name, role, by=owner, password=password, email=email)
    _say(kept, f"{kept} has an account as {role}.", as_json)


@users_command.command("list", short_help="List who has an account.")
@json_option
def list_command(as_json: bool) -> None:
    """List who has an account, with roles."""
    with Reader.open(Home.find()) as reader:
        reader.access.require_accounts()
        people = reader.people.everyone()
    if as_json:
        print_json([vars(person) for person in people])
    elif not people:
        click.echo(
            "Nobody has an account: whoever reaches the console, on loopback alone, may do everything. The "
            "first account: users add NAME --role admin"
        )
    else:
        click.echo(table(("NAME", "ROLE", "SIGNS IN", "E-MAIL", "SINCE"), [_cells(person) for person in people]))


@users_command.command("role", short_help="Give somebody another role.")
@click.argument("name")
@_role
@owner_option
@json_option
def role_command(name: str, role: Role, owner: str, as_json: bool) -> None:
    """Give somebody another role; it holds at once, wherever they are signed in."""
    _change(lambda store: store.people.set_role(name, role, by=owner), f"is {role} now", as_json)


@users_command.command("password", short_help="Give somebody another password.")
@click.argument("name")
@click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input instead of asking for it twice."
)
@owner_option
@json_option
def password_command(name: str, password_stdin: bool, owner: str, as_json: bool) -> None:
    """Give somebody another password; they are signed out everywhere."""
    password = _password(password_stdin)
    _change(
        lambda store: store.people.set_password(name, password, by=owner),
        "has a new password and is signed out everywhere",
        as_json,
    )


@users_command.command("shut-out", short_help="Let somebody in no more.")
@click.argument("name")
@owner_option
@json_option
def shut_out_command(name: str, owner: str, as_json: bool) -> None:
    """Let somebody in no more, at once; their runs and their name stay, their tokens are taken back."""
    _change(lambda store: store.people.shut_out(name, by=owner), "is shut out", as_json)


@users_command.command("let-in", short_help="Let somebody in again.")
@click.argument("name")
@owner_option
@json_option
def let_in_command(name: str, owner: str, as_json: bool) -> None:
    """Let somebody in again who was shut out."""
    _change(lambda store: store.people.let_in(name, by=owner), "may sign in again", as_json)


@users_command.command("unlink", short_help="Let an OpenID identity be nobody's.")
@click.argument("name")
@owner_option
@json_option
def unlink_command(name: str, owner: str, as_json: bool) -> None:
    """Let the identity that somebody signs in with at a provider be theirs no more; who next signs in with their
    verified address is linked again.
    """
    _change(
        lambda store: store.oidc.unlink(name, by=owner),
        "is linked to no provider now and signed out everywhere",
        as_json,
    )


@users_command.command("sign-out", short_help="Sign somebody out of every browser.")
@click.argument("name")
@owner_option
@json_option
def sign_out_command(name: str, owner: str, as_json: bool) -> None:
    """Sign somebody out of every browser."""
    with Store.open(Home.find()) as store:
        ended = store.people.end_sign_ins(name, by=owner)
    _say(name, f"{name} is signed out of {ended} browser{'' if ended == 1 else 's'}.", as_json)


@click.group("tokens", short_help="Make and revoke what scripts show instead of a password.")
def tokens_command() -> None:
    """Make and revoke tokens, which scripts show to the API instead of a password. Each of these commands answers in
    JSON with --json.
    """


@tokens_command.command("make", short_help="Make a token.")
@click.argument("name")
@click.option("--person", help="Whom it stands for; default: who does this.")
@click.option(
    "--scope",
    type=click.Choice(("read", "launch")),
    default="read",
    show_default=True,
    help="Whether it may launch runs too.",
)
@click.option("--days", type=int, default=90, show_default=True, help="How long it lasts.")
@owner_option
@json_option
def make_command(name: str, person: str | None, scope: Scope, days: int, owner: str, as_json: bool) -> None:
    """Make a token; NAME says what it is for. It is shown this once: the store keeps only its SHA-256."""
    with Store.open(Home.find()) as store:
        token = store.tokens.make(person or owner, name, scope, by=owner, days=days)
    print_json({"token": token}) if as_json else click.echo(token)


@tokens_command.command("list", short_help="List somebody's tokens.")
@click.option("--person", help="Whose; default: who does this.")
@owner_option
@json_option
def tokens_list_command(person: str | None, owner: str, as_json: bool) -> None:
    """List somebody's tokens; what they are made of is nowhere kept."""
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


@tokens_command.command("revoke", short_help="Take a token back for good.")
@click.argument("token_id", metavar="ID", type=int)
@owner_option
@json_option
def revoke_command(token_id: int, owner: str, as_json: bool) -> None:
    """Take a token back for good."""
    with Store.open(Home.find()) as store:
        done = store.tokens.revoke(token_id, by=owner)
    _say(
        token_id,
        f"Token {token_id} is taken back." if done else f"There is no token {token_id} that could be taken back.",
        as_json,
    )


@click.command("audit", short_help="Show who did what, and when.")
@click.option("--who", help="What one person did.")
@click.option("--command", "command", help="What was done by one command, such as cancel or 'sign in'.")
@click.option("--refused", is_flag=True, help="Only what was refused.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="So many of the newest.")
@json_option
def audit_command(who: str | None, command: str | None, refused: bool, limit: int, as_json: bool) -> None:
    """Show who did what and when, the newest first: every command, done or refused."""
    with Reader.open(Home.find()) as reader:
        found = reader.audit.entries(who=who, command=command, refused=refused, limit=limit)
    if as_json:
        print_json([vars(entry) for entry in found])
    elif not found:
        click.echo("Nothing of that kind was done.")
    else:
        rows = [
            (
                moment(each.at),
                each.who,
                each.role,
                each.command,
                f"{each.kind} {' '.join(map(str, each.targets))}".strip(),
                each.refused or each.detail,
            )
            for each in found
        ]
        click.echo(table(("WHEN", "WHO", "AS", "COMMAND", "TO", "WHAT"), rows))


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _change(order: Callable[[Store], Person], said: str, as_json: bool) -> None:
    with Store.open(Home.find()) as store:
        person = order(store)
    _say(person.name, f"{person.name} {said}.", as_json)


def _say(what: object, sentence: str, as_json: bool) -> None:
    print_json({"done": what}) if as_json else click.echo(sentence)


def _cells(person: Person) -> tuple[object, ...]:
    ways = [*(["password"] if person.has_password else []), *([person.issuer] if person.issuer else [])]
    return (
        person.name,
        person.role if person.active else f"shut out ({person.role})",
        ", ".join(ways) or "not yet",
        person.email,
        moment(person.created_at),
    )
