"""Random search: combinations of values sampled from ranges and lists, reproducible by seed. Torch-free."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Any, get_args

from engine.config import Config, bound_of, choices_of
from engine.config_values import read_values
from engine.errors import ConfigError, UnknownName
from engine.store.launches import Draw

MOST_FIELDS = 6
TRIES, TRIES_EACH = 200, 20
"""A draw gives up after `TRIES` samples plus `TRIES_EACH` per combination."""
DIGITS = 3
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class Range:
    """The closed interval from `low` to `high`, sampled uniformly or (`is_log`) log-uniformly."""

    low: float
    high: float
    is_log: bool
    is_whole: bool

    def value(self, random: Random) -> float | int:
        """Return a sample, rounded to three significant figures."""
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
    """Return the range in a text such as `0.001..0.1` or `log:0.001..0.1`, None if the text is a list.

    Raises UnknownName, and ConfigError for a descending range or an invalid end.
    """
    if field not in config.model_fields:
        raise UnknownName("setting", field, config.model_fields, field=field)
    info = config.model_fields[field]
    kinds = {info.annotation, *get_args(info.annotation)}
    parts = _parts(text)
    if parts is None or not kinds & {int, float} or choices_of(info):
        if text.strip().startswith("log:"):
            example = f"{field}=log:0.001..0.1"
            raise ConfigError.of(
                field, f"{field}: a log range needs a numeric field and the form {example}, got '{text.strip()}'."
            )
        return None
    is_log, low_text, high_text = parts
    low, high = config.check_field(field, low_text), config.check_field(field, high_text)
    if not low < high:
        raise ConfigError.of(
            field, f"{field}: a range must be ascending, such as {high_text}..{low_text}; got '{text.strip()}'."
        )
    if is_log and low <= 0:
        raise ConfigError.of(
            field, f"{field}: a log range must start above 0, got '{text.strip()}'. Raise its start, or remove log:."
        )
    return Range(low, high, is_log, float not in kinds)


def usual_range(config: type[Config], field: str, value: Any) -> str:
    """Return a suggested range around `value` as text; empty for a field that is not numeric, or without a sensible
    range.
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
    """Return `draw.count` different combinations; those that are invalid with `base` are sampled again. A larger count
    begins with the same combinations.

    Raises ConfigError if there are fewer.
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
    some = "only 1 combination is" if len(found) == 1 else f"only {len(found)} different combinations are"
    raise ConfigError.of("", f"Can't draw {draw.count} combinations: {some} valid. Draw fewer, or from wider ranges.")


def _drawn(sources: Mapping[str, Range | tuple[Any, ...]], draw: Draw) -> Iterator[dict[str, Any]]:
    random = Random(draw.seed)
    for _ in range(TRIES + TRIES_EACH * draw.count):
        yield {
            field: source.value(random) if isinstance(source, Range) else source[random.randrange(len(source))]
            for field, source in sources.items()
        }


def _check_draw(draw: Draw) -> None:
    if not 1 <= len(draw.over) <= MOST_FIELDS:
        raise ConfigError.of(
            "",
            f"A random draw must vary 1 to {MOST_FIELDS} fields, got {len(draw.over) or 'none'}. Give each with a "
            "range.",
        )
    if draw.count < 1:
        raise ConfigError.of("draw", f"A random draw must have at least 1 combination, got {draw.count}.")


def _parts(text: str) -> tuple[bool, str, str] | None:
    """Return whether a range is logarithmic, and its start and end as written."""
    text = text.strip()
    is_log = text.startswith("log:")
    low, found, high = text.removeprefix("log:").partition("..")
    written = [end.strip() for end in (low, high)]
    return (is_log, written[0], written[1]) if found and all(re.fullmatch(_NUMBER, end) for end in written) else None
