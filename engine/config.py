"""The config schema that the form, the command line, the store and the docs share.

Torch-free: pages import this module.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import pydantic
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo

from engine.catalogue import choices
from engine.errors import SHOWN, ConfigError, Problem, UnknownName

ADVANCED: dict[str, Any] = {"advanced": True}
Device = Literal["auto", "cpu", "cuda", "mps"]


MOST_SEED = 2**31 - 1


class Config(BaseModel):
    """The settings that every experiment has; each experiment's own `Config` adds to them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    server_roles: ClassVar[tuple[str, ...]] = ()
    """Roles that serve the others: they use one thread and are not counted among the ranks that share the cores."""
    work_fields: ClassVar[tuple[str, ...]] = ()
    """Counts whose product the execution time is proportional to, such as epochs."""

    seed: int = Field(
        0,
        ge=0,
        le=MOST_SEED,
        description=("Random seed. Weights, data order, dropout and episodes use separate streams per rank."),
    )
    device: Device = Field(
        "auto", description="Device that ranks compute on. auto uses the run's GPUs, or the CPU if it has none."
    )
    threads_per_rank: int | None = Field(
        None,
        ge=1,
        le=256,
        description="CPU threads per rank. Empty: cores / ranks, at least 1.",
        json_schema_extra=ADVANCED,
    )
    start_method: Literal["forkserver", "spawn"] = Field(
        "forkserver",
        description=(
            "How rank processes start. forkserver copies a process with torch preloaded; spawn starts a "
            "new Python interpreter."
        ),
        json_schema_extra=ADVANCED,
    )

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the run's ranks, rank 0 first."""
        raise NotImplementedError

    @property
    def max_gpus(self) -> int:
        """The maximum number of GPUs that a run of this config can use."""
        return len(self.roles)

    @property
    def trains_on(self) -> str | None:
        """The data set that a run of this config reads, or None."""
        return getattr(self, "dataset", None)

    @classmethod
    def counts(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields whose product the execution time is proportional to, given a run's settings."""
        return cls.work_fields

    @property
    def unused(self) -> frozenset[str]:
        """Intervals that have no effect under the other settings."""
        return frozenset()

    def listens(self, gpus: int) -> bool:
        """Return whether ranks of this config open network listeners when the run has `gpus` GPUs."""
        return False

    def why_one_node(self) -> str:
        """Return why the ranks of this config must be on one node, as a sentence; empty if they may be on several."""
        if getattr(self, "transport", "shared_memory") in ("shared_memory", "auto"):
            return "Its ranks share memory, which only ranks on one node can."
        return ""

    def threads(self, cores: int | None = None) -> int:
        """Return the threads of one rank on a machine of `cores` (default: this one's)."""
        computing = sum(role not in self.server_roles for role in self.roles)
        return self.threads_per_rank or max(1, (cores or os.cpu_count() or 1) // computing)

    @classmethod
    def value_types(cls) -> dict[str, frozenset[type]]:
        """Return the types of each setting's values, without None."""
        return {name: _value_types(info) for name, info in cls.model_fields.items()}

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> Self:
        """Return the config built from `values`; raises ConfigError with one problem per field."""
        for name in values:
            if name not in cls.model_fields:
                raise UnknownName("setting", name, cls.model_fields, field=name)
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as error:
            raise ConfigError(_problem(cls, dict(item)) for item in error.errors()) from None

    @classmethod
    def parse(cls, settings: Iterable[str], base: Mapping[str, Any] | None = None, separator: str = "=") -> Self:
        """Return `base` updated by texts such as `trainers=4`; `none` clears an optional field."""
        return cls.check(dict(base or {}) | read_settings(settings, separator))

    @classmethod
    def check_field(cls, name: str, value: Any) -> Any:
        """Return a value converted to the type of its field; raises ConfigError. Rules between fields are not
        checked.
        """
        if name not in cls.model_fields:
            raise UnknownName("setting", name, cls.model_fields, field=name)
        info = cls.model_fields[name]
        kind: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        try:
            return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
        except pydantic.ValidationError as error:
            raise ConfigError([_problem(cls, dict(error.errors()[0]) | {"loc": (name,)})]) from None


def interval(unit: str, otherwise: str) -> dict[str, Any]:
    """Return the schema of a setting that is an interval in a unit of a run's work (`rounds`) or in seconds (`s`);
    `otherwise` says what happens in a shorter run.
    """
    return {"unit": unit, "otherwise": otherwise}


def read_settings(texts: Iterable[str], separator: str = "=") -> dict[str, str | None]:
    """Return texts such as `trainers=4` as unchecked names and values; raises ConfigError for one without a
    separator.
    """
    values: dict[str, str | None] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        if not found:
            raise ConfigError([Problem("", f"Invalid setting '{text[:SHOWN]}'. Write name{separator}value.")])
        values[name.strip()] = None if value.strip().lower() in ("none", "") else value.strip()
    return values


def may_be_empty(field: FieldInfo) -> bool:
    """Return whether the field accepts None."""
    return type(None) in get_args(field.annotation)


def unused_because(field: FieldInfo, values: Mapping[str, Any]) -> str:
    """Return the setting because of which a field has no effect, such as `dataset digits`; empty if it has one."""
    extra = field.json_schema_extra
    only = extra.get("only", {}) if isinstance(extra, dict) else {}
    needed = only.items() if isinstance(only, dict) else ()
    return ", ".join(f"{name} {values[name]}" for name, value in needed if values.get(name, value) != value)


def unit_of(field: FieldInfo) -> str:
    """Return the unit of a field, or an empty string."""
    extra = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def without_interval(field: FieldInfo) -> str:
    """Return what happens in a run that is shorter than the interval; an empty string if the field is no interval."""
    extra = field.json_schema_extra
    return str(extra.get("otherwise", "")) if isinstance(extra, dict) else ""


def empty_means(field: FieldInfo) -> str:
    """Return the placeholder for an empty optional field: one or two words."""
    extra = field.json_schema_extra
    return str(extra.get("empty", "automatic")) if isinstance(extra, dict) else "automatic"


def is_advanced(field: FieldInfo) -> bool:
    """Return whether the form shows the field under Advanced."""
    extra = field.json_schema_extra
    return bool(extra.get("advanced", False)) if isinstance(extra, dict) else False


def choices_of(field: FieldInfo) -> tuple[Any, ...]:
    """Return the allowed values of a `Literal` or catalogue field, or an empty tuple for any other field."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "catalogue" in extra:
        return choices(str(extra["catalogue"]))
    return get_args(field.annotation) if "Literal" in str(field.annotation) else ()


def _value_types(field: FieldInfo) -> frozenset[type]:
    chosen = map(type, choices_of(field))
    types = frozenset(chosen) or frozenset(get_args(field.annotation) or (field.annotation,))
    return types - {type(None)}


def bound_of(field: FieldInfo, name: Literal["ge", "gt", "le", "lt"]) -> float | None:
    """Return one bound of a numeric field, or None."""
    for rule in field.metadata:
        bound: float | None = getattr(rule, name, None)
        if bound is not None:
            return bound
    return None


_RULES = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "greater than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "one of {expected}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "missing": "given",
}


def _problem(cls: type[Config], item: dict[str, Any]) -> Problem:
    """Turn one pydantic error into a problem that names the field, the rule and the value."""
    field = ".".join(str(part) for part in item["loc"])
    context = item.get("ctx") or {}
    if item["type"] == "value_error":
        cause = str(context.get("error", item["msg"]))
        return Problem(getattr(context.get("error"), "field", field), cause)
    rule = _RULES.get(item["type"])
    if rule is None:
        return Problem(field, f"{field} can't be {_short_repr(item['input'])}: {item['msg']}.")
    return Problem(
        field, f"{field} must be {rule.format(**context)}{_range(cls, field)}, got {_short_repr(item['input'])}."
    )


def _short_repr(value: object) -> str:
    """Return `repr(value)`, shortened for an error message."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        text = "a number with thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _range(cls: type[Config], field: str) -> str:
    info = cls.model_fields.get(field)
    low, high = (bound_of(info, "ge"), bound_of(info, "le")) if info else (None, None)
    return f" (allowed: {low} to {high})" if low is not None and high is not None else ""


class RuleBroken(ValueError):
    """A rule between fields is broken; raised in validators and shown at `field`."""

    def __init__(self, field: str, sentence: str) -> None:
        self.field = field
        super().__init__(sentence)
