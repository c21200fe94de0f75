"""Titles of settings, and their values parsed and formatted as a person writes them: `1, 2, 4, 8`, `1..10`, `none`.
Torch-free.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from engine.config import Config, choices_of, may_be_empty
from engine.errors import ConfigError, Problem, UnknownName

MOST_RUNS = 500
"""Maximum number of runs in a sweep, and of values in a range."""
SMALL_COUNT = 16
SPELLED_OUT = {"envs": "environments", "gae": "GAE", "cpu": "CPU", "gpus": "GPUs", "parallab": "Parallab"}
UNITS = {"s": "s", "ms": "ms", "gb": "GB"}
"""Units that end the names of fields."""
_RANGE = re.compile(r"(-?\d+)\s*\.\.\s*(-?\d+)")


def read_values(config: type[Config], field: str, text: str) -> tuple[Any, ...]:
    """Parse values for a field, in the field's type: `1, 2, 4, 8`, `1..10`, `gpipe, 1f1b`, `true, false`, `none`.

    A `;` in the text separates values that contain commas. Raises ConfigError with one problem per invalid value.
    """
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    pieces = [piece.strip() for piece in text.split(";" if ";" in text else ",")]
    return checked(config, field, [value for piece in pieces if piece for value in _expanded(config, field, piece)])


def usual_values(config: type[Config], field: str, base: Mapping[str, Any]) -> str:
    """Return suggested values for a field as text, without those that `base` does not allow.

    All choices of a field that has them; 1, 2, 4, 8 for a small count; otherwise half, equal to and double the value in
    `base`.
    """
    info, value = config.model_fields[field], base.get(field)
    is_count = int in (info.annotation, *get_args(info.annotation))
    tried: Iterable[Any]
    if choices := choices_of(info):
        tried = choices
    elif info.annotation is bool:
        tried = (False, True)
    elif is_count and (value is None or (isinstance(value, int | float) and value <= SMALL_COUNT)):
        tried = (1, 2, 4, 8)
    elif isinstance(value, int | float):
        tried = dict.fromkeys(value * factor if factor >= 1 or not is_count else value // 2 for factor in (0.5, 1, 2))
    else:
        tried = (value,) if value else ()
    return ", ".join(value_in_words(each) for each in tried if _allows(config, {**base, field: each}))


def field_title(name: str) -> str:
    """Return the title of a config or environment field: `Batch size`, `Timeout (s)`, `Packages: torch`."""
    outer, _, inner = name.partition(".")
    *words, last = (SPELLED_OUT.get(word, word) for word in outer.split("_"))
    title = " ".join([*words, f"({UNITS[last]})" if words and last in UNITS else last])
    return f"{title[:1].upper()}{title[1:]}{': ' if inner else ''}{inner}"


def values_in_words(values: Mapping[str, Any]) -> str:
    """Return names and values as text, such as `splits 4, mode gpipe`."""
    return ", ".join(f"{name} {value_in_words(value)}" for name, value in values.items())


def value_in_words(value: Any) -> str:
    """Return one value as text: `none` for an empty one, `python -m engine 0.01, bash 0.5` for a list of pairs."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e5 else f"{value:.12g}"
    if isinstance(value, list | tuple):
        return (
            ", ".join(
                " ".join(map(value_in_words, each)) if isinstance(each, list | tuple) else value_in_words(each)
                for each in value
            )
            or "none"
        )
    return values_in_words(value) if isinstance(value, Mapping) else str(value) or "''"


VALUE_TITLES = {
    "gpt_base": "GPT base",
    "mnist_net": "MNIST net",
    "small_resnet": "small ResNet",
    "sparse_logistic": "sparse logistic regression",
}


def value_title(value: Any) -> str:
    """Return one value as pages show it where nobody types it: names of models as titles."""
    return VALUE_TITLES[value] if isinstance(value, str) and value in VALUE_TITLES else value_in_words(value)


def checked(config: type[Config], field: str, written: Sequence[Any]) -> tuple[Any, ...]:
    """Return values in the field's type; raises ConfigError for invalid values, duplicates and an empty list."""
    values: list[Any] = []
    problems: list[Problem] = []
    for value in written:
        try:
            known = config.check_field(field, value)
        except ConfigError as error:
            problems += error.problems
            continue
        if known in values:
            problems.append(
                Problem(field, f"{field} has the value {value_in_words(known)} twice. Give each value once.")
            )
        values.append(known)
    if not written:
        problems.append(
            Problem(
                field,
                (
                    f"{field} needs at least one value to sweep, such as "
                    f"{usual_values(config, field, {}) or 'its default'}."
                ),
            )
        )
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return tuple(values)


def _expanded(config: type[Config], field: str, piece: str) -> list[Any]:
    """Return the values in one piece of text: the numbers of a range, None, or the text itself."""
    info = config.model_fields[field]
    found = _RANGE.fullmatch(piece) if info.annotation is not str else None
    if found is None:
        return [None if may_be_empty(info) and piece.lower() == "none" else piece]
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ConfigError.of(field, f"{field}: a range must be ascending, such as {last}..{first}; got '{piece}'.")
    if last - first >= MOST_RUNS:
        raise ConfigError.of(field, f"{field}: a range can have at most {MOST_RUNS} values; got '{piece}'. Use fewer.")
    return list(range(first, last + 1))


def _allows(config: type[Config], values: Mapping[str, Any]) -> bool:
    try:
        config.check(values)
    except ConfigError:
        return False
    return True
