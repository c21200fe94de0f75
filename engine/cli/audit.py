"""`audit`: the log of commands."""

import click

from engine.cli.answers import moment, print_json, table
from engine.cli.frame import json_option
from engine.home import Home
from engine.store import Reader


@click.command("audit")
@click.option("--who", help="Only entries of this person.")
@click.option("--command", "command", help="Only this command, such as cancel or 'sign in'.")
@click.option("--refused", is_flag=True, help="Only refused commands.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Number of entries to show."
)
@json_option
def audit_command(who: str | None, command: str | None, refused: bool, limit: int, as_json: bool) -> None:
    """Show the audit log, newest first: every command, done or refused."""
    with Reader.open(Home.find()) as reader:
        found = reader.audit.entries(who=who, command=command, refused=refused, limit=limit)
    if as_json:
        print_json([vars(entry) for entry in found])
    elif not found:
        click.echo("No matching entries.")
    else:
        rows = [
            (
                moment(each.at),
                each.who,
                each.role,
                each.command,
                f"{each.kind} {', '.join(map(str, each.targets))}".strip(),
                each.refused or each.detail,
            )
            for each in found
        ]
        click.echo(table(("TIME", "PERSON", "ROLE", "COMMAND", "TARGET", "DETAILS"), rows))
