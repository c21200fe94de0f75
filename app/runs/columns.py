"""The columns available in a results table, written as in the filter language: `trainers`, `test/accuracy.best`,
`train/loss@500`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from engine.access.quotas import disturbed_above
from engine.analysis.run_values import metric_among, setting_title, telling
from engine.errors import FilterError
from engine.filter import RUN_FIELDS, Field, Names, read_field
from engine.filter.tree import metric_quoted, metric_written, setting_quoted
from engine.metrics import EPISODES, LAST_EPISODES, Metric, depends_on_time, metric
from engine.registry import is_setting, known_experiment
from engine.store import Reader
from engine.store.records import RunRow
from engine.store.runs.details import Text

NUMBERS = ("duration", "waited", "startup", "ranks", "cores", "gpus")
"""Numeric fields of a run besides metrics and settings; the other fields are text."""
SHOWN_OF = ("last", "best", "mean", "min", "max")
APART = ("perf/execution_time_s", "perf/startup_time_s")
"""Metrics stored as a field of each run."""
USUAL = ("dataset", "trainers", "epochs", "batch_size", "learning_rate", "seed")
MOST_RESULTS = 3
"""Up to this many default columns are metrics of another program."""
LEAST_FOREIGN = 2
"""Default columns that metrics, and parameters, of other programs have beside those of our runs."""
APART_BY = " · "
TIMES = ("duration", "waited", "startup")
LABELS = {"duration": "Execution", "startup": "Start-up", "target": "Runs on", "origin": "From"}
_AT_STEP = re.compile(r"(.+)@\s*(\d{1,15})\s*")


@dataclass(frozen=True)
class Column:
    """One column: a field of runs, or a metric at a step."""

    written: str
    field: Field
    step: int | None = None
    shown: Metric | None = None
    """Its metric with the unit that people have set for the runs in the table; None without one."""

    @property
    def metric(self) -> Metric:
        """The metric that it is of."""
        return self.shown or metric(self.field.name)

    @property
    def is_setting(self) -> bool:
        return self.field.source == "config"

    @property
    def is_words(self) -> bool:
        """Whether the column holds text, tags, times, flags or ids, which have no mean."""
        return self.field.source == "run" and self.field.name not in NUMBERS

    @property
    def is_timed(self) -> bool:
        """Whether its numbers depend on what else runs on the machine."""
        if self.field.source == "metric":
            return depends_on_time(self.field.name)
        return self.field.source == "run" and self.field.name in TIMES

    @property
    def unit(self) -> str:
        """The unit of its numbers; empty without one."""
        if self.field.source == "metric":
            return "" if self.field.of == "count" else self.metric.unit
        return "s" if self.field.kind == "seconds" and not self.is_setting else ""

    @property
    def label(self) -> str:
        """The column heading."""
        if self.field.source != "metric":
            if self.is_setting:
                return setting_title(self.field.name)
            name = LABELS.get(self.field.name, self.field.name.capitalize())
            return f"{name} (s)" if self.field.kind == "seconds" else name
        known = self.metric
        unit = f" ({known.unit})" if known.unit else ""
        is_whole = (known.is_rate and self.field.of != "count") or (known.so_far and self.field.of == "last")
        if is_whole and self.step is None:
            return f"{known.label}{unit}"
        return f"{known.label}, {self.field.of if self.step is None else f'step {self.step:,}'}{unit}"

    @property
    def help(self) -> str:
        """The help text."""
        if self.field.source == "metric":
            at = "Last value at or before this step; empty if a run stopped earlier. " if self.step is not None else ""
            return f"{at}{metric(self.field.name).help}"
        return "" if self.is_setting else RUN_FIELDS[self.field.name][1].capitalize() + "."


def read_column(text: str, names: Names) -> Column:
    """Parse a column; raises FilterError."""
    if found := _AT_STEP.fullmatch(text):
        field = read_field(found[1], names)
        of_name = names.metric(field.name)
        if field.source == "config" and isinstance(of_name, Field):
            field = of_name
        if field.source != "metric":
            raise FilterError(
                f"Only metrics have a value at a step; {field.written} is not a metric. Write it without @{found[2]}.",
                0,
                len(text),
            )
        return Column(f"{metric_written(field.name)}@{int(found[2])}", field, int(found[2]))
    field = read_field(text, names)
    return Column(field.name if field.source == "run" else text.strip(), field)


def read_columns(texts: Sequence[str], reader: Reader) -> tuple[list[Column], list[str]]:
    """Return the valid columns, and an error message for each invalid one."""
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
            sentences.append(f"Column {text[:60]} was ignored. {error}")
    return columns, sentences


def with_units(columns: Sequence[Column], runs: Sequence[RunRow]) -> list[Column]:
    """Return the columns with the units that people have set for metrics of these runs."""
    return [
        replace(column, shown=metric_among(column.field.name, runs)) if column.field.source == "metric" else column
        for column in columns
    ]


def parameters(settings: Iterable[str]) -> list[str]:
    """Return the settings that only runs of other programs have, as columns. Shorter ones first, so that a name comes
    before those that contain it.
    """
    foreign = sorted((name for name in settings if not is_setting(name)), key=lambda name: (len(name), name))
    return [Field("config", name, "any").written for name in foreign]


def choices(metrics: Sequence[str], settings: Iterable[str]) -> list[str]:
    """Return the columns to choose from: parameters of other programs, the usual statistics of each metric, then
    numeric run fields, other run fields, and settings.
    """
    values = [
        metric_written(name, of)
        for name in in_order(metrics)
        for of in (("last",) if metric(name).is_rate or metric(name).so_far else SHOWN_OF)
        if of != "best" or metric(name).better
    ]
    fields = [*NUMBERS, *(name for name in RUN_FIELDS if name not in NUMBERS)]
    return [*parameters(settings), *values, *fields, *Names.usual().settings]


def named(written: str) -> str:
    """Return a column to choose by its label, and how it is written where that differs."""
    try:
        quoted = metric_quoted(written)
        column = read_column(written, Names.usual() | Names({}, frozenset(quoted[:1] if quoted else ()), frozenset()))
    except FilterError:
        return setting_quoted(written) or written
    label = column.label
    return label if label.lower() == written else f"{label}{APART_BY}{written}"


def usual(recorded: Mapping[str, Mapping[str, int]], settings: Mapping[str, int]) -> list[str]:
    """Return the default columns for runs of experiments with these metrics (with the most values of each in one curve)
    and settings (with their number of different values): execution time, tests and rewards with their best, loss,
    throughput, and common settings. Results and parameters of other programs take the place of those that are missing.

    Noisy metrics (episode rewards) appear with their mean, all others with their last value.
    """
    metrics = {name for own in recorded.values() for name in own}
    found = ["duration"]
    left_out = {EPISODES} if LAST_EPISODES in metrics else set()
    for name in in_order(metrics - left_out):
        if name.startswith(("test/", "charts/episodic_return")):
            found += [
                metric_written(name, "mean" if metric(name).band else "last"),
                *([metric_written(name, "best")] if metric(name).better else []),
            ]
        elif name == "train/loss" or metric(name).is_rate:
            found.append(metric_written(name, "last"))
    others = [_telling_first(own) for experiment, own in recorded.items() if not known_experiment(experiment)]
    if len(others) > 1:  # of each its result, and what several of them have
        counts = Counter(name for own in others for name in own)
        others = [[name for place, name in enumerate(own) if not place or counts[name] > 1] for own in others]
    results = [metric_written(name, "last") for several in zip_longest(*others) for name in several if name]
    results = [written for written in dict.fromkeys(results) if written not in found]
    found += results[: max(LEAST_FOREIGN, 1 + MOST_RESULTS - len(found))]
    common = [name for name in USUAL if name in settings]
    varied = [name for name, values in settings.items() if values > 1]
    return [*found, *common, *parameters(varied)[: max(LEAST_FOREIGN, len(USUAL) - len(common))]]


def _telling_first(metrics: Mapping[str, int]) -> list[str]:
    """Return those metrics of another program that tell how a run went; all of them where none does."""
    return telling(metrics, {name for name, most in metrics.items() if most <= 1}) or in_order(metrics)


def in_order(metrics: Collection[str]) -> list[str]:
    """Return metrics with tests first, then those where higher is better."""
    return sorted(
        set(metrics) - set(APART), key=lambda name: (not name.startswith("test/"), metric(name).better != "max", name)
    )


def measured(reader: Reader, run_ids: Sequence[int], columns: Sequence[Column]) -> Mapping[str, Mapping[int, float]]:
    """Return the number of each run in each numeric column, by column text: from summaries or, at a step, from
    points.
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


def disturbed(reader: Reader, run_ids: Sequence[int]) -> frozenset[int]:
    """Return which of the runs are disturbed, so that means and differences of times leave them out."""
    shares = measured(reader, run_ids, [read_column("perf/disturbance.last", Names.usual())])
    above = 100 * disturbed_above(reader.db.home)
    return frozenset(run_id for values in shares.values() for run_id, share in values.items() if share > above)


def texts(reader: Reader, run_ids: Sequence[int], columns: Sequence[Column]) -> Mapping[str, Mapping[int, Text]]:
    """Return the value of each run in each text column, by column text."""
    words = [column for column in columns if column.is_words]
    found = reader.fields.texts(list(dict.fromkeys(run_ids)), [column.field for column in words])
    return {column.written: found[column.field] for column in words}
