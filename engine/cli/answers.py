"""Output of commands: one JSON value, or text."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import partial
from typing import Any

import click

from engine.filter import tree

LONGEST_NAME = 40
"""Characters of a name in a table."""
duration = partial(tree.duration, missing="", aligned=True)


def plain(value: object) -> Any:
    """Return `value` as plain JSON values; NaN and infinities become the strings "NaN", "Infinity" and "-Infinity"."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return the attributes of these names, in their order."""
    return {name: getattr(value, name) for name in names}


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    click.echo(json.dumps(plain(value), allow_nan=False, ensure_ascii=False))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "") -> str:
    """Return rows under headings, without rows the text `empty`; numeric columns are right-aligned. A line
    break in a cell is a space.
    """
    rows = list(rows)
    if not rows and empty:
        return empty
    texts = [
        [
            number(cell) if isinstance(cell, float) else "" if cell is None else " ".join(str(cell).split())
            for cell in row
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [list(headings), *texts]) for column in range(len(headings))]
    right = [all(isinstance(row[column], int | float | None) for row in rows) for column in range(len(headings))]
    lines = [_line(list(headings), widths, right), *(_line(line, widths, right) for line in texts)]
    return "\n".join(lines)


def short(name: str) -> str:
    """Return a name for a table, cut if it is long."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()


def number(value: float | None) -> str:
    """Return a number rounded for display."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def moment(text: str | None) -> str:
    """Return a stored time to the second, in UTC as everywhere; a filter takes it as it is."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC" if text else ""


def wants_json() -> bool:
    """Return whether the running command was given --json."""
    return bool(click.get_current_context().params["as_json"])


def answer(value: object, text: str | Callable[[], str]) -> None:
    """Print `value` with --json, otherwise the text; one that takes time is a function, called only then."""
    if wants_json():
        print_json(value)
    else:
        click.echo(text if isinstance(text, str) else text())


def print_changed(run_ids: Sequence[int], said: str) -> None:
    """Print which runs were changed, and what they are now."""
    if wants_json():
        print_json({"runs": list(run_ids), "now": said})
        return
    for run_id in run_ids:
        click.echo(f"Run {run_id} is {said}.")
