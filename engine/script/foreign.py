"""A command that a file of another store brings: nothing of it is trusted. Torch-free and pure."""

from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from engine.errors import ConfigError
from engine.script.command import MOST_WORDS, Command, read_command
from engine.script.settings import definition_of

MOST_FIELDS = 5_000
MOST_CHARACTERS = 1_000_000
_COMMAND = TypeAdapter(Command)


def foreign_command(text: str) -> Command:
    """Return a command of another store; raises ConfigError for an invalid one.

    Who starts the script, and which word names it, is read again from its words; so only these and its fields remain of
    what the file says. The interpreter is that of the command: another store's may be any program here.
    """
    if len(text) > MOST_CHARACTERS:
        raise _invalid(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        told = _COMMAND.validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_input=False)[0]["loc"])) or "its beginning"
        raise _invalid(f"{where} has a wrong value") from None
    words = [*(f"{name}={value}" for name, value in told.environment.items()), *told.argv]
    own = read_command(words, told.folder)
    names = [each.name for each in told.fields]
    if len(names) > MOST_FIELDS or len(set(names)) < len(names):
        raise _invalid("it has too many fields, or two of one name")
    spans = [span for each in told.fields for span in each.spans]
    if any(not own.options_at <= first < end <= len(own.argv) for first, end in spans):
        raise _invalid("a field stands outside of its words")
    if any(not -1 <= each.at <= MOST_WORDS or (0 <= each.at < own.options_at) for each in told.fields):
        raise _invalid("a field would be written before its script")
    if not all(_is_plain(each.default) and all(map(_is_one, each.choices)) for each in told.fields):
        raise _invalid("a value is neither text nor a number")
    chosen = {"fields": told.fields, "level": told.level, "why_not": told.why_not}
    fields = {name: getattr(told, name) for name in ("seed_field", "processes_field") if getattr(told, name) in names}
    ranked = {"result": told.result, "better": told.better}
    found: Command = replace(own, **chosen, **{"seed_field": "", "processes_field": ""} | fields, **ranked)  # type: ignore[arg-type]
    definition_of(found).config.check({})
    return found


def _is_one(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_plain(value: object) -> bool:
    return all(map(_is_one, value)) if isinstance(value, list) else _is_one(value)


def _invalid(why: str) -> ConfigError:
    return ConfigError.of("command", f"The command is damaged or was edited: {why}.")
