"""`users`, `tokens`, `audit` and `limits`: accounts and their roles, API tokens, the log of commands, quotas."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from engine.access.agents import AGENT_RUNS
from engine.access.confusables import sort_key
from engine.access.providers import is_of_this_machine
from engine.access.quotas import BOUNDS, GB, Limits, limits, read_value, size
from engine.access.rules import PERMISSIONS, ROLE_WORDS, Permission, Role
from engine.cli.answers import answer, duration, moment, picked, print_json, table, wants_json
from engine.cli.frame import OUTPUT_FILE, OWNER, argument, command, explained, option, together
from engine.commands.accounts import Slip, disable_account, from_list
from engine.commands.accounts import sheet as slips_page
from engine.commands.lab_settings import change_limits
from engine.errors import ConfigError, counted
from engine.home import Home
from engine.notices.public_url import console_url, public_url
from engine.store import Held, Person, Reader, Store
from engine.store.access.sign_ins import Scope

ROLE = option(explained(ROLE_WORDS), "--role")
PERMISSION = argument("PERMISSION", type=click.Choice(PERMISSIONS))
PASSWORD_STDIN = option("Read the password from standard input instead of prompting.")


@click.group("users")
def users_command() -> None:
    """Manage the accounts of this lab and their roles.

    The first account must be an admin's; from then on the console requires sign-in, and roles apply to pages, API and
    command line. All these commands accept --json.
    """


@command("add", within=users_command, short_help="Create an account.")
def add_command(
    name: str = argument(),
    role: Role = ROLE,
    email: str = option("Address for notifications; also identifies the person at a sign-in provider.", default=""),
    password_stdin: bool = PASSWORD_STDIN,
    no_password: bool = option("For a person who signs in at the lab's OpenID provider."),
    owner: str = OWNER,
) -> None:
    """Create an account with a password, stored as an argon2 hash."""
    if no_password and not email:
        needs = "An account without a password needs --email: the provider identifies the person by that address."
        raise ConfigError.of("email", needs)
    with Store.open(Home.find()) as store:
        if not no_password:
            store.people.check_new(name, role)  # before anyone types a password
        password = None if no_password else _password(password_stdin)
        is_first = not store.read.people.everyone()
        kept = store.people.add(name, role, by=owner, password=password, email=email)
        alike = [each for each in store.read.runs.owners() if each != kept and each.casefold() == kept.casefold()]
    for other in alike:
        click.echo(f"Caution: the runs of '{other}' stay under that spelling, and belong to no account.", err=True)
    answer({"done": kept}, f"Created account {kept} with role {role}.{_next_steps(kept) if is_first else ''}")


def _next_steps(admin: str) -> str:
    """Return what follows the first account, as further lines."""
    url = console_url(Home.find()) or public_url()
    where = f"at {url}" if url else "at the address that `make run` prints (by default port 8501)"
    return "\n".join(
        [
            "",
            f"Sign-in is on now: open the console {where} and sign in as {admin}; open pages ask for it too.",
            "Commands of this shell as this account:",
            f"    export PARALLAB_OWNER={shlex.quote(admin)}",
            "Further accounts, on the page People or by:",
            "    python -m engine users add NAME --role member",
            "    python -m engine users add-list names.txt --role member --sheet slips.html --address URL",
        ]
    )


@command("add-list", within=users_command, short_help="Create an account for each name of a list.")
def add_list_command(
    file: str = argument(type=click.Path(exists=True, dir_okay=False, allow_dash=True)),
    role: Role = ROLE,
    sheet: Path | None = option(
        "Write the passwords to this new HTML file, to print: a slip per person. Default: print them here.",
        type=OUTPUT_FILE,
    ),
    address: str = option("Address of the console, for the slips. Default: PARALLAB_PUBLIC_URL.", default=""),
    owner: str = OWNER,
) -> None:
    """Create an account with a generated password for each line of FILE ('-' for standard input): a name, or a name, a
    comma and an e-mail address. All accounts are created, or none. The passwords are shown only once.
    """
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read()
    except UnicodeDecodeError:
        raise ConfigError.of("file", f"{file} must be text in UTF-8. Save the list as UTF-8.") from None
    if sheet and not (address := address or public_url()):
        needs = "The slips need the console's address: add --address URL, or set PARALLAB_PUBLIC_URL."
        raise ConfigError.of("address", f"{needs} No account was created.")
    people, slips = from_list(text)
    with Store.open(Home.find()) as store, store.db.change():
        names = store.people.add_all(people, role, by=owner)
        slips = [Slip(name, slip.password) for name, slip in zip(names, slips, strict=True)]
        if sheet:  # before the commit: without its passwords no account remains
            _write_new(sheet, slips_page(slips, address))
    done = f"Created {counted(len(names), 'account')} with role {role}."
    if sheet:
        own = " Its address opens the console on this machine only." if is_of_this_machine(address) else ""
        answer({"done": names}, f"{done} Print {sheet}, then delete it.{own}")
        return
    passwords = table(("NAME", "PASSWORD"), [(slip.name, slip.password) for slip in slips])
    answer([vars(slip) for slip in slips], f"{done} The passwords are shown only once:\n\n{passwords}")


def _write_new(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; raises ConfigError if there is one, or it can't be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            path.chmod(0o600)
            file.write(text)
    except OSError as error:
        why = "it exists already" if isinstance(error, FileExistsError) else error.strerror
        sentence = f"{path} can't be written: {why}. Name a new file; no account was created."
        raise ConfigError.of("sheet", sentence) from None


@command("list", within=users_command, short_help="List the accounts.")
def list_command() -> None:
    """List the accounts with their roles."""
    with Reader.open(Home.find()) as reader:
        reader.access.require_accounts()
        people, seen = reader.people.everyone(), reader.quotas.last_seen()
    none = (
        "No accounts: everyone who reaches the console (on loopback only) may do everything. Create the first account "
        "with: users add NAME --role admin"
    )
    headings = ("NAME", "ROLE", "SIGNS IN", "E-MAIL", "SINCE", "LAST REQUEST")
    rows = [(*_account(person), moment(seen.get(person.name))) for person in people]
    answer([vars(person) | {"seen_at": seen.get(person.name)} for person in people], table(headings, rows, none))


def _account(person: Person) -> tuple[object, ...]:
    ways = [*(["password"] if person.has_password else []), *([person.issuer] if person.issuer else [])]
    role = person.role if person.active else f"disabled ({person.role})"
    role = ", ".join((role, *person.granted))
    return (person.name, role, ", ".join(ways) or "none yet", person.email, moment(person.created_at))


@command("role", within=users_command, short_help="Change a person's role.")
def role_command(name: str = argument(), role: Role = ROLE, owner: str = OWNER) -> None:
    """Change a person's role; it applies at once, also to open sessions."""
    _change(lambda store: store.people.set_role(name, role, by=owner), f"now has role {role}")


@command("allow", within=users_command, short_help="Grant a person a permission.")
def allow_command(name: str = argument(), permission: Permission = PERMISSION, owner: str = OWNER) -> None:
    """Grant a member the permission to run commands: any program, as the runner's Unix user. It applies at once."""
    _change(lambda store: store.people.allow(name, permission, by=owner), f"may {permission} now")


@command("forbid", within=users_command, short_help="Revoke a person's permission.")
def forbid_command(name: str = argument(), permission: Permission = PERMISSION, owner: str = OWNER) -> None:
    """Revoke a permission that was granted to a person; queued and running runs stay."""
    _change(lambda store: store.people.forbid(name, permission, by=owner), f"may not {permission} any more")


@command("email", within=users_command, short_help="Set or remove a person's e-mail address.")
def email_command(name: str = argument(), address: str = argument("ADDRESS"), owner: str = OWNER) -> None:
    """Set a person's e-mail address, for notifications and for a sign-in provider; an empty ADDRESS removes it."""
    said = f"now has the e-mail address {address.strip()}" if address.strip() else "now has no e-mail address"
    _change(lambda store: store.people.set_email(name, address, by=owner), said)


@command("password", within=users_command, short_help="Set a person's password.")
def password_command(name: str = argument(), password_stdin: bool = PASSWORD_STDIN, owner: str = OWNER) -> None:
    """Set a person's password and sign them out everywhere."""
    with Reader.open(Home.find()) as reader:
        reader.people.one(name)  # before anyone types a password
    password = _password(password_stdin)
    said = "has a new password and is signed out everywhere"
    _change(lambda store: store.people.set_password(name, password, by=owner), said)


@command("disable", within=users_command, short_help="Disable an account.")
def disable_command(
    name: str = argument(),
    cancel_runs: bool = option("Also cancel the person's queued and running runs."),
    owner: str = OWNER,
) -> None:
    """Disable an account at once; its runs and name are kept, its tokens are revoked."""
    with Store.open(Home.find()) as store:
        person, cancelled = disable_account(store, name, by=owner, cancel_runs=cancel_runs)
    runs = f"; {counted(cancelled, 'run')} being cancelled" if cancel_runs else ""
    answer({"done": person.name}, f"{person.name} is disabled{runs}.")


@command("enable", within=users_command, short_help="Enable an account.")
def enable_command(name: str = argument(), owner: str = OWNER) -> None:
    """Enable an account that was disabled."""
    _change(lambda store: store.people.enable(name, by=owner), "is enabled")


@command("unlink", within=users_command, short_help="Unlink an account from its OpenID identity.")
def unlink_command(name: str = argument(), owner: str = OWNER) -> None:
    """Unlink an account from its OpenID identity; the next sign-in with its verified address links it again."""
    said = "is unlinked from its provider and signed out everywhere"
    _change(lambda store: store.people.unlink(name, by=owner), said)


@command("sign-out", within=users_command, short_help="Sign a person out of all browsers.")
def sign_out_command(name: str = argument(), owner: str = OWNER) -> None:
    """Sign a person out of all browsers."""
    with Store.open(Home.find()) as store:
        ended = store.people.end_sign_ins(name, by=owner)
    answer({"done": name}, f"{name} is signed out of {counted(ended, 'browser')}.")


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _change(change: Callable[[Store], Person], said: str) -> None:
    with Store.open(Home.find()) as store:
        person = change(store)
    answer({"done": person.name}, f"{person.name} {said}.")


@click.group("tokens")
def tokens_command() -> None:
    """Create and revoke API tokens, which scripts use instead of a password. All these commands accept --json."""


@command("make", within=tokens_command, short_help="Create a token.")
def make_command(
    name: str = argument(),
    person: str | None = option("Owner of the token; default: yourself."),
    scope: Scope = option("Permission: read only, also launch runs, or launch them as an agent.", default="read"),
    days: int = option("Days until it expires.", default=90),
    agent_runs: int | None = option(
        f"Runs that an agent may have queued or running at once.  [default: {AGENT_RUNS}]", metavar="NUMBER"
    ),
    owner: str = OWNER,
) -> None:
    """Create a token; NAME describes its purpose. It is shown only once: the store keeps only its SHA-256."""
    with Store.open(Home.find()) as store:
        token = store.tokens.make(person or owner, name, scope, by=owner, days=days, agent_runs=agent_runs)
    answer({"token": token}, token)


@command("list", within=tokens_command, short_help="List a person's tokens.")
def tokens_list_command(
    person: str | None = option("Owner of the tokens; default: yourself."), owner: str = OWNER
) -> None:
    """List a person's tokens, without their secrets."""
    with Reader.open(Home.find()) as reader:
        found = reader.tokens.of(reader.people.one(person or owner).name)
    rows = [
        (
            *(each.id, each.name, each.scope, moment(each.expires_at), moment(each.used_at)),
            "revoked" if each.revoked_at else "",
        )
        for each in found
    ]
    headings = ("ID", "NAME", "SCOPE", "UNTIL", "USED", "")
    answer([vars(token) for token in found], table(headings, rows, "No tokens."))


@command("revoke", within=tokens_command, short_help="Revoke a token.")
def revoke_command(token_id: int = argument("ID"), owner: str = OWNER) -> None:
    """Revoke a token."""
    with Store.open(Home.find()) as store:
        done = store.tokens.revoke(token_id, by=owner)
    outcome = "revoked" if done else "doesn't exist or is already revoked"
    answer({"done": token_id}, f"Token {token_id} {outcome}.")


@command("audit")
def audit_command(
    who: str | None = option("Only entries of this person."),
    command: str | None = option("Only this command, such as cancel or 'sign in'."),
    refused: bool = option("Only refused commands."),
    since: str = option("Only entries since a time: '2h ago', yesterday, or '2026-11-01 14:30' (UTC).", default=""),
    limit: int = option("Number of entries to show.", type=click.IntRange(1, 10_000), default=50),
) -> None:
    """Show the audit log, newest first: every command, done or refused."""
    from engine.filter.tree import read_since

    start = read_since(since)
    with Reader.open(Home.find()) as reader:
        found = reader.audit.entries(who=who, command=command, since=start, refused=refused, limit=limit)
    rows = [
        (
            *(moment(each.at), each.who, each.role, each.command),
            f"{each.kind} {', '.join(map(str, each.targets))}".strip(),
            each.refused or each.detail,
        )
        for each in found
    ]
    headings = ("TIME", "PERSON", "ROLE", "COMMAND", "TARGET", "DETAILS")
    answer([vars(entry) for entry in found], table(headings, rows, "No matching entries."))


USUAL = "usual"


@command("limits", cls=click.Group, invoke_without_command=True)
def limits_command() -> None:
    """Show each person's quota and usage; `limits set` changes quotas."""
    if click.get_current_context().invoked_subcommand is None:
        _show(Home.find())


def _quota(limit: str, flag: str) -> Any:
    bounds = BOUNDS[limit]
    words = f"{bounds.words[:1].upper()}{bounds.words[1:]}{f' ({bounds.unit})' if bounds.unit else ''}."
    return option(words, flag, metavar="NUMBER")


@dataclass(frozen=True)
class QuotaTexts:
    """The quotas by the names of their limits, as they were written; None where one is not mentioned."""

    max_running_per_person: str | None = _quota("max_running_per_person", "--running")
    max_queued_per_person: str | None = _quota("max_queued_per_person", "--queued")
    max_cores_per_person: str | None = _quota("max_cores_per_person", "--cores")
    max_gpus_per_person: str | None = _quota("max_gpus_per_person", "--gpus")
    max_agent_runs_per_person: str | None = _quota("max_agent_runs_per_person", "--agent-runs")
    max_run_time_s: str | None = _quota("max_run_time_s", "--run-time")
    max_reported_per_person: str | None = _quota("max_reported_per_person", "--reported")
    max_disk_gb: str | None = _quota("max_disk_gb", "--disk")
    max_files_gb: str | None = _quota("max_files_gb", "--files")


@command("set", within=limits_command, short_help="Set quotas, for everyone or for one person.")
def set_command(
    person: str | None = option("Only for this person; default: for everyone."),
    host_network: Literal["yes", "no"] | None = option(
        "Whether ranks may listen on the machine's network where they can't have a network namespace. Other users "
        "of the machine could then act as the runner's user."
    ),
    disturbed_above: float | None = option(
        "Share of a run's CPU time that others may take before the run counts as disturbed; usual is 5.",
        metavar="PERCENT",
    ),
    quotas: QuotaTexts = together(QuotaTexts),
    owner: str = OWNER,
) -> None:
    """Set quotas for everyone, or with --person for one: 'none' for no limit, 'usual' to reset a person's limit to
    everyone's.

    Quotas also apply to admins, who can change their own with --person. A change doesn't end or refuse runs that are
    already queued or running; queued ones wait for a quota of running runs, cores or GPUs.
    """
    asked = {name: text.strip().lower() for name, text in vars(quotas).items() if text is not None}
    of_lab = {"host_network": host_network, "disturbed_above": disturbed_above}
    if not asked and all(value is None for value in of_lab.values()):
        own = (
            "--running, --queued, --cores, --gpus, --agent-runs, --run-time, --reported, --disk, --files, "
            "--host-network, --disturbed-above"
        )
        raise ConfigError.of("", f"limits set needs at least one of {own}.")
    for name, value in of_lab.items():
        if value is not None and person is not None:
            raise ConfigError.of(name, f"--{name.replace('_', '-')} applies to the whole lab. Omit --person.")
    usual = frozenset(name for name, text in asked.items() if text == USUAL)
    if usual and person is None:
        needs = "'usual' needs --person: it resets a person's limit to everyone's. Use 'none' to remove a limit."
        raise ConfigError.of("person", needs)
    changes = {name: read_value(name, text) for name, text in asked.items() if name not in usual}
    home = Home.find()
    change_limits(
        home,
        changes,
        by=owner,
        person=person,
        usual=usual,
        replace_unreadable=True,
        host_network=None if host_network is None else host_network == "yes",
        disturbed_above_percent=disturbed_above,
    )
    _show(home)


def _show(home: Home) -> None:
    found = limits(home)
    with Reader.open(home) as reader:
        held = reader.quotas.all_held()
        accounts = [each.name for each in reader.people.everyone() if not each.disabled_at]
    names = sorted({each.person for each in held} | set(found.people) | set(accounts), key=sort_key)
    by_name = {each.person: each for each in held}
    if wants_json():
        print_json(
            {
                "everyone": picked(found, *BOUNDS),
                **picked(found, "host_network", "disturbed_above_percent"),
                "people": dict(found.people),
                "held": held,
            }
        )
        return
    click.echo(_in_words(found))
    if found.host_network:
        click.echo("Ranks may listen on the machine's network where they can't have a network namespace.")
    click.echo(f"A run is disturbed if others took more than {found.disturbed_above_percent:g} % of its CPU time.")
    if names:
        headings = ("PERSON", "RUNNING", "QUEUED", "CORES", "GPUS", "RUN TIME", "REPORTED", "DISK", "FILES")
        click.echo(table(headings, [_usage(by_name.get(name, Held(name)), found.of(name)) for name in names]))


def _in_words(found: Limits) -> str:
    parts = [
        f"{bounds.words}: {limit:,.12g}{f' {bounds.unit}' if bounds.unit else ''}"
        for name, bounds in BOUNDS.items()
        if (limit := getattr(found, name)) is not None
    ]
    example = "limits set --running 4 --queued 50 --cores 8 --run-time 86400 --disk 20"
    return f"Limits per person: {'; '.join(parts)}." if parts else f"No limits for everyone. Set some with: {example}"


def _usage(held: Held, mine: Limits) -> tuple[object, ...]:
    return (
        held.person,
        _of(held.running, mine.max_running_per_person),
        _of(held.queued, mine.max_queued_per_person),
        _of(held.cores, mine.max_cores_per_person),
        _of(held.gpus, mine.max_gpus_per_person),
        "any" if mine.max_run_time_s is None else f"at most {duration(mine.max_run_time_s)}",
        _of(held.reported, mine.max_reported_per_person),
        _of_size(held.disk_bytes, mine.max_disk_gb),
        _of_size(held.file_bytes, mine.max_files_gb),
    )


def _of_size(held: int, most_gb: float | None) -> str:
    return size(held) if most_gb is None else f"{size(held)} of {size(most_gb * GB)}"


def _of(held: int, most: int | None) -> str:
    return f"{held:,}" if most is None else f"{held:,} of {most:,}"
