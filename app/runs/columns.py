"""The columns that a results table can have, written as in the filter language: `trainers`, `test/accuracy.best`,
`train/loss@500`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import FilterError
from engine.filter import RUN_FIELDS, Field, Names, read_field
from engine.metrics import metric
from engine.store import Reader
from engine.store.runs.fields import Text

NUMBERS = ("duration", "startup", "ranks", "cores", "gpus")
"""Numbers of a run beside metrics and settings; what else every run has is words."""
SHOWN_OF = ("last", "best", "mean", "min", "max")
APART = ("perf/execution_time_s", "perf/startup_time_s")
"""Metrics that every run has as a field of its own."""
USUAL = ("dataset", "trainers", "epochs", "batch_size", "learning_rate", "seed")
LABELS = {"duration": "Execution", "startup": "Start-up"}
_AT_STEP = re.compile(r"(.+)@\s*(\d{1,15})\s*")


@dataclass(frozen=True)
class Column:
    """One column: a field of runs, or a metric at a step."""

    written: str
    field: Field
    step: int | None = None

    @property
    def is_setting(self) -> bool:
        return self.field.source == "config"

    @property
    def is_words(self) -> bool:
        """Whether it holds what runs are called and when they were: texts, tags, times, flags and ids, which no mean is
        made of.
        """
        return self.field.source == "run" and self.field.name not in NUMBERS

    @property
    def label(self) -> str:
        """What stands over it."""
        if self.field.source != "metric":
            name = LABELS.get(self.field.name, self.field.name if self.is_setting else self.field.name.capitalize())
            return f"{name} (s)" if self.field.kind == "seconds" else name
        known = metric(self.field.name)
        unit = f" ({known.unit})" if known.unit else ""
        return f"{known.label}, {self.field.of if self.step is None else f'step {self.step:,}'}{unit}"

    @property
    def help(self) -> str:
        """What it means."""
        if self.field.source == "metric":
            at = "The last value at or before that step, of runs that got so far. " if self.step is not None else ""
            return f"{at}{metric(self.field.name).help}"
        return "" if self.is_setting else RUN_FIELDS[self.field.name][1].capitalize() + "."


def read_column(text: str, names: Names) -> Column:
    """Return the column that a text names; raises FilterError."""
    if found := _AT_STEP.fullmatch(text):
        field = read_field(found[1], names)
        if field.source != "metric":
            raise FilterError(
                f"Only a metric has a value at a step; {field.written} is none. Write it without @{found[2]}.",
                0,
                len(text),
            )
        return Column(f"{field.name}@{int(found[2])}", field, int(found[2]))
    field = read_field(text, names)
    return Column(field.name if field.source == "run" else text.strip(), field)


def read_columns(texts: Sequence[str], reader: Reader) -> tuple[list[Column], list[str]]:
    """Return the columns that can be read, and a sentence for each that can't."""
    names, all_names, columns, sentences = Names.usual(), None, [], []
    for text in dict.fromkeys(texts):
        try:
            columns.append(read_column(text, names))
            continue
        except FilterError:
            all_names = all_names or reader.fields.names()
        try:
            columns.append(read_column(text, all_names))
        except FilterError as error:
            sentences.append(f"The column {text[:60]} was left out. {error}")
    return columns, sentences


def choices(metrics: Sequence[str]) -> list[str]:
    """Return what can be chosen from: of each metric its usual values, then what every run has, its numbers first, then
    settings.
    """
    values = [
        _written(name, of) for name in in_order(metrics) for of in SHOWN_OF if of != "best" or metric(name).better
    ]
    return [*values, *NUMBERS, *(name for name in RUN_FIELDS if name not in NUMBERS), *Names.usual().settings]


def usual(metrics: Sequence[str]) -> list[str]:
    """Return the columns that a table begins with: execution time, tests and rewards with their best, loss, speed, and
    usual settings.

    What scatters so much that single values say nothing (rewards of episodes) is there with its mean, anything else
    with its last value.
    """
    found = ["duration"]
    for name in in_order(metrics):
        if name.startswith(("test/", "charts/episodic_return")):
            found += [
                _written(name, "mean" if metric(name).band else "last"),
                *([_written(name, "best")] if metric(name).better else []),
            ]
        elif name == "train/loss":
            found.append(_written(name, "last"))
        elif name.endswith("_per_second"):
            found.append(_written(name, "mean"))
    return [*found, *USUAL]


def in_order(metrics: Sequence[str]) -> list[str]:
    """Return metrics with tests first, then those of which more is better."""
    return sorted(
        set(metrics) - set(APART), key=lambda name: (not name.startswith("test/"), metric(name).better != "max", name)
    )


def measured(reader: Reader, run_ids: Sequence[int], columns: Sequence[Column]) -> Mapping[str, Mapping[int, float]]:
    """Return the number of each run in each column that has numbers, by the column's text: from summaries, at a step
    from points.
    """
    ids = list(dict.fromkeys(run_ids))
    numbers = [column for column in columns if not column.is_setting and not column.is_words]
    summed = reader.fields.values_of(ids, [column.field for column in numbers if column.step is None])
    return {
        column.written: summed[column.field]
        if column.step is None
        else reader.groups.values_at(ids, column.field.name, column.step)
        for column in numbers
    }


def told(reader: Reader, run_ids: Sequence[int], columns: Sequence[Column]) -> Mapping[str, Mapping[int, Text]]:
    """Return what each run says in each column that has words, by the column's text."""
    words = [column for column in columns if column.is_words]
    found = reader.fields.texts(list(dict.fromkeys(run_ids)), [column.field for column in words])
    return {column.written: found[column.field] for column in words}


def _written(name: str, of: str) -> str:
    return f"{name}.{of}" if "/" in name else f'metric["{name}"].{of}'
