"""The file of an exercise: Markdown for students below a head in YAML, checked line by line.

docs/exercises.md describes the format.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, get_args

import yaml

from engine.analysis.run_values import is_timed, label, split, ways
from engine.config_values import value_in_words, values_in_words
from engine.errors import SHOWN, ConfigError, Problem, UnknownName
from engine.experiment import Experiment
from engine.filter.tree import metric_written
from engine.metrics import METRICS, depends_on_time, metric
from engine.registry import experiment
from engine.store import Launch, SweepLaunch
from engine.sweep.plan import plan

MOST_BYTES = 100_000
MOST_REPEATS = 12
TIMED_REPEATS = 3
"""Runs per cell of an exercise whose figure depends on time, where its file doesn't say another number."""
KEYS = (
    *("title", "experiment", "preset", "settings", "sweep", "repeats"),
    *("change", "time_counts", "predict", "questions"),
)
_OF_PREDICT = ("kind", "of", "reaches", "low", "high", "first", "text")
MARK = "---"
PredictionKind = Literal["number", "order", "curve"]
End = Literal["lowest", "highest"]


@dataclass(frozen=True)
class PredictionTask:
    """What students predict."""

    kind: PredictionKind
    """number: one value of a single run. order: the cells of the sweep. curve: the value over the sweep's field, or a
    metric over the steps of a single run."""
    of: str
    """Name of the value as in Compare, such as `test/accuracy.best`; a metric without statistic for a curve over steps
    and with `reaches`."""
    text: str = ""
    """The question in words; empty to show the label alone."""
    reaches: float | None = None
    """A target of the metric: the value is then the time until a run reaches it."""
    low: float | None = None
    high: float | None = None
    """Bounds of a predicted value, for the form and the empty chart; None for none."""
    first: End = "lowest"
    """Which end an order begins with."""

    @property
    def metric(self) -> str:
        """The metric, without statistic."""
        found = split(self.of)
        return found[0] if found else self.of

    @property
    def label(self) -> str:
        """The value with its unit, such as `Execution time (s)`."""
        if self.reaches is None:
            return label(self.of)
        known = metric(self.metric)
        return f"Time to {known.label[:1].lower()}{known.label[1:]} {self.reaches:g} {known.unit}".strip() + " (s)"

    @property
    def unit(self) -> str:
        """The unit of the value; may be empty."""
        return metric(self.metric).unit if self.reaches is None else "s"


@dataclass(frozen=True)
class Change:
    """A setting that students may change, with its allowed values or its range; without either, the experiment's."""

    field: str
    values: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """What is allowed, such as `0.01 to 0.1`; empty for whatever the experiment allows."""
        if self.values:
            return ", ".join(map(value_in_words, self.values))
        return "" if self.low is None else f"{value_in_words(self.low)} to {value_in_words(self.high)}"


@dataclass(frozen=True)
class Exercise:
    """A checked exercise."""

    name: str
    """The name of its file, without `.md`."""
    title: str
    experiment: str
    preset: str | None
    settings: Mapping[str, Any]
    """Its fixed settings, apart from those of the preset."""
    sweep: Mapping[str, tuple[Any, ...]]
    """Values of each varied field; empty for a single run."""
    repeats: int
    """Runs per cell, with different seeds."""
    change: Mapping[str, Change]
    time_counts: bool
    """Whether its figure depends on time: its runs then have the machine to themselves."""
    predict: PredictionTask
    questions: tuple[str, ...]
    text: str = field(repr=False, default="")
    """The Markdown below the head."""
    digest: str = ""
    """SHA-256 of its file."""
    head: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The head as JSON, from which `exercise_of` makes the exercise again."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the sweep's combinations of values, in order, such as `trainers 4`; empty for a single run."""
        values = product(*self.sweep.values()) if self.sweep else ()
        return tuple(values_in_words(dict(zip(self.sweep, each, strict=True))) for each in values)

    @property
    def axis(self) -> str:
        """The field that a predicted curve is drawn over; `step` for a metric over the steps of a single run."""
        return next(iter(self.sweep), "step")

    @property
    def is_sweep(self) -> bool:
        """Whether it is launched as a sweep, rather than as one run."""
        return bool(self.sweep) or self.repeats > 1

    def settings_with(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of its runs with what a student changed, checked against what may be changed; raises
        ConfigError.
        """
        known = experiment(self.experiment)
        problems: list[Problem] = []
        changed: dict[str, Any] = {}
        for name, given in changes.items():
            try:
                changed[name] = self._allowed(known, name, given)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        return known.configure(self.preset, {**self.settings, **changed}).model_dump(mode="json")

    def _allowed(self, known: Experiment, name: str, given: Any) -> Any:
        if name not in self.change:
            allowed = f"change only {', '.join(self.change)}" if self.change else "change nothing"
            raise ConfigError.of(name, f"{name} is fixed in this exercise; got {value_in_words(given)}: {allowed}.")
        change, value = self.change[name], known.config.check_field(name, given)
        is_inside = change.low is None or change.high is None or change.low <= value <= change.high
        if not is_inside or (change.values and value not in change.values):
            raise ConfigError.of(name, f"{name} must be {change.words} in this exercise; got {value_in_words(value)}.")
        return value

    def launch(self, owner: str, attempt_id: int | None, changes: Mapping[str, Any]) -> Launch | SweepLaunch:
        """Return what an attempt launches; raises ConfigError for changes that are not allowed."""
        name = f"{self.title}, attempt {attempt_id}" if attempt_id is not None else self.title
        config = self.settings_with(changes)
        shared = Launch(self.experiment, config, owner, self.preset, name, attempt_id=attempt_id)
        if not self.is_sweep:
            return shared
        return SweepLaunch(shared, self.sweep, self.repeats, exclusive=self.time_counts)


def exercise_of(name: str, head: Mapping[str, Any], text: str = "", digest: str = "") -> Exercise:
    """Return the exercise of a head that was checked before, such as that of an attempt."""
    predict = head["predict"]
    return Exercise(
        name=name,
        title=head["title"],
        experiment=head["experiment"],
        preset=head.get("preset"),
        settings=head.get("settings") or {},
        sweep={field: tuple(values) for field, values in (head.get("sweep") or {}).items()},
        repeats=head.get("repeats") or (TIMED_REPEATS if head.get("time_counts") else 1),
        change={field: _change(field, given) for field, given in (head.get("change") or {}).items()},
        time_counts=bool(head.get("time_counts")),
        predict=PredictionTask(**{key: predict[key] for key in _OF_PREDICT if predict.get(key) is not None}),
        questions=tuple(head["questions"]),
        text=text,
        digest=digest,
        head=head,
    )


def _change(name: str, given: Any) -> Change:
    """Return a change from its text: a list of values, `0.01..0.1`, or nothing for what the experiment allows."""
    if isinstance(given, list):
        return Change(name, tuple(given))
    if given is None:
        return Change(name)
    low, _, high = str(given).partition("..")
    return Change(name, low=float(low), high=float(high))


# ---- Reading a file: every problem with its line, its rule and its cure --------------------------------------------


def read(content: bytes, name: str) -> Exercise:
    """Return the exercise in a file; raises ConfigError with a problem for each error, which begins with its line."""
    if len(content) > MOST_BYTES:
        raise _at(1, f"The file must have at most {MOST_BYTES:,} bytes, got {len(content):,}. Shorten its text.")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _at(line, "The file must be text in UTF-8, got another byte. Save it as UTF-8.") from None
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == MARK), None)
    if lines[0].rstrip() != MARK or end is None:
        raise _at(
            1, f"The file must begin with a head between two lines of {MARK}. Copy the one of a shipped exercise."
        )
    head, key_lines = _head("\n".join(lines[1:end]))
    found = _Check(head, key_lines)
    found.run("\n".join(lines[end + 1 :]).strip(), end + 2)
    if found.problems:
        raise ConfigError(
            Problem(key, f"Line {line}: {sentence}") for line, key, sentence in sorted(dict.fromkeys(found.problems))
        )
    digest = hashlib.sha256(content).hexdigest()
    return exercise_of(name, json.loads(json.dumps(head)), "\n".join(lines[end + 1 :]).strip(), digest)


def _at(line: int, sentence: str) -> ConfigError:
    return ConfigError.of("", f"Line {line}: {sentence}")


def _head(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the head, and the line of the file of each key and of each key within it (`sweep.trainers`)."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise _at(2, "The head must not refer to other parts by * and &. Write the values out.")
        node, head = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
        json.dumps(head)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        why = getattr(error, "problem", None) or "it can't be read"
        raise _at(
            (mark.line if mark else 0) + 2,
            f"The head must be YAML, got an error: {why}. Write key: value, indent with spaces, and put quotes around "
            "a text with a colon.",
        ) from None
    except (TypeError, ValueError, RecursionError):
        raise _at(2, "The head must have only text, numbers, lists and keys. Put quotes around a date.") from None
    if not isinstance(head, dict) or not isinstance(node, yaml.MappingNode):
        raise _at(2, f"The head must have keys with values, such as title: My exercise; got {str(head)[:SHOWN]}.")
    return {str(key): value for key, value in head.items()}, dict(_lines(node))


def _lines(node: yaml.MappingNode, before: str = "") -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        yield f"{before}{key.value}", key.start_mark.line + 2
        if isinstance(value, yaml.MappingNode) and not before:
            yield from _lines(value, f"{key.value}.")


class _Check:
    """The checks of one head; `problems` are its line, key and sentence."""

    def __init__(self, head: dict[str, Any], lines: Mapping[str, int]) -> None:
        self.head, self.lines = head, lines
        self.problems: list[tuple[int, str, str]] = []

    def add(self, key: str, sentence: str) -> None:
        """Note a problem of a key, or of one within it (`sweep.trainers`)."""
        line = self.lines.get(key) or self.lines.get(key.partition(".")[0], 1)
        self.problems.append((line, key, sentence))

    @contextmanager
    def at(self, key: str, *others: str) -> Iterator[None]:
        """Note the errors of a block at the key of their field: within `key` or another one that has it, else `key`."""
        try:
            yield
        except ConfigError as error:
            for problem in error.problems:
                within = (f"{each}.{problem.field}" for each in (key, *others))
                self.add(next((each for each in within if each in self.lines), key), f"{key}: {problem.sentence}")

    def run(self, text: str, text_line: int) -> None:
        """Check everything: keys and kinds of values first, then what the experiment says of them."""
        for key in self.head:
            if key not in KEYS:
                with self.at(key):
                    raise UnknownName("key", key[:SHOWN], KEYS)
        self._kind("title", str, "a text", needed=True)
        self._kind("experiment", str, "the name of an experiment", needed=True)
        self._kind("preset", str, "the name of a preset")
        for key in ("settings", "sweep", "change"):
            self._kind(key, dict, "settings, each on a line of its own as name: value")
        self._kind("time_counts", bool, "yes or no")
        self._kind("predict", dict, "kind and of, each on a line of its own", needed=True)
        self._kind("questions", list, "a list of questions, each on a line that begins with -", needed=True)
        questions = self.head.get("questions") or []
        if not isinstance(questions, list) or not all(isinstance(each, str) and each.strip() for each in questions):
            self.add("questions", "questions must be texts. Put quotes around one that has a colon.")
        repeats = self.head.get("repeats")
        if repeats is not None and (type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS):
            self.add("repeats", f"repeats must be a whole number from 1 to {MOST_REPEATS}, got {repeats!r}.")
        if not text:
            self.problems.append((text_line, "", "The text for students is missing. Write it below the second ---."))
        if not self.problems:
            self._experiment()

    def _kind(self, key: str, kind: type, words: str, *, needed: bool = False) -> None:
        value = self.head.get(key)
        if value is None or (needed and not value):
            if needed:
                self.add(key, f"{key} is missing. Give {words}.")
        elif not isinstance(value, kind):
            self.add(key, f"{key} must be {words}; got {str(value)[:SHOWN]}.")

    def _experiment(self) -> None:
        known: Experiment | None = None
        with self.at("experiment"):
            known = experiment(self.head["experiment"])
        if known is None:
            return
        preset = self.head.get("preset")
        with self.at("preset"):
            known.configure(preset)
        if self.problems:
            return
        for name in self.head.get("change") or {}:
            self._change(known, str(name))
        self._predict()
        if not self.problems:
            self._launch()

    def _change(self, known: Experiment, name: str) -> None:
        key, given = f"change.{name}", self.head["change"][name]
        with self.at("change"):
            known.config.check_field(
                name, known.config.model_fields[name].default if name in known.config.model_fields else None
            )
            if name in (self.head.get("sweep") or {}):
                raise ConfigError.of(name, f"{name} is varied by the sweep. Leave it out here, or there.")
            bounds = str(given).split("..") if not isinstance(given, list) and given is not None else given or []
            if not isinstance(given, list) and given is not None and len(bounds) != 2:
                raise ConfigError.of(
                    name, f"{name} must have a list of values, or a range such as 0.01..0.1; got {given}."
                )
            for bound in bounds:
                known.config.check_field(name, bound)
            if isinstance(given, str) and not float(bounds[0]) < float(bounds[1]):
                raise ConfigError.of(name, f"{name}: a range must be ascending, got {given}.")
        del key

    def _predict(self) -> None:
        predict = self.head["predict"]
        for name in predict:
            if name not in _OF_PREDICT:
                with self.at("predict"):
                    raise UnknownName("key of predict", str(name), _OF_PREDICT, field=str(name))
        kind, of = predict.get("kind"), predict.get("of")
        if kind not in get_args(PredictionKind):
            self.add("predict.kind", f"predict: kind must be {', '.join(get_args(PredictionKind))}; got {kind}.")
        if predict.get("first", "lowest") not in get_args(End):
            self.add("predict.first", f"predict: first must be lowest or highest; got {predict['first']}.")
        for bound in ("low", "high", "reaches"):
            value = predict.get(bound)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                self.add(f"predict.{bound}", f"predict: {bound} must be a number; got {value}.")
        if not isinstance(of, str):
            self.add("predict.of", "predict: of is missing. Give the name of a value, such as test/accuracy.last.")
        if not self.problems:
            self._value(of, predict)

    def _value(self, of: str, predict: Mapping[str, Any]) -> None:
        sweep, found = self.head.get("sweep") or {}, split(of)
        over_steps = predict["kind"] == "curve" and not sweep
        whole = over_steps or predict.get("reaches") is not None
        name = of if whole else found[0] if found else of
        if metric(name).label == name and name not in METRICS:
            with self.at("predict"):
                raise UnknownName("metric", name, METRICS, field="of")
        if not whole and (found is None or found[1] not in ways(name)):
            choices = ", ".join(metric_written(name, way) for way in ways(name))
            self.add("predict.of", f"predict: of must name a statistic of {name}: {choices}; got {of}.")
        if predict["kind"] == "order" and not sweep:
            self.add(
                "predict.kind",
                "predict: an order needs a sweep, whose cells are ordered. Add sweep, or predict a number.",
            )
        if predict["kind"] == "number" and sweep:
            self.add(
                "predict.kind",
                "predict: a number is that of a single run. Leave out sweep, or predict a curve or an order.",
            )
        if predict["kind"] == "curve" and len(sweep) > 1:
            self.add(
                "predict.kind", f"predict: a curve is drawn over one field, got {', '.join(sweep)}. Predict an order."
            )
        is_late = is_timed(of) or predict.get("reaches") is not None or (whole and depends_on_time(name))
        if is_late and not self.head.get("time_counts"):
            self.add(
                "predict.of",
                f"predict: {of} depends on time. Add time_counts: yes: its runs then have the machine to themselves.",
            )

    def _launch(self) -> None:
        """Check the settings, alone and as a sweep with each change at both ends."""
        try:
            found = exercise_of("", self.head)
        except (TypeError, ValueError) as error:
            self.add("change", f"The head can't be read: {error}. Compare it with a shipped exercise.")
            return
        with self.at("settings", "sweep", "change"):
            asked = found.launch("owner", None, {})
            if isinstance(asked, SweepLaunch):
                plan(asked)


Reading = Callable[[bytes, str], Exercise]
