"""Differences of runs in config or environment; equal fields are counted, not listed. Torch-free."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MISSING = object()
"""Marks a field that a run does not have."""


@dataclass(frozen=True)
class Row:
    """One field with its value in each run, MISSING if a run has no such field."""

    name: str
    values: tuple[Any, ...]
    differs: bool


def rows(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return every field of the mappings, in order of first appearance; nested ones as `outer.inner`."""
    flat = [flattened(each) for each in found]
    names = dict.fromkeys(name for each in flat for name in each)
    return [_row(name, tuple(each.get(name, MISSING) for each in flat)) for name in names]


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings as a flat one, names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= {f"{name}.{inner}": each for inner, each in flattened(value).items()}
        else:
            found[name] = value
    return found


def _row(name: str, values: tuple[Any, ...]) -> Row:
    return Row(name, values, len({_comparable(value) for value in values}) > 1)


def _comparable(value: Any) -> str:
    """Return a value as a text that is equal for equal values: 1 equals 1.0, 1 does not equal true."""
    if value is MISSING:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)
