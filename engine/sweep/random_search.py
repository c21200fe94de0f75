"""Random draws: combinations of values out of ranges and lists, the same ones for the same seed. Torch-free."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Any, get_args

from engine.config import Config, bound_of, choices_of
from engine.config_values import read_values
from engine.errors import ConfigError, Problem, UnknownName

MOST_FIELDS = 6
TRIES, TRIES_EACH = 200, 20
"""A draw gives up after so many tries, and so many more for each combination wanted."""
DIGITS = 3
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class Draw:
    """What is to be drawn: how many combinations, from which seed, and a range or a list as text for each field."""

    count: int
    seed: int
    over: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return it as the store keeps it."""
        return {"count": self.count, "seed": self.seed, "over": dict(self.over)}


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both among them: each alike, or (`is_log`) each factor alike."""

    low: float
    high: float
    is_log: bool
    is_whole: bool

    def value(self, random: Random) -> float | int:
        """Return one of them, to three figures, so that people can say and write it."""
        if self.is_whole and not self.is_log:
            return random.randint(int(self.low), int(self.high))
        share = random.random()
        raw = (
            exp(log(self.low) + share * (log(self.high) - log(self.low)))
            if self.is_log
            else self.low + share * (self.high - self.low)
        )
        found = round(raw) if self.is_whole else float(f"{raw:.{DIGITS}g}")
        return type(found)(min(max(found, self.low), self.high))


def read_range(config: type[Config], field: str, text: str) -> Range | None:
    """Return the range that a person wrote, `0.001..0.1` or `log:0.001..0.1`, None where the text is a list.

    Raises UnknownName, ConfigError where it counts down, or an end breaks the field's rule.
    """
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    info = config.model_fields[field]
    kinds = {info.annotation, *get_args(info.annotation)}
    parts = _parts(text)
    if parts is None or not kinds & {int, float} or choices_of(info):
        if text.strip().startswith("log:"):
            example = f"{field}=log:0.001..0.1"
            raise ConfigError(
                [
                    Problem(
                        field,
                        (
                            f"{field}: a range over factors is written {example} and goes with fields of numbers, "
                            f"got '{text.strip()}'."
                        ),
                    )
                ]
            )
        return None
    is_log, low_text, high_text = parts
    low, high = config.check_field(field, low_text), config.check_field(field, high_text)
    if not low < high:
        raise ConfigError(
            [Problem(field, f"{field}: a range counts up, such as {high_text}..{low_text}, got '{text.strip()}'.")]
        )
    if is_log and low <= 0:
        raise ConfigError(
            [
                Problem(
                    field,
                    (
                        f"{field}: a range over factors starts above 0, got '{text.strip()}'. Raise its start, or "
                        "leave out log:."
                    ),
                )
            ]
        )
    return Range(low, high, is_log, float not in kinds)


def usual_range(config: type[Config], field: str, value: Any) -> str:
    """Return a range worth a first look round `value`, as a person would write it; empty for a field that is no number,
    or where none comes to mind.
    """
    info = config.model_fields[field]
    kinds = {info.annotation, *get_args(info.annotation)}
    if (
        choices_of(info)
        or not kinds & {int, float}
        or not isinstance(value, int | float)
        or isinstance(value, bool)
        or value <= 0
    ):
        return ""
    most = bound_of(info, "le")
    if float in kinds:
        text = f"log:{value / 10:g}..{value * 10 if most is None else min(value * 10, most):g}"
    else:
        text = f"1..{int(min(max(8, 2 * value), 2 * value if most is None else most))}"
    try:
        return text if read_range(config, field, text) else ""
    except ConfigError:
        return ""


def combinations(config: type[Config], base: Mapping[str, Any], draw: Draw) -> list[dict[str, Any]]:
    """Return `draw.count` different combinations; those that break a rule beside `base` are drawn again. More of the
    same draw begin with the same ones.

    Raises ConfigError where there are not so many.
    """
    _check_draw(draw)
    sources = {
        field: read_range(config, field, text) or read_values(config, field, text) for field, text in draw.over.items()
    }
    found: list[dict[str, Any]] = []
    broken: ConfigError | None = None
    for values in _drawn(sources, draw):
        try:
            config.check({**base, **values})
        except ConfigError as error:
            broken = broken or error
            continue
        if values not in found:
            found.append(values)
        if len(found) == draw.count:
            return found
    if broken and not found:
        raise broken
    some = "only 1 combination that keeps" if len(found) == 1 else f"only {len(found)} different combinations that keep"
    raise ConfigError(
        [
            Problem(
                "",
                (
                    f"{draw.count} combinations are to be drawn, but there are {some} the rules. Draw fewer, or "
                    "from wider ranges."
                ),
            )
        ]
    )


def _drawn(sources: Mapping[str, Range | tuple[Any, ...]], draw: Draw) -> Iterator[dict[str, Any]]:
    random = Random(draw.seed)
    for _ in range(TRIES + TRIES_EACH * draw.count):
        yield {
            field: source.value(random) if isinstance(source, Range) else source[random.randrange(len(source))]
            for field, source in sources.items()
        }


def _check_draw(draw: Draw) -> None:
    if not 1 <= len(draw.over) <= MOST_FIELDS:
        raise ConfigError(
            [Problem("", f"A random draw is over 1 to {MOST_FIELDS} fields, got {len(draw.over) or 'none'}.")]
        )
    if draw.count < 1:
        raise ConfigError([Problem("draw", f"A draw has at least 1 combination, got {draw.count}.")])


def _parts(text: str) -> tuple[bool, str, str] | None:
    """Return whether a range is over factors, its start and its end as they are written."""
    text = text.strip()
    is_log = text.startswith("log:")
    low, found, high = text.removeprefix("log:").partition("..")
    written = [end.strip() for end in (low, high)]
    return (is_log, written[0], written[1]) if found and all(re.fullmatch(_NUMBER, end) for end in written) else None
