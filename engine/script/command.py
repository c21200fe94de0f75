"""A pasted command: read without executing anything, rendered again with other values.

A shell never sees it: its words are those of `shlex`, and what only a shell would do is refused.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from engine.errors import SHOWN, ConfigError, UnknownName
from engine.script.field import CommandField
from engine.script.launchers import SHELLS, Launcher, LaunchWords, read_launcher, script_path
from engine.script.words import Option, kind_of, read_words, value_of

Level = Literal["command", "source", "configuration", "probe", "help"]
"""How a form was read: from the command alone, the script's source, the configuration that it prints, a probe that
stopped at its parser, or its help text.
"""
LEVELS: dict[Level, str] = {
    "command": "the command alone",
    "source": "the script's source",
    "configuration": "the configuration that the script prints",
    "probe": "the script's parser, in a probe that stopped there",
    "help": "the script's help text",
}
_ENVIRONMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_CHANGED_FOLDER = re.compile(r"\s*(?:\$\s+)?cd\s+((?:[^\s'\"&;|]+|'[^']*'|\"[^\"]*\")+)\s*(?:&&|;|\n)\s*")
_SEEDS = ("seed", "random_seed", "manual_seed", "manualSeed", "rng_seed", "seed_everything", "global_seed")
_SHELL = {
    "|": "a pipe",
    ">": "a redirection",
    "<": "a redirection",
    ";": "a second command",
    "&": "a second command or the background",
    "`": "a command's output",
    "$": "a variable",
}
MOST_WORDS = 5_000
MOST_CHARACTERS = 100_000


@dataclass(frozen=True)
class Rendered:
    """A command as it will run."""

    argv: list[str]
    environment: dict[str, str]

    @property
    def text(self) -> str:
        """Return it as one line for a shell."""
        return " ".join(
            [*(f"{name}={shlex.quote(text)}" for name, text in self.environment.items()), shlex.join(self.argv)]
        )


@dataclass(frozen=True)
class Command:
    """A command that a person pasted, with its form."""

    argv: tuple[str, ...]
    """Its words, without those that set the environment."""
    environment: dict[str, str] = field(default_factory=dict, hash=False)
    """What its leading `NAME=value` set."""
    folder: str = ""
    python: str = ""
    """The interpreter that the person named; "" for that of the command."""
    launcher: Launcher = "opaque"
    script: str | None = None
    """Path of the script, as pasted or relative to the folder; None if none was recognised."""
    name: str = ""
    fields: tuple[CommandField, ...] = ()
    level: Level = "command"
    why_not: str = ""
    """Why the form wasn't read at a further level, as a sentence."""
    seed_field: str = ""
    processes_field: str = ""
    result: str = ""
    """Metric that ranks its runs; "" until a person chooses it."""
    better: Literal["max", "min", ""] = ""
    program_at: int = 0
    """The word that names the interpreter or the launcher."""
    options_at: int = 0
    """The word before which further options of the launcher may stand; no field precedes it."""
    script_at: int = 0
    """The word that names the script or its module."""
    arguments_at: int = 0
    """The first of the script's own words."""
    is_module: bool = False
    is_python: bool = True
    """Whether its script is a program of Python."""

    @property
    def numbers_repeats(self) -> bool:
        """Whether its setting `seed` is no seed: it numbers equal repeats, and is not written into the command."""
        return any(each.name == "seed" and each.style == "switch" and not each.flag for each in self.fields)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return the command of its JSON."""
        fields = tuple(CommandField.of(each) for each in plain.get("fields", ()))
        return cls(**{**plain, "argv": tuple(plain["argv"]), "fields": fields})

    def field(self, name: str) -> CommandField:
        """Return a field, or raise UnknownName."""
        for each in self.fields:
            if each.name == name:
                return each
        raise UnknownName("setting", name, [each.name for each in self.fields])

    def identity(self, experiment: str) -> str:
        """Return what identifies its script among all of the lab for runs of that name: the name of the recipe, which
        differs from its script's, or the path of the script.
        """
        if experiment != self.name:
            return experiment
        path = normpath(Path(self.folder, self.script or self.name))
        return path if "/" in path else f"./{path}"

    def defaults(self) -> dict[str, Any]:
        """Return the value of each field as pasted, or as the script has it."""
        return {each.name: each.default for each in self.fields}

    def rendered(self, values: Mapping[str, Any] | None = None, *, processes: bool = False) -> Rendered:
        """Return the command with these values; what isn't among them stays as it is.

        Words stay in the order pasted, and as pasted where a value didn't change. A field that wasn't pasted is written
        only if it differs from the script's default. With `processes`, the process count is always written.
        """
        chosen = values or {}
        for name in chosen:
            self.field(name)
        environment = dict(self.environment)
        words: list[list[str]] = [[each] for each in self.argv]
        before: dict[int, list[str]] = {}
        for each in self.fields:
            value = chosen.get(each.name, each.default)
            is_bound = processes and each.name == self.processes_field
            if each.is_default(value) and not is_bound:
                continue
            if each.style == "environment":
                environment.pop(each.name, None)
                if value is not None:
                    environment[each.name] = each.text_of(value)
                continue
            written = each.written(value)
            if not each.spans:
                at = each.at if each.at >= 0 else len(self.argv)
                before.setdefault(at, []).extend(word for part in written for word in part)
                continue
            _put(words, each, written)
        parts = [[*before.get(at, ()), *part] for at, part in enumerate([*words, []])]
        return Rendered([word for part in parts for word in part], environment)

    def __hash__(self) -> int:
        return hash((self.argv, tuple(self.environment.items()), self.folder, self.python, self.fields, self.level))


def _put(words: list[list[str]], field: CommandField, written: list[list[str]]) -> None:
    """Replace the words of a pasted field; what is repeated more often than before follows its last place."""
    for number, (first, end) in enumerate(field.spans):
        is_last = number == len(field.spans) - 1
        parts = written[number:] if is_last else written[number : number + 1]
        words[first] = [word for part in parts for word in part]
        for at in range(first + 1, end):
            words[at] = []


def read_command(pasted: str | Sequence[str], folder: str = "", python: str = "") -> Command:
    """Read a command as text or as words; nothing is executed. Raises ConfigError if it isn't one command."""
    if isinstance(pasted, str) and (there := _CHANGED_FOLDER.match(pasted)):
        pasted, folder = pasted[there.end() :], str(Path(folder, *shell_words(there[1])))
    words = shell_words(pasted) if isinstance(pasted, str) else list(pasted)
    if sum(map(len, words)) > MOST_CHARACTERS or len(words) > MOST_WORDS:
        raise ConfigError.of("command", f"The command must have at most {MOST_CHARACTERS:,} characters.")
    if any("\0" in word for word in words):
        raise ConfigError.of("command", "The command must not hold a null character.")
    environment: dict[str, str] = {}
    if words[:1] == ["env"] and len(words) > 1 and _ENVIRONMENT.fullmatch(words[1]):
        del words[0]
    while words and (named := _ENVIRONMENT.fullmatch(words[0])):
        environment[named[1]] = named[2]
        del words[0]
    if not words:
        raise ConfigError.of("command", "The command is empty. Paste one, such as: python train.py --lr 0.1")
    launch = read_launcher(words)
    script = script_path(launch, words, folder)
    named_word = script if script and PurePosixPath(script).name != "__main__.py" else words[launch.script_at]
    return with_options(
        Command(
            tuple(words),
            environment,
            folder,
            python,
            launch.launcher,
            script,
            PurePosixPath(named_word).name or named_word,
            program_at=launch.program_at,
            options_at=launch.options_at,
            script_at=launch.script_at,
            arguments_at=launch.arguments_at,
            is_module=launch.is_module,
            is_python=launch.is_python,
        )
    )


def missing_file(command: Command, folder: Path) -> str:
    """Return that the file which a command starts isn't in a folder, as a sentence with the cure; "" if it is there, or
    none is known to be needed: a program that is opaque may find it elsewhere, as in a container.
    """
    if command.script is None or command.is_module:
        return ""
    if command.launcher == "opaque":
        is_needed = (
            command.script_at == command.program_at or PurePosixPath(command.argv[command.program_at]).name in SHELLS
        )
    else:
        is_needed = command.is_python
    path = folder / command.script
    try:
        if not is_needed or path.is_file() or (path / "__main__.py").is_file():
            return ""
    except OSError as error:
        return f"{path} can't be read: {error.strerror}. Allow it, or correct the path in the command."
    where = "" if command.script.startswith("/") else f" in {folder}"
    return f"{command.script} isn't a file{where}. Correct its path in the command{', or the folder' if where else ''}."


def with_options(
    command: Command, options: Sequence[Option] = (), level: Level = "command", why_not: str = ""
) -> Command:
    """Return the command with the form that its words and the options of its script give."""
    own = read_words(command.argv, command.arguments_at, options)
    names = {each.name for each in own}
    environment = tuple(_environment_field(*each) for each in command.environment.items() if each[0] not in names)
    processes = _processes_field(read_launcher(command.argv), names | set(command.environment))
    fields = (*environment, *((processes,) if processes else ()), *own)
    seed = next((each.name for known in _SEEDS for each in own if _is_seed(each, known)), "")
    return replace(
        command,
        fields=fields,
        level=level,
        why_not=why_not,
        seed_field=seed,
        processes_field=processes.name if processes else "",
    )


def _is_seed(field: CommandField, known: str) -> bool:
    return re.split(r"[./]", field.name)[-1] == known and (field.type == "int" or field.default is None)


def _environment_field(name: str, text: str) -> CommandField:
    value = value_of(text)
    literals = (text.swapcase(), text) if isinstance(value, bool) else ("False", "True")
    if isinstance(value, bool):
        literals = ("false", "true") if text.islower() else ("False", "True")
    return CommandField(
        name, kind_of(value), value, group="Environment", pasted=True, flag=name, style="environment", literals=literals
    )


def _processes_field(launch: LaunchWords, taken: set[str]) -> CommandField | None:
    if launch.processes is None:
        return None
    span = launch.processes_span
    return CommandField(
        "launcher_processes" if "processes" in taken else "processes",
        "int",
        launch.processes,
        "Number of processes that the launcher starts.",
        group="Launcher",
        pasted=span is not None,
        flag=launch.processes_flag,
        style="joined" if span and span[1] - span[0] == 1 else "separate",
        certain=True,
        spans=(span,) if span else (),
        at=launch.options_at,
    )


def shell_words(text: str) -> list[str]:
    """Return the words of a line, as a shell would split it. Raises ConfigError where only a shell would do."""
    if len(text) > MOST_CHARACTERS:
        raise ConfigError.of("command", f"The command must have at most {MOST_CHARACTERS:,} characters.")
    line = re.sub(r"\\\r?\n", " ", text.strip())
    line = re.sub(r"^[$%#>]\s+", "", line)
    line = re.sub(r"\r?\n(?=\s*-)", " ", line)
    _refuse_shell(line)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ConfigError.of("command", f"The command has an open quote or escape: {error}. Close it.") from None
    return words


def _refuse_shell(line: str) -> None:
    """Raise ConfigError for what is outside quotes and only a shell would carry out."""
    quote, at = "", 0
    while at < len(line):
        letter = line[at]
        if letter == "\\" and quote != "'":
            at += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        if not quote and letter == "\n":
            raise ConfigError.of("command", "The command must be one line, or lines that end in \\.")
        active = letter in "`$" if quote == '"' else letter in _SHELL and not quote
        if active and (letter != "$" or re.match(r"\$[A-Za-z_{(0-9@*?]", line[at:])):
            shown = line[at : at + SHOWN].split()[0]
            raise ConfigError.of(
                "command",
                f"{shown} is {_SHELL[letter]} of a shell, and no shell runs the command. Write the value itself, "
                "or put the line into a script and paste: bash script.sh",
            )
        at += 1
