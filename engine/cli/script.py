"""`fields`: the form of a command of one's own script."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from engine.cli.answers import answer, table
from engine.cli.frame import argument, command, option


@command("fields", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def fields_command(
    words: Sequence[str] = argument("-- COMMAND...", type=click.UNPROCESSED),
    folder: Path | None = option("Folder that the command runs in; default: the current one."),
    python: str | None = option("Interpreter for the script; default: the command's own.", metavar="PATH"),
    probe: bool = option(
        "Run the script until it parses its command line, for at most 20 s, where its source does not show the options."
    ),
) -> None:
    """Print the settings that a command gives, with the script's types, defaults, help and choices.

    Nothing is executed without --probe. With --json: an object with level (command, source, configuration, probe or
    help), why_not, and fields, a list of objects with name, type, default, help, choices and more.
    """
    from engine.script.command import LEVELS, read_command
    from engine.script.enrich import enriched
    from engine.script.probe import probed

    read = read_command(list(words), str((folder or Path()).absolute()), python or "")
    found = probed(read) if probe else enriched(read)
    listed: list[dict[str, Any]] = [
        {
            "name": each.name,
            "type": each.type,
            "default": each.default,
            "help": each.help,
            "choices": list(each.choices),
            "group": each.group,
            "pasted": each.pasted,
            "required": each.required,
        }
        for each in found.fields
    ]
    plain = {
        "level": found.level,
        "why_not": found.why_not,
        "launcher": found.launcher,
        "script": found.script,
        "seed_field": found.seed_field,
        "processes_field": found.processes_field,
        "command": list(found.argv),
        "fields": listed,
    }

    def text() -> str:
        rows = [(each["name"], each["type"], _shown(each["default"]), each["help"]) for each in listed]
        head = f"Read from {LEVELS[found.level]}. {found.why_not}".strip()
        return f"{head}\n\n{table(('FIELD', 'TYPE', 'DEFAULT', 'HELP'), rows, 'The command has no fields.')}"

    answer(plain, text)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
