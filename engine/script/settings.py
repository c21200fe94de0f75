"""A command's fields as the settings of an experiment, so that form, command line, sweeps and API treat both alike.

Torch-free and pure. The names of fields are the script's own, such as `check`, `json` or `model.lr`: they are keys of
mappings here, never attributes.
"""

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from engine.config import MOST_SEED, Config, may_be_empty, read_settings
from engine.errors import ConfigError, Problem, UnknownName, cut
from engine.experiment import Experiment
from engine.metrics import Result
from engine.script.command import MOST_WORDS, Command, read_command
from engine.script.field import CommandField
from engine.script.lengths import length_of

SEED = "seed"
"""The setting that takes the seed in each sweep."""
MOST_PROCESSES, MOST_FIELDS, MOST_CHARACTERS = 1_024, 5_000, 1_000_000
_COMMAND = TypeAdapter(Command)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "list": "a list"}
_TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "list": list[str]}


@lru_cache(maxsize=64)
def definition_of(command: Command, name: str = "") -> Experiment:
    """Return a command as an experiment without presets; `name` is that of its runs, if it is a recipe's."""
    settings = CommandSettings(command)
    varied = [each for each in command.fields if each.name not in (SEED, command.seed_field) and each.type != "list"]
    numbers = [each.name for each in varied if each.type in ("int", "float") and each.style != "environment"]
    others = [each.name for each in varied]
    return Experiment(
        name=name or command.name,
        title=name or command.name,
        tagline="",
        sentence="",
        pattern="one process",
        flows=(),
        source="",
        config=cast("type[Config]", settings),
        presets={},
        result=Result(command.result, task=()),
        axis=next((each for each in numbers if each != command.processes_field), next(iter([*numbers, *others]), "")),
        counts={command.processes_field: "process"} if command.processes_field else {},
    )


def for_sweep(command: Command, seed_field: str = "") -> Command:
    """Return a command as the runs of a sweep have it: the field that takes the seed is called `seed`. Without such a
    field, `seed` numbers the repeats and is not written into the command.

    `seed_field` is the one that a person chose. Raises UnknownName, ConfigError.
    """
    if not (name := seed_field or command.seed_field):
        if any(each.name == SEED for each in command.fields):  # a word that is no number, such as `--seed time`
            raise _seed_must_be_a_number(SEED)
        number = CommandField(SEED, "int", 0, "Number of the repeat; not written into the command.", style="switch")
        return replace(command, fields=(*command.fields, replace(number, certain=True)), seed_field=SEED)
    if name not in (names := [each.name for each in command.fields]):
        raise UnknownName("setting", name, names, field="seed_field")
    found = command.fields[names.index(name)]
    if found.type not in ("int", "float") or isinstance(found.default, bool):
        raise _seed_must_be_a_number(name)
    if name != SEED and SEED in names:
        raise ConfigError.of(
            "seed_field", f"The command has a setting named seed; got {name} for the seeds. Choose seed."
        )
    seed = replace(found, name=SEED, default=0 if found.default is None else found.default)
    return replace(command, fields=tuple(seed if each is found else each for each in command.fields), seed_field=SEED)


def _seed_must_be_a_number(name: str) -> ConfigError:
    return ConfigError.of("seed_field", f"{name} can't take the seeds: its value is no number. Choose another setting.")


class CommandSettings:
    """The fields of a command in the place of an experiment's class of settings."""

    server_roles: ClassVar[tuple[str, ...]] = ()

    def __init__(self, command: Command) -> None:
        self.command = command
        self.fields = {each.name: each for each in command.fields}
        self.model_fields = {name: _described(each) for name, each in self.fields.items()}

    def counts(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the field that the execution time is proportional to, if its name is a usual one."""
        return length_of(settings)

    def value_types(self) -> dict[str, frozenset[type]]:
        """Return the types of each field's values, without None."""
        return {
            name: frozenset({list if each.type == "list" else _TYPES[each.type]}) for name, each in self.fields.items()
        }

    def check(self, values: Mapping[str, Any]) -> "CommandConfig":
        """Return the values of all fields; raises ConfigError with one problem per field."""
        checked: dict[str, Any] = {}
        problems: list[Problem] = []
        for name in values:
            if name not in self.fields:
                raise UnknownName("setting", name, self.fields, field=name)
        for name, each in self.fields.items():
            try:
                checked[name] = self.check_field(name, values[name]) if name in values else plain(each.default)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        return CommandConfig(self.command, checked)

    def check_field(self, name: str, value: Any) -> Any:
        """Return a value converted to the type of its field; raises ConfigError."""
        if name not in self.fields:
            raise UnknownName("setting", name, self.fields, field=name)
        each = self.fields[name]
        if value == each.default and type(value) is type(each.default):
            return plain(value)  # as it was pasted, whatever the script makes of it
        found = _converted(each, value)
        if found is None and not may_be_empty(self.model_fields[name]):
            raise _wrong(name, _WORDS[each.type], value)
        if name == self.command.processes_field:
            return _count_of(name, found, 1, MOST_PROCESSES)
        return _count_of(name, found, 0, MOST_SEED) if name == self.command.seed_field == SEED else found

    def parse(
        self, settings: Iterable[str], base: Mapping[str, Any] | None = None, separator: str = "="
    ) -> "CommandConfig":
        """Return `base` updated by texts such as `lr=0.1`; `none` clears a field that may be empty."""
        values = dict(base or {})
        for text in settings:
            for name, value in read_settings([text], separator).items():
                info = self.model_fields.get(name)
                values[name] = value if info is None or may_be_empty(info) else text.partition(separator)[2].strip()
        return self.check(values)

    def model_json_schema(self) -> dict[str, Any]:
        """Return the fields as a JSON schema."""
        kinds = {"int": "integer", "float": "number", "bool": "boolean", "str": "string", "list": "array"}
        return {
            "type": "object",
            "title": self.command.name,
            "properties": {
                name: {"type": kinds[each.type], "default": plain(each.default), "description": each.help}
                | ({"enum": list(each.choices)} if each.choices else {})
                for name, each in self.fields.items()
            },
        }


class CommandConfig:
    """Checked values of a command's fields in the place of an experiment's config."""

    server_roles: ClassVar[tuple[str, ...]] = ()
    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    """None with a unit or an interval: those of its fields are the script's business."""
    unused: ClassVar[frozenset[str]] = frozenset()
    trains_on: ClassVar[None] = None
    threads_per_rank: ClassVar[None] = None

    def __init__(self, command: Command, values: Mapping[str, Any]) -> None:
        self.command = command
        self.values = dict(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandConfig) and (self.command, self.values) == (other.command, other.values)

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, *, mode: str = "python", exclude: Collection[str] = ()) -> dict[str, Any]:
        """Return the values by field."""
        return {name: value for name, value in self.values.items() if name not in exclude}

    @property
    def processes(self) -> int:
        """The number of processes that the launcher starts; 1 without one, and for a word such as `gpu`."""
        count = self.values.get(self.command.processes_field)
        return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of its processes: `script`, or `rank 0`, `rank 1` and so on."""
        return tuple(f"rank {rank}" for rank in range(self.processes)) if self.processes > 1 else ("script",)

    @property
    def device(self) -> Literal["auto", "cpu"]:
        """`cpu` where the command says that it uses no GPU, otherwise auto."""
        device, visible = (str(self.values.get(name, "auto")) for name in ("device", "CUDA_VISIBLE_DEVICES"))
        return "cpu" if device.lower() == "cpu" or visible.strip() in ("", "-1") else "auto"

    @property
    def max_gpus(self) -> int:
        """One for each process; of a single process as many as its CUDA_VISIBLE_DEVICES lists."""
        listed = str(self.values.get("CUDA_VISIBLE_DEVICES", "")).split(",")
        return len(listed) if self.processes == 1 else self.processes

    def threads(self, cores: int | None = None) -> int:
        """Return the threads of each process, for which cores are reserved: its OMP_NUM_THREADS, otherwise 1."""
        try:
            return max(1, int(self.values.get("OMP_NUM_THREADS", 1)))
        except (TypeError, ValueError):
            return 1

    def listens(self, gpus: int) -> bool:
        """Return whether its processes listen on the network: those of a launcher meet there."""
        return self.processes > 1

    def why_one_node(self) -> str:
        """Return that its launcher starts processes on one node only."""
        return "The launcher of this command starts its processes on one node."


def _described(each: CommandField) -> FieldInfo:
    """Return a field as pydantic describes one, which the form and the checks of values read."""
    kind: Any = Literal[each.choices] if each.choices and each.type != "list" else _TYPES[each.type]
    shown: dict[str, Any] = {"empty": "not given", "whole": each.type == "int" and each.certain}
    info: FieldInfo = Field(
        plain(each.default), title=each.name, description=each.help or None, json_schema_extra=shown
    )
    info.annotation = kind | None if each.default is None else kind
    return info


def _converted(each: CommandField, value: Any, kind: str = "") -> Any:
    """Return a value in the type of a field; raises ConfigError."""
    kind, text = kind or each.type, value.strip() if isinstance(value, str) else value
    if value is None or (value == "" and each.default is None):
        return None
    if each.choices and kind != "list":
        if (found := next((one for one in each.choices if str(one) == str(text)), None)) is None:
            raise _wrong(each.name, f"one of {', '.join(map(str, each.choices))}", value)
        return found
    if kind == "list":
        return [_converted(each, one, each.element) for one in _listed(each.name, value)]
    if kind == "bool":
        word = str(text).lower()
        if word not in (*_TRUE, *_FALSE):
            raise _wrong(each.name, _WORDS[kind], value)
        return word in _TRUE
    if kind == "str" and isinstance(value, str | int | float):
        return str(value)
    if kind in ("int", "float") and not isinstance(value, bool):
        return _number(each, text, kind)
    raise _wrong(each.name, _WORDS[kind], value)


def _number(each: CommandField, value: Any, kind: str) -> int | float | str:
    """Return a number; NaN and infinity, which JSON lacks, as the words that scripts read."""
    if kind == "int":
        try:
            if float(value) == int(value):
                return int(value)
        except (TypeError, ValueError, OverflowError):
            pass
        if each.certain:
            raise _wrong(each.name, _WORDS[kind], value)
    try:
        number = float(value)
        return number if math.isfinite(number) else str(number)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(each.name, _WORDS["float"], value) from None


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinity as words."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _listed(name: str, value: Any) -> Sequence[Any]:
    """Return a list; a text is split as a shell splits words."""
    if not isinstance(value, str):
        if isinstance(value, list | tuple):
            return value
        return [value]
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ConfigError.of(name, f"{name} can't be split into words: {error}, got {_short(value)}.") from None


def _count_of(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(name, f"a whole number from {least:,} to {most:,}", value)
    return value


def _wrong(name: str, allowed: str, value: Any) -> ConfigError:
    return ConfigError.of(name, f"{name} must be {allowed}, got {_short(value)}.")


def _short(value: Any) -> str:
    return cut(repr(value))


# ---- A command that a file of another store brings: nothing of it is trusted -----------------------------------------


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
