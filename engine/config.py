"""The config schema that the form, the command line, the store and the docs share.

Torch-free: pages import this module.
"""

import ast
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

import pydantic
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.fields import FieldInfo

from engine.catalogue import choices
from engine.errors import SHOWN, ConfigError, Problem, UnknownName, cut

Device = Literal["auto", "cpu", "cuda", "mps"]
Bound = float | None
MOST_SEED = 2**31 - 1


def setting(
    default: Any,
    text: str = "",
    *,
    low: Bound = None,
    high: Bound = None,
    above: Bound = None,
    below: Bound = None,
    **shown: Any,
) -> Any:
    """Declare a setting of a `Config`. Its description is `text` or, where that is longer than the line, the docstring
    below it.

    `low` and `high` are allowed values, `above` and `below` are not. `shown` may have a `unit`; `advanced=True`, to
    show it under Advanced; `empty`, the placeholder of an optional one; `only`, the settings without which it has no
    effect, each with its value or a list of values.
    """
    bounds = {"ge": low, "le": high, "gt": above, "lt": below}
    rules: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return partial(Field, default, description=text, **rules, **({"json_schema_extra": shown} if shown else {}))


def interval(default: float, unit: str, otherwise: str, text: str = "", *, high: float, **shown: Any) -> Any:
    """Declare a setting that is an interval in a unit of a run's work (`rounds`) or in seconds (`s`), of which 0 is
    none; `otherwise` says what happens in a shorter run.
    """
    return setting(default, text, low=0, high=high, unit=unit, otherwise=otherwise, **shown)


class RuleBroken(ValueError):
    """A rule between fields is broken; raised in validators and shown at `field`."""

    def __init__(self, field: str, sentence: str) -> None:
        self.field = field
        super().__init__(sentence)


@dataclass(frozen=True)
class Rule:
    """A rule between settings. A config that breaks it is refused: `field must be allowed, got value: reason. Cure`."""

    field: str
    allowed: str
    reason: str = ""
    cure: str = ""
    _: KW_ONLY
    broken: bool
    """Whether the config breaks it."""

    def enforce(self, config: "Config") -> None:
        """Raise RuleBroken if it is broken."""
        if self.broken:
            why = f": {self.reason}." if self.reason else "."
            sentence = f"{self.field} must be {self.allowed}, got {getattr(config, self.field)!r}{why} {self.cure}"
            raise RuleBroken(self.field, sentence.rstrip())


Rules = Iterator[Rule]


class _Declared(BaseModel):
    """Settings declared by `setting`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Describe each setting by the docstring below it, before pydantic collects the fields."""
        super().__init_subclass__(**kwargs)
        tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
        classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        if cls.__name__ not in classes:  # made from data, with its descriptions
            return
        body: list[Any] = classes[cls.__name__].body
        for node, below in zip_longest(body, body[1:]):
            name = ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else ""
            if isinstance(declared := vars(cls).get(name), partial):
                docstring = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""
                text = declared.keywords["description"] or docstring
                setattr(cls, name, declared(description=" ".join(text.split())))


class Config(_Declared):
    """The settings that every experiment has; each experiment's own `Config` adds to them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    server_roles: ClassVar[tuple[str, ...]] = ()
    """Roles that serve the others: they use one thread and are not counted among the ranks that share the cores."""
    work_fields: ClassVar[tuple[str, ...]] = ()
    """Counts whose product the execution time is proportional to, such as epochs."""
    unused_with: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Intervals that have no effect with a choice: `(("evaluate_every", "dataset random"),)`."""

    seed: int = setting(0, low=0, high=MOST_SEED)
    """Random seed. Weights, data order, dropout and episodes use separate streams per rank."""
    device: Device = setting("auto")
    """Device that ranks compute on. auto uses the run's GPUs, or the CPU if it has none."""
    threads_per_rank: int | None = setting(None, low=1, high=256, advanced=True)
    """CPU threads per rank. Empty: cores / ranks, at least 1."""
    start_method: Literal["forkserver", "spawn"] = setting("forkserver", advanced=True)
    """How rank processes start. forkserver copies a process with torch preloaded; spawn starts a new Python
    interpreter."""

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
        return frozenset(name for name, choice in self.unused_with if self.has(choice))

    def rules(self) -> Rules:
        """Yield the rules between settings, those of the base class first: the first broken one is reported."""
        yield from ()

    def has(self, choice: str) -> bool:
        """Return whether it has a choice such as `variant tutorial`."""
        name, _, value = choice.partition(" ")
        return str(getattr(self, name)) == value

    def when(self, choice: str) -> Callable[..., Rule]:
        """Return a function that returns a rule of a choice, from a field and its allowed values:
        `when("variant tutorial")("device", "auto", "cpu", why="which has no GPU", cure="Choose cpu.")`.
        """

        def rule(field: str, *allowed: Any, why: str = "", cure: str = "") -> Rule:
            words = ", ".join(filter(None, (f"{' or '.join(map(str, allowed))} for {choice}", why)))
            return Rule(field, words, cure=cure, broken=self.has(choice) and getattr(self, field) not in allowed)

        return rule

    def at_most(self, field: str, other: str, reason: str = "") -> Rule:
        """Return the rule that a setting is at most another one."""
        for name in (field, other):
            check_named(self, name)
        most = getattr(self, other)
        return Rule(field, f"at most {other} ({most:,})", reason, broken=getattr(self, field) > most)

    def no_apple_gpu(self, where: str = "here", why: str = "several processes can't share an Apple GPU") -> Rule:
        """Return the rule of ranks that compute on the CPU or on NVIDIA's GPUs."""
        return Rule("device", f"auto, cpu or cuda {where}", why, "Choose cpu.", broken=self.device == "mps")

    @model_validator(mode="after")
    def _follows_its_rules(self) -> Self:
        for rule in self.rules():
            rule.enforce(self)
        return self

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


def check_named(config: Config, name: str) -> None:
    """Raise TypeError for a name in a rule that a config doesn't have: a fault of the code, not of what a person
    set.
    """
    if not hasattr(config, name):
        raise TypeError(str(UnknownName("setting", name, type(config).model_fields)))


def read_settings(texts: Iterable[str], separator: str = "=") -> dict[str, str | None]:
    """Return texts such as `trainers=4` as unchecked names and values; raises ConfigError for one without a
    separator.
    """
    values: dict[str, str | None] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        if not found:
            raise ConfigError.of("", f"Invalid setting '{text[:SHOWN]}'. Write name{separator}value.")
        values[name.strip()] = None if value.strip().lower() in ("none", "") else value.strip()
    return values


def may_be_empty(field: FieldInfo) -> bool:
    """Return whether the field accepts None."""
    return type(None) in get_args(field.annotation)


def unused_because(field: FieldInfo, values: Mapping[str, Any]) -> str:
    """Return the setting because of which a field has no effect, such as `dataset digits`; empty if it has one."""
    only = _shown(field).get("only", {})
    wanted = {name: value if isinstance(value, list) else [value] for name, value in only.items()}
    return ", ".join(f"{name} {values[name]}" for name, some in wanted.items() if values.get(name, some[0]) not in some)


def has_conditions(field: FieldInfo) -> bool:
    """Return whether the field has an effect only with certain values of other settings."""
    return bool(_shown(field).get("only"))


def unit_of(field: FieldInfo) -> str:
    """Return the unit of a field, or an empty string."""
    return str(_shown(field).get("unit", ""))


def without_interval(field: FieldInfo) -> str:
    """Return what happens in a run that is shorter than the interval; an empty string if the field is no interval."""
    return str(_shown(field).get("otherwise", ""))


def empty_means(field: FieldInfo) -> str:
    """Return the placeholder for an empty optional field: one or two words."""
    return str(_shown(field).get("empty", "automatic"))


def is_advanced(field: FieldInfo) -> bool:
    """Return whether the form shows the field under Advanced."""
    return bool(_shown(field).get("advanced"))


def is_fixed(field: FieldInfo) -> bool:
    """Return whether no person sets the field, as the version of an experiment's code."""
    return bool(_shown(field).get("fixed"))


def is_whole(field: FieldInfo) -> bool:
    """Return whether a number must be whole. Of a script's setting whose type was inferred from 1, it need not."""
    return bool(_shown(field).get("whole", True))


def choices_of(field: FieldInfo) -> tuple[Any, ...]:
    """Return the allowed values of a `Literal` or catalogue field, or an empty tuple for any other field."""
    if catalogue := _shown(field).get("catalogue"):
        return choices(catalogue)
    kinds = (field.annotation, *get_args(field.annotation))
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def _shown(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}


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
    return cut(text)


def _range(cls: type[Config], field: str) -> str:
    info = cls.model_fields.get(field)
    low, high = (bound_of(info, "ge"), bound_of(info, "le")) if info else (None, None)
    return f" (allowed: {low} to {high})" if low is not None and high is not None else ""
