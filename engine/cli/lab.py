"""`users`: accounts and their roles."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from engine.access.rules import ROLE_WORDS, ROLES, Role
from engine.cli.answers import moment, print_json, say, table
from engine.cli.frame import json_option, owner_option
from engine.commands.accounts import Slip, disable, from_list
from engine.commands.accounts import sheet as slips_page
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.notices.public_url import public_url
from engine.store import Person, Reader, Store

_role = click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="; ".join(f"{name}: {words}" for name, words in ROLE_WORDS.items()) + ".",
)


@click.group("users")
def users_command() -> None:
    """Manage the accounts of this lab and their roles.

    The first account must be an admin's; from then on the console requires sign-in, and roles apply to pages, API and
    command line. All these commands accept --json.
    """


@users_command.command("add", short_help="Create an account.")
@click.argument("name")
@_role
@click.option(
    "--email", default="", help="Address for notifications; also identifies the person at a sign-in provider."
)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of prompting.")
@click.option("--no-password", is_flag=True, help="For a person who signs in at the lab's OpenID provider.")
@owner_option
@json_option
def add_command(
    name: str, role: Role, email: str, password_stdin: bool, no_password: bool, owner: str, as_json: bool
) -> None:
    """Create an account with a password, stored as an argon2 hash."""
    if no_password and not email:
        raise ConfigError(
            [
                Problem(
                    "email",
                    (
                        "An account without a password needs --email: the provider identifies the person "
                        "by that address."
                    ),
                )
            ]
        )
    password = None if no_password else _password(password_stdin)
    with Store.open(Home.find()) as store:
        kept = store.people.add(name, role, by=owner, password=password, email=email)
    say({"done": kept}, f"Created account {kept} with role {role}.", as_json)


@users_command.command("add-list", short_help="Create an account for each name of a list.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@_role
@click.option(
    "--sheet",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the passwords to this new HTML file, to print: a slip per person. Default: print them here.",
)
@click.option("--address", default="", help="Address of the console, for the slips. Default: PARALLAB_PUBLIC_URL.")
@owner_option
@json_option
def add_list_command(file: str, role: Role, sheet: Path | None, address: str, owner: str, as_json: bool) -> None:
    """Create an account with a generated password for each line of FILE ('-' for standard input): a name, or a name, a
    comma and an e-mail address. All accounts are created, or none. The passwords are shown only once.
    """
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read()
    except UnicodeDecodeError:
        raise ConfigError([Problem("file", f"{file} must be text in UTF-8. Save the list as UTF-8.")]) from None
    people, slips = from_list(text)
    with Store.open(Home.find()) as store, store.db.change():
        names = store.people.add_all(people, role, by=owner)
        slips = [Slip(name, slip.password) for name, slip in zip(names, slips, strict=True)]
        if sheet:  # before the commit: without its passwords no account remains
            _write_new(sheet, slips_page(slips, address or public_url()))
    if as_json:
        print_json([vars(slip) for slip in slips if not sheet] or {"done": names})
        return
    done = f"Created {len(names)} {'account' if len(names) == 1 else 'accounts'} with role {role}"
    click.echo(f"{done}. Print {sheet}, then delete it." if sheet else f"{done}. The passwords are shown only once:\n")
    if not sheet:
        click.echo(table(("NAME", "PASSWORD"), [(slip.name, slip.password) for slip in slips]))


def _write_new(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; raises ConfigError if there is one, or it can't be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            path.chmod(0o600)
            file.write(text)
    except OSError as error:
        why = "it exists already" if isinstance(error, FileExistsError) else error.strerror
        sentence = f"{path} can't be written: {why}. Name a new file; no account was created."
        raise ConfigError([Problem("sheet", sentence)]) from None


@users_command.command("list", short_help="List the accounts.")
@json_option
def list_command(as_json: bool) -> None:
    """List the accounts with their roles."""
    with Reader.open(Home.find()) as reader:
        reader.access.require_accounts()
        people = reader.people.everyone()
    if as_json:
        print_json([vars(person) for person in people])
    elif not people:
        click.echo(
            "No accounts: everyone who reaches the console (on loopback only) may do everything. Create the "
            "first account with: users add NAME --role admin"
        )
    else:
        click.echo(table(("NAME", "ROLE", "SIGNS IN", "E-MAIL", "SINCE"), [_cells(person) for person in people]))


@users_command.command("role", short_help="Change a person's role.")
@click.argument("name")
@_role
@owner_option
@json_option
def role_command(name: str, role: Role, owner: str, as_json: bool) -> None:
    """Change a person's role; it applies at once, also to open sessions."""
    _change(lambda store: store.people.set_role(name, role, by=owner), f"now has role {role}", as_json)


@users_command.command("password", short_help="Set a person's password.")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of prompting.")
@owner_option
@json_option
def password_command(name: str, password_stdin: bool, owner: str, as_json: bool) -> None:
    """Set a person's password and sign them out everywhere."""
    password = _password(password_stdin)
    _change(
        lambda store: store.people.set_password(name, password, by=owner),
        "has a new password and is signed out everywhere",
        as_json,
    )


@users_command.command("shut-out", short_help="Disable an account.")
@click.argument("name")
@click.option("--cancel-runs", is_flag=True, help="Also cancel the person's queued and running runs.")
@owner_option
@json_option
def shut_out_command(name: str, cancel_runs: bool, owner: str, as_json: bool) -> None:
    """Disable an account at once; its runs and name are kept, its tokens are revoked."""
    with Store.open(Home.find()) as store:
        person, cancelled = disable(store, name, by=owner, cancel_runs=cancel_runs)
    runs = f"; {cancelled} {'run' if cancelled == 1 else 'runs'} cancelled" if cancel_runs else ""
    say({"done": person.name}, f"{person.name} is disabled{runs}.", as_json)


@users_command.command("let-in", short_help="Enable an account.")
@click.argument("name")
@owner_option
@json_option
def let_in_command(name: str, owner: str, as_json: bool) -> None:
    """Enable an account that was disabled."""
    _change(lambda store: store.people.let_in(name, by=owner), "is enabled", as_json)


@users_command.command("unlink", short_help="Unlink an account from its OpenID identity.")
@click.argument("name")
@owner_option
@json_option
def unlink_command(name: str, owner: str, as_json: bool) -> None:
    """Unlink an account from its OpenID identity; the next sign-in with its verified address links it again."""
    _change(
        lambda store: store.oidc.unlink(name, by=owner),
        "is unlinked from its provider and signed out everywhere",
        as_json,
    )


@users_command.command("sign-out", short_help="Sign a person out of all browsers.")
@click.argument("name")
@owner_option
@json_option
def sign_out_command(name: str, owner: str, as_json: bool) -> None:
    """Sign a person out of all browsers."""
    with Store.open(Home.find()) as store:
        ended = store.people.end_sign_ins(name, by=owner)
    say({"done": name}, f"{name} is signed out of {ended} browser{'' if ended == 1 else 's'}.", as_json)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _change(order: Callable[[Store], Person], said: str, as_json: bool) -> None:
    with Store.open(Home.find()) as store:
        person = order(store)
    say({"done": person.name}, f"{person.name} {said}.", as_json)


def _cells(person: Person) -> tuple[object, ...]:
    ways = [*(["password"] if person.has_password else []), *([person.issuer] if person.issuer else [])]
    return (
        person.name,
        person.role if person.active else f"disabled ({person.role})",
        ", ".join(ways) or "none yet",
        person.email,
        moment(person.created_at),
    )
