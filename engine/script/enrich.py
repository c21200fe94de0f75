"""The form that a script's source and configuration files give; nothing of the script is executed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from engine.script.annotations import class_options
from engine.script.command import Command, missing_file, with_options
from engine.script.configurations import HydraFiles, constant_options, yaml_options
from engine.script.parsers import ScriptParsers
from engine.script.values import Class
from engine.script.words import Option

_LIGHTNING = ("fit", "validate", "test", "predict")


@dataclass(frozen=True)
class SourceForm:
    """What a script's source says of its options."""

    options: list[Option] = field(default_factory=list)
    why: str = ""
    """Why it says no more, as a sentence."""
    kind: str = ""
    """What parses the command line: argparse, click, hydra, lightning, …; "" if that isn't known."""


def enriched(command: Command) -> Command:
    """Return the command with the form that the script's source gives, or with the reason why it gives none."""
    found = read_source(command)
    if not found.options:
        return replace(command, why_not=found.why)
    return with_options(command, found.options, "source", found.why)


def read_source(command: Command) -> SourceForm:
    """Return what the source of a command's script says; nothing is executed."""
    folder = Path(command.folder or ".").absolute()
    if missing := missing_file(command, folder):
        return SourceForm(why=missing)
    if command.script is None or not command.is_python:
        what = f"{command.name} isn't a script of Python" if command.script else "No script was recognised"
        return SourceForm(why=f"{what}, so that only the command itself was read.")
    path = folder / command.script
    try:
        path = path / "__main__.py" if path.is_dir() else path
        if not path.is_file():
            return SourceForm(why=f"{command.script} isn't a file in {folder}.")
        parsers = ScriptParsers(path, folder, command.environment)
        parsers.finish(parsers.follow())
        options, why = _FORMS.get(parsers.kind, _plain)(command, parsers, folder)
        return SourceForm(options, why, parsers.kind)
    except SyntaxError as error:
        return SourceForm(why=f"Line {error.lineno} of {Path(error.filename or path).name} isn't valid Python.")
    except (OSError, ValueError, RecursionError) as error:
        return SourceForm(why=f"{command.script} can't be read: {error}.")


def _plain(command: Command, parsers: ScriptParsers, folder: Path) -> tuple[list[Option], str]:
    options, computed = parsers.found()
    if not computed:
        return options, "" if options else f"{command.name} declares no options that its source shows."
    classes = list(dict.fromkeys(each for each in computed if each))
    count = sum(not each for each in computed)
    parts = [f"the options of {', '.join(classes)}"] if classes else []
    parts += [f"{count} option{'s' * (count > 1)} of {command.name}"] if count else []
    text = f"{' and '.join(parts)} {'is' if count == 1 and not classes else 'are'} known only when the script runs."
    return options, text[0].upper() + text[1:]


def _configurator(command: Command, parsers: ScriptParsers, folder: Path) -> tuple[list[Option], str]:
    words = [word for word in command.argv[command.arguments_at :] if "=" not in word and word.endswith(".py")]
    return constant_options(parsers.constants, [folder / word for word in words if (folder / word).is_file()]), ""


def _after(words: Sequence[str], *flags: str) -> list[str]:
    """Return the values of a flag among words."""
    pairs = ((word.partition("="), after) for word, after in zip(words, [*words[1:], ""], strict=False))
    return [text if equals else after for (flag, equals, text), after in pairs if flag in flags]


def _hydra(command: Command, parsers: ScriptParsers, folder: Path) -> tuple[list[Option], str]:
    words = command.argv[command.arguments_at :]
    said = (("--config-name", "-cn"), ("--config-path", "-cp"), ("--config-dir", "-cd"))
    name, path, further = (next(iter(_after(words, *flags)), "") for flags in said)
    path, name = path or parsers.hydra[0] or "", name or parsers.hydra[1] or ""
    if path.endswith(".yaml") and not name:  # before Hydra 1.0
        path, name = str(Path(path).parent), Path(path).stem
    place = parsers.script.parent / path
    if path.startswith("pkg://"):
        place = parsers.roots[-2].joinpath(*path.removeprefix("pkg://").split("."))
    if (
        name
        and not (place / f"{name.removesuffix('.yaml')}.yaml").is_file()
        and (folder / further).is_dir()
        and further
    ):
        place = folder / further
    classes = {key: cls for key, cls in parsers.stored.items() if isinstance(cls, Class)}
    files = HydraFiles(place, words, {key: partial(_structured, cls, parsers) for key, cls in classes.items()})
    why = "" if name else "hydra.main names no configuration."
    try:
        files.compose(name)
    except OSError as error:
        why = why or f"{error}."
    if files.missing and not why:
        why = f"{files.missing[0]}.yaml isn't a file in {place}."
    options = [each for each in files.options.values() if not each.name.startswith("hydra")]
    # its own options, so that their values aren't read as words of the script
    own = [Option(flags[0][2:].replace("-", "_"), flags, group="hidden") for flags in (*said, ("--package", "-p"))]
    return ([*own, *options], why) if options else ([], why or "The configuration is empty.")


def _structured(cls: Class, parsers: ScriptParsers, prefix: str) -> list[Option]:
    found = class_options(cls, "hydra", parsers, prefix)
    return [replace(each, style="assigned", flags=(each.name,)) for each in found]


def lightning_subcommand(command: Command) -> tuple[str, ...]:
    """Return the subcommand of LightningCLI that a command names, or nothing."""
    return tuple(word for word in command.argv[command.arguments_at :] if word in _LIGHTNING)[:1]


def _lightning(command: Command, parsers: ScriptParsers, folder: Path) -> tuple[list[Option], str]:
    found = {each.name: each for each in parsers.found()[0]}
    why = "Settings of the trainer are known only when the script runs."
    for config in _after(command.argv[command.arguments_at :], "--config", "-c"):
        try:
            read = yaml_options(folder / config)
        except OSError:
            why = f"{config} isn't a file in {folder}."
            continue
        for each in read:
            known = found.get(each.name)
            found[each.name] = replace(known, default=each.default) if known else each
    found.setdefault("seed_everything", Option("seed_everything", ("--seed_everything",), "int", help="Random seed."))
    place = lightning_subcommand(command)
    config_file = Option("config", ("--config", "-c"), "str", "append", help="Configuration file.")
    options = [replace(each, command=place) for each in (config_file, *found.values())]
    return [*([Option("subcommand", action="command", subcommands=_LIGHTNING)] if place else []), *options], why


_FORMS = {"configurator": _configurator, "hydra": _hydra, "lightning": _lightning}
