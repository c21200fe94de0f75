"""The form that a script's source and configuration files give; nothing of the script is executed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from engine.script.annotations import class_options
from engine.script.command import Command, missing_file, with_options
from engine.script.configurations import HydraFiles, constant_options, yaml_options
from engine.script.parsers import Hydra, Lightning, ScriptParsers
from engine.script.values import Class
from engine.script.words import Option

_SUBCOMMANDS = ("fit", "validate", "test", "predict")


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
        return _form(command, parsers, folder)
    except SyntaxError as error:
        return SourceForm(why=f"Line {error.lineno} of {Path(error.filename or path).name} isn't valid Python.")
    except (OSError, ValueError, RecursionError) as error:
        return SourceForm(why=f"{command.script} can't be read: {error}.")


def _form(command: Command, parsers: ScriptParsers, folder: Path) -> SourceForm:
    words = command.argv[command.arguments_at :]
    if parsers.constants is not None:
        files = [
            folder / word for word in words if "=" not in word and word.endswith(".py") and (folder / word).is_file()
        ]
        return SourceForm(constant_options(parsers.constants, files), kind="configurator")
    if parsers.hydra is not None:
        return _hydra(command, parsers, parsers.hydra)
    if parsers.lightning is not None:
        return _lightning(command, parsers.lightning, folder)
    options, computed = parsers.found()
    if computed:
        return SourceForm(options, _computed(command.name, computed), parsers.kind)
    why = "" if options else f"{command.name} declares no options that its source shows."
    return SourceForm(options, why, parsers.kind)


def _computed(name: str, what: Sequence[str]) -> str:
    """Return what is known only when a script runs, as a sentence."""
    classes = list(dict.fromkeys(each for each in what if each))
    count = sum(not each for each in what)
    single = "1 option" if count == 1 else f"{count} options"
    parts = [f"the options of {', '.join(classes)}"] if classes else []
    parts += [f"{single} of {name}"] if count else []
    verb = "is" if parts == [f"1 option of {name}"] else "are"
    text = f"{' and '.join(parts)} {verb} known only when the script runs."
    return text[0].upper() + text[1:]


def _after(words: Sequence[str], *flags: str) -> str:
    """Return the value of a flag among words, "" without it."""
    for at, word in enumerate(words):
        flag, equals, text = word.partition("=")
        if flag in flags:
            return text if equals else words[at + 1] if at + 1 < len(words) else ""
    return ""


def _hydra(command: Command, parsers: ScriptParsers, hydra: Hydra) -> SourceForm:
    words = command.argv[command.arguments_at :]
    name = _after(words, "--config-name", "-cn") or hydra.name
    given = _after(words, "--config-path", "-cp") or hydra.path
    if given and given.endswith(".yaml") and not name:  # before Hydra 1.0
        given, name = str(Path(given).parent), Path(given).stem
    folder = parsers.script.parent / (given or "")
    if given and given.startswith("pkg://"):
        folder = parsers.roots[-2].joinpath(*given.removeprefix("pkg://").split("."))
    further = Path(command.folder) / _after(words, "--config-dir", "-cd")
    if name and not (folder / f"{name.removesuffix('.yaml')}.yaml").is_file() and further.is_dir():
        folder = further
    structured = {
        key: partial(_structured, cls, parsers) for key, cls in hydra.stored.items() if isinstance(cls, Class)
    }
    files = HydraFiles(folder, words, structured)
    why = "" if name else "hydra.main names no configuration."
    try:
        files.compose(name or "")
    except OSError as error:
        why = why or f"{error}."
    if files.missing and not why:
        why = f"{files.missing[0]}.yaml isn't a file in {folder}."
    options = [each for each in files.options.values() if not each.name.startswith("hydra")]
    if not options:
        return SourceForm(why=why or "The configuration is empty.", kind="hydra")
    return SourceForm([*_hydra_flags(), *options], why, "hydra")


def _structured(cls: Class, parsers: ScriptParsers, prefix: str) -> list[Option]:
    found = class_options(cls, "hydra", parsers, prefix)
    return [replace(each, style="assigned", flags=(each.name,)) for each in found]


def _hydra_flags() -> list[Option]:
    """Return Hydra's own options, so that their values aren't read as words of the script."""
    valued = (("--config-name", "-cn"), ("--config-path", "-cp"), ("--config-dir", "-cd"), ("--package", "-p"))
    return [Option(flags[0][2:].replace("-", "_"), flags, action="store", group="hidden") for flags in valued]


def _lightning(command: Command, lightning: Lightning, folder: Path) -> SourceForm:
    words = command.argv[command.arguments_at :]
    subcommand = next((each for each in words if each in _SUBCOMMANDS), "")
    found = {each.name: each for each in lightning.options}
    why = "Settings of the trainer are known only when the script runs."
    configs = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("--config", "-c")]
    configs += [word.partition("=")[2] for word in words if word.startswith("--config=")]
    for config in configs:
        try:
            read = yaml_options(folder / config)
        except OSError:
            why = f"{config} isn't a file in {folder}."
            continue
        for each in read:
            known = found.get(each.name)
            found[each.name] = replace(known, default=each.default) if known else each
    found.setdefault("seed_everything", Option("seed_everything", ("--seed_everything",), "int", help="Random seed."))
    place = (subcommand,) if subcommand else ()
    options = [Option("config", ("--config", "-c"), "str", "append", help="Configuration file.", command=place)]
    options += [replace(each, command=place) for each in found.values()]
    if subcommand:
        options.insert(0, Option("subcommand", action="command", subcommands=_SUBCOMMANDS))
    return SourceForm(options, why, "lightning")
