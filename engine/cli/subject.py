"""What `run`, `submit` and `sweep` launch: an experiment or a recipe by its name, or the command after `--`."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from engine.cli.frame import argument, option, together
from engine.config import read_settings
from engine.errors import ConfigError, EngineError
from engine.experiment import Experiment
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.registry import definition, is_registered
from engine.script.command import Command, Level, missing_file, read_command
from engine.script.enrich import enriched
from engine.store import Launch, Reader

_META = "engine.cli.subject"
_READ: Mapping[Level, str] = {"command": "the command alone", "source": "its source", "help": "its help text"}


class CommandWords(click.Command):
    """A command that leaves the words after `--` as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words from the first `--` on away from click."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_META], args = tuple(args[at + 1 :]), args[:at]
        words = tuple(args)  # click consumes them
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if setting := _setting_in(words, error.option_name):
                raise ConfigError.of("", f"Settings are written {setting}, without --.") from None
            raise


def _setting_in(words: Sequence[str], option: str) -> str:
    """Return an unknown option as a setting of the experiment or recipe that the words name, such as `epochs=3`; empty
    if it is none.
    """
    name = option.lstrip("-").replace("-", "_")
    with suppress(EngineError):
        experiment = next((word for word in words if is_registered(word)), words[0])
        launch = Launch(experiment, {}, "")
        if not is_registered(experiment):
            with Reader.open(Home.find()) as reader:
                launch = replace(launch, command=reader.recipes.command_of(experiment))
        if name in definition(launch).config.model_fields:
            at = next(at for at, word in enumerate(words) if word.partition("=")[0] == option)
            value = words[at].partition("=")[2] or (words[at + 1] if at + 1 < len(words) else "VALUE")
            return f"{name}={shlex.quote(value)}"
    return ""


@dataclass(frozen=True)
class Pasted:
    """The command after `--`, with its options."""

    folder: Path | None = option("Folder that the command runs in.  [default: this one]", metavar="FOLDER")
    python: str | None = option(
        "Interpreter of the command's Python.  [default: the one that this shell finds]", metavar="PATH"
    )
    rank_by: str | None = option("Metric that ranks the command's runs, such as val/accuracy.", metavar="METRIC")
    better: Literal["max", "min"] | None = option("Which values of that metric are better.  [default: max]")

    @property
    def is_described(self) -> bool:
        """Whether there is an option that only a command has."""
        return bool(self.folder or self.python or self.rank_by or self.better)

    def command(self) -> Command | None:
        """Return the command with its form; None without `--`. Raises ConfigError if it can't be read."""
        words: tuple[str, ...] | None = click.get_current_context().meta.get(_META)
        if words is None:
            return None
        return self.read(words)

    def read(self, words: Sequence[str]) -> Command:
        """Return the command of some words. Raises ConfigError if it can't be read."""
        folder = (self.folder or Path.cwd()).resolve()
        if not folder.is_dir():
            raise ConfigError.of("folder", f"{folder} isn't a folder. Name the one that the command runs in.")
        read = enriched(read_command(words, str(folder)))
        read = replace(read, python=interpreter(read, self.python))
        return replace(read, result=self.rank_by, better=self.better or "max") if self.rank_by else read


@dataclass(frozen=True)
class Subject:
    """What a person launches, as it stands on the command line."""

    words: Sequence[str] = argument("[EXPERIMENT [KEY=VALUE]... | -- COMMAND...]")
    preset: str | None = option("Preset to start from; the experiments command lists them.")
    settings: Sequence[str] = option(
        "Change one setting; repeatable. 'none' clears a setting.", "--set", metavar="KEY=VALUE"
    )
    pasted: Pasted = together(Pasted)

    def shared(self, home: Home, title: str, terms: LaunchOptions, owner: str) -> tuple[Experiment, Launch]:
        """Return what is launched, and its launch without a config. Raises UnknownName, ConfigError, UsageError."""
        command, name = self.pasted.command(), self.words[0] if self.words else ""
        if command is not None:
            if self.words or self.preset:
                what = f"'{name}'" if self.words else "--preset"
                raise click.UsageError(f"{what} and a command after -- can't go together. Leave one out.")
            if missing := missing_file(command, Path(command.folder)):
                raise ConfigError.of("command", missing)
            name = command.name
        elif not name:
            raise click.UsageError("Name an experiment or a recipe, or write a command after --.")
        elif self.pasted.is_described:
            raise click.UsageError("--folder, --python, --rank-by and --better are of a command after --.")
        elif not is_registered(name):
            with Reader.open(home) as reader:
                command = reader.recipes.command_of(name)
        launch = Launch(name, {}, owner, self.preset, title, terms, command=command)
        return definition(launch), launch

    def values(self, found: Experiment, command: Command | None) -> dict[str, Any]:
        """Return the settings that a person gave, over those of the preset or the values of the command."""
        given = (*self.words[1:], *self.settings)
        if command is not None:
            return found.config.parse(given).model_dump(mode="json")
        return {**(found.preset(self.preset).settings if self.preset else {}), **read_settings(given)}


def interpreter(command: Command, named: str | None) -> str:
    """Return the interpreter of a command's Python: the one that is `named`, else the one that this shell finds for the
    command's first word; empty where the command names it, or brings its own. Raises ConfigError.
    """
    if named:
        path = shutil.which(Path(named).expanduser())
        if path is None:
            raise ConfigError.of(
                "python", f"{named} isn't a program that can be started. Name an interpreter of Python."
            )
        return str(Path(path).absolute())  # a link of a virtual environment stays one
    program = command.argv[command.program_at]
    if (
        command.launcher not in ("python", "torchrun", "accelerate")
        or "/" in program
        or command.environment.get("PATH")
    ):
        return ""
    path = shutil.which(program)
    if path is None:
        cure = f"Name its environment's interpreter, such as --python {sys.executable}."
        raise ConfigError.of("python", f"This shell finds no program '{program}'. {cure}")
    if command.launcher == "python" or Path(program).name.startswith("python"):
        return str(Path(path).absolute())
    beside = [Path(path).absolute().with_name(name) for name in ("python", "python3")]
    return next((str(each) for each in beside if each.is_file()), "")


def explained(launch: Launch) -> str:
    """Return how a command will run, in one line: its interpreter, its folder, and how its settings were read."""
    command = launch.command
    assert command is not None
    program = f" with {command.python}" if command.python else ""
    why = f" {command.why_not}" if command.why_not else ""
    return f"In {command.folder}{program}. Settings read from {_READ.get(command.level, command.level)}.{why}"
