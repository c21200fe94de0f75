"""The file of an exercise: Markdown for students below a head in YAML (docs/exercises.md), checked line by line."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from engine.analysis.run_values import is_timed, split, ways
from engine.config import Config
from engine.config_values import value_in_words, values_in_words
from engine.errors import SHOWN, ConfigError, Problem, UnknownName
from engine.filter.tree import metric_written
from engine.metrics import METRICS, depends_on_time, metric
from engine.registry import experiment
from engine.store import Launch, SweepLaunch
from engine.sweep.plan import plan

MOST_BYTES = 100_000
MOST_DEPTH = 5
TIMED_REPEATS = 3
"""Runs per cell of an exercise whose figure depends on time, where its file doesn't say another number."""
PROGRESS = "progress"
MARK = "---"
SEE = "docs/exercises.md has a table of all keys."
Text = Annotated[str, Field(min_length=1, max_length=500)]
_Values = Annotated[tuple[Any, ...], Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PredictionTask(_Part):
    """What students predict."""

    kind: Literal["number", "order", "curve"]
    """number: one value of a single run, or with `relative` of the sweep's last cell. order: the cells of the sweep.
    curve: the value over the sweep's field."""
    of: Text
    """Name of the value as in Compare, such as `test/accuracy.best`; a metric without statistic with `reaches`; or
    `progress`, the share of its work that a run has done (%)."""
    rank: Annotated[int, Field(ge=0)] | None = None
    """The rank whose value it is; None for the run's, or the mean over its ranks."""
    relative: bool = False
    """Whether values are divided by that of the sweep's first cell."""
    text: str = ""
    """The question in words; may be empty."""
    reaches: float | None = None
    """A target of the metric: the value is then the time until a run reaches it."""
    low: float | None = None
    high: float | None = None
    """Bounds of a predicted value, for the form and the empty chart; None for none."""
    first: Literal["lowest", "highest"] = "lowest"
    """Which end an order begins with."""

    @property
    def metric(self) -> str:
        """The metric, without statistic."""
        found = split(self.of)
        return found[0] if found else self.of

    @property
    def label(self) -> str:
        """The value with its unit, such as `Execution time (s)`."""
        known = metric(self.metric)
        words = "Progress" if self.of == PROGRESS else known.label
        if self.reaches is not None:
            words = " ".join(f"Time to {known.label.lower()} {self.reaches:g} {known.unit}".split())
        elif (found := split(self.of)) and not known.is_single:
            words = f"{words}, {found[1]}"
        return f"{words} ({self.unit})" if self.unit else words

    @property
    def unit(self) -> str:
        """The unit of the value; may be empty."""
        if self.relative:
            return "times that of the first"
        return "s" if self.reaches is not None else "%" if self.of == PROGRESS else metric(self.metric).unit

    @property
    def is_whole_metric(self) -> bool:
        """Whether `of` names a metric without statistic."""
        return split(self.of) is None

    @property
    def is_timed(self) -> bool:
        """Whether the value depends on what else runs on the machine."""
        return self.reaches is not None or is_timed(self.of) or depends_on_time(self.of)


class Change(_Part):
    """A setting that students may change, to some values or within a range; without either as the experiment allows."""

    values: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, given: Any) -> Any:
        """Take the forms of the file: a list, `0.01..0.1`, or nothing."""
        if isinstance(given, str):
            low, _, high = given.partition("..")
            return {"low": low, "high": high}
        return {"values": given} if isinstance(given, list) else given or {}

    @property
    def bounds(self) -> tuple[Any, ...]:
        """The allowed values, or the two ends of the range."""
        return self.values or tuple(each for each in (self.low, self.high) if each is not None)

    @property
    def words(self) -> str:
        """What is allowed, such as `0.01 to 0.1`; empty for whatever the experiment allows."""
        return (", " if self.values else " to ").join(map(value_in_words, self.bounds))

    def allows(self, value: Any) -> bool:
        """Return whether a checked value of the setting is allowed."""
        if self.values:
            return value in self.values
        return self.low is None or self.high is None or self.low <= value <= self.high


class Exercise(_Part):
    """A checked exercise: the keys of its head, with the name and text of its file."""

    title: Text
    experiment: Text
    preset: Text | None = None
    settings: dict[str, Any] = {}
    """Its fixed settings, apart from those of the preset."""
    sweep: dict[str, _Values] = {}
    """Values of each varied field; empty for a single run."""
    repeats: Annotated[int, Field(ge=1, le=12)] = 1
    """Runs per cell, with different seeds."""
    equal_work: bool = False
    """Whether all cells do the total work of the settings, for which their lengths differ."""
    change: dict[str, Change] = {}
    minutes: Annotated[int, Field(ge=1)] | None = None
    """What its runs take on two idle cores, about."""
    time_counts: bool = False
    """Whether its figure depends on time: its runs then have the machine to themselves."""
    predict: PredictionTask
    questions: Annotated[tuple[Text, ...], Field(min_length=1, max_length=10)]
    name: str = Field("", exclude=True)
    """The name of its file, without `.md`."""
    text: str = Field("", exclude=True, repr=False)
    """The Markdown below the head."""
    digest: str = Field("", exclude=True)
    """SHA-256 of its file."""

    @field_validator("settings", "sweep", "change", mode="before")
    @classmethod
    def _empty(cls, given: Any) -> Any:
        return {} if given is None else given

    @property
    def head(self) -> dict[str, Any]:
        """The head as JSON, from which `exercise_of` makes the exercise again."""
        return self.model_dump(mode="json", exclude_unset=True)

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the sweep's combinations of values, in order, such as `trainers 4`; empty for a single run."""
        values = product(*self.sweep.values()) if self.sweep else ()
        return tuple(values_in_words(dict(zip(self.sweep, each, strict=True))) for each in values)

    @property
    def axis(self) -> str:
        """The first field of the sweep, over which a curve is drawn; empty without a sweep."""
        return next(iter(self.sweep), "")

    def settings_with(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of its runs with what a student changed; raises ConfigError for what is not allowed."""
        known, changed, problems = experiment(self.experiment), dict[str, Any](), list[Problem]()
        for name, given in changes.items():
            if name not in self.change:
                allowed = f"change only {', '.join(self.change)}" if self.change else "change nothing"
                problems.append(Problem(name, f"{name} is fixed in this exercise, got {given}: {allowed}."))
                continue
            try:
                changed[name] = known.config.check_field(name, given)
            except ConfigError as error:
                problems += error.problems
                continue
            if not (allows := self.change[name]).allows(changed[name]):
                problems.append(Problem(name, f"{name} must be {allows.words} in this exercise, got {given}."))
        if problems:
            raise ConfigError(problems)
        return known.configure(self.preset, {**self.settings, **changed}).model_dump(mode="json")

    def launch(
        self, owner: str, attempt_id: int | None, changes: Mapping[str, Any], *, number: int = 1
    ) -> Launch | SweepLaunch:
        """Return what an attempt launches, `number` among those of its person; raises ConfigError for changes that are
        not allowed.
        """
        name = self.title if attempt_id is None else f"{self.title}, attempt {number}"
        config = self.settings_with(changes)
        shared = Launch(self.experiment, config, owner, self.preset, name, attempt_id=attempt_id)
        if not self.sweep and self.repeats == 1:
            return shared
        return SweepLaunch(shared, self.sweep, self.repeats, exclusive=self.time_counts, equal_work=self.equal_work)


def exercise_of(name: str, head: Mapping[str, Any], text: str = "", digest: str = "") -> Exercise:
    """Return the exercise of a head, such as that of an attempt; raises ValidationError."""
    repeats = {"repeats": TIMED_REPEATS} if head.get("time_counts") is True else {}
    return Exercise.model_validate({**repeats, **head, "name": name, "text": text, "digest": digest})


# ---- Reading a file: every problem with its line, its rule and its cure --------------------------------------------


def read(content: bytes, name: str) -> Exercise:
    """Return the exercise in a file; raises ConfigError with a problem for each error, which begins with its line."""
    if len(content) > MOST_BYTES:
        raise _at(1, f"The file must have at most {MOST_BYTES:,} bytes, got {len(content):,}. Shorten its text.")
    try:
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _at(line, "The file must be text in UTF-8, got another byte. Save it as UTF-8.") from None
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == MARK), 0)
    if lines[0].rstrip() != MARK or not end:
        raise _at(1, f"The file must begin with a head between two lines of {MARK}, got '{lines[0][:SHOWN]}'. {SEE}")
    head, key_lines = _head("\n".join(lines[1:end]))
    text = "\n".join(lines[end + 1 :]).strip()
    exercise, found = None, list[tuple[str, str]]()
    try:
        exercise = exercise_of(name, head, text, hashlib.sha256(content).hexdigest())
        found += _broken_rules(exercise)
    except ValidationError as error:
        shapes = dict(_in_words(item) for item in error.errors())
        found += [(key, each) for key, each in shapes.items() if not any(one.startswith(f"{key}.") for one in shapes)]
    if not text:
        found.append((MARK, "The text for students is missing. Write it below the second line of ---."))
    if found or exercise is None:
        placed = sorted((_line_of(key, key_lines, end + 1), key, sentence) for key, sentence in dict.fromkeys(found))
        raise ConfigError(Problem(key, f"Line {line}: {sentence}") for line, key, sentence in placed)
    return exercise


def _at(line: int, sentence: str) -> ConfigError:
    return ConfigError.of("", f"Line {line}: {sentence}")


def _head(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the head, and the line in the file of each key and of each key within it (`sweep.trainers`)."""
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > MOST_DEPTH:
                what = f"refer to other parts by *, or have more than {MOST_DEPTH} levels"
                raise _at(_line(event.start_mark), f"The head must not {what}. Write the values out.")
        node, head = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
        json.dumps(head)
    except yaml.YAMLError as error:
        line, why = _line(getattr(error, "problem_mark", None)), getattr(error, "problem", None) or "it can't be read"
        cure = "Write key: value, indent with spaces, and put quotes around a text with a colon."
        raise _at(line, f"The head must be YAML, got an error: {why}. {cure}") from None
    except (TypeError, ValueError, RecursionError):
        raise _at(2, "The head must have only text, numbers and lists. Put quotes around a date.") from None
    if not isinstance(node, yaml.MappingNode):
        raise _at(2, f"The head must have keys with values, such as title: My exercise; got {str(head)[:SHOWN]}.")
    return {str(key): value for key, value in head.items()}, dict(_lines(node))


def _line(mark: Any) -> int:
    """Return the line in the file of a mark of the head, None for its begin."""
    return (mark.line if mark else 0) + 2


def _lines(node: yaml.MappingNode, before: str = "") -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        yield f"{before}{key.value}", _line(key.start_mark)
        if isinstance(value, yaml.MappingNode) and not before:
            yield from _lines(value, f"{key.value}.")


def _line_of(key: str, lines: Mapping[str, int], end: int) -> int:
    """Return the line of a key, else of the key that it belongs to, else of the end of the head."""
    return lines.get(".".join(key.split(".")[:2])) or lines.get(key.partition(".")[0], end)


def _in_words(item: Any) -> tuple[str, str]:
    """Return the key of an error of the head's shape, and its sentence."""
    key, kind = ".".join(map(str, item["loc"])), item["type"]
    if kind == "missing":
        return key, f"{key} is missing. {SEE}"
    if kind == "extra_forbidden":
        known = PredictionTask.model_fields if key.startswith("predict.") else [*Exercise.model_fields][:-3]
        return key, str(UnknownName("key", key.removeprefix("predict."), known))
    rule = item["msg"].replace("Input should", "must")
    if kind == "too_short":
        rule = f"must have at least {item['ctx']['min_length']} entry"
    cure = "Put quotes around a text with a colon." if kind == "string_type" else SEE
    return key, f"{key} {rule[:1].lower()}{rule[1:]}, got {str(item['input'])[:SHOWN]}. {cure}"


def _broken_rules(exercise: Exercise) -> Iterator[tuple[str, str]]:
    """Yield the key and the sentence of each error that the experiment knows of, or that is between keys."""
    try:
        known = experiment(exercise.experiment)
        known.configure(exercise.preset)
    except ConfigError as error:
        yield "experiment" if "experiment" in str(error) else "preset", str(error)
        return
    yield from _broken_changes(exercise, known.config)
    yield from _broken_prediction(exercise)
    try:
        asked = exercise.launch("owner", None, {})
        if isinstance(asked, SweepLaunch):
            plan(asked)
    except ConfigError as error:
        for problem in error.problems:
            key = next((key for key in ("sweep", "settings") if problem.field in getattr(exercise, key)), "settings")
            yield f"{key}.{problem.field}", f"{key}: {problem.sentence}"


def _broken_changes(exercise: Exercise, config: type[Config]) -> Iterator[tuple[str, str]]:
    for name, change in exercise.change.items():
        if name in exercise.sweep:
            yield f"change.{name}", f"{name} is varied by the sweep, so students can't change it. Leave it out here."
        if change.low is not None and not (change.high is not None and change.low < change.high):
            yield f"change.{name}", f"{name} must be an ascending range such as 0.01..0.1, got {change.words}."
        if name not in config.model_fields:
            yield f"change.{name}", str(UnknownName("setting", name, config.model_fields))
            continue
        for value in change.bounds:
            try:
                if (checked := config.check_field(name, value)) != value:
                    yield f"change.{name}", f"{name} must be written as {value_in_words(checked)}, got '{value}'."
            except ConfigError as error:
                yield f"change.{name}", f"change: {error}"


def _broken_prediction(exercise: Exercise) -> Iterator[tuple[str, str]]:
    asked, sweep = exercise.predict, exercise.sweep
    name, known = asked.metric, metric(asked.metric)
    if asked.of != PROGRESS and known.label == name and name not in METRICS:
        yield "predict.of", str(UnknownName("metric", name, METRICS))
        return
    needs_whole = asked.reaches is not None or asked.of == PROGRESS
    if needs_whole != asked.is_whole_metric or (not needs_whole and not asked.of.endswith(ways(name))):
        choices = name if needs_whole else ", ".join(metric_written(name, way) for way in ways(name))
        yield "predict.of", f"predict.of must be one of {choices} here, got {asked.of}."
    if asked.kind == "order" and not sweep:
        yield "predict.kind", "An order is that of a sweep's cells, got no sweep. Add sweep, or predict a number."
    if asked.kind == "number" and bool(sweep) != asked.relative:
        yield (
            "predict.kind",
            "A number is that of a single run, or relative: yes of a sweep. Add or leave out relative.",
        )
    if asked.kind == "curve" and len(sweep) != 1:
        got = ", ".join(sweep) or "no sweep"
        yield "predict.kind", f"A curve is drawn over one field of a sweep, got {got}. Predict an order or a number."
    if asked.kind == "curve" and not (asked.low is not None and asked.high is not None and asked.low < asked.high):
        yield "predict.low", "A curve is drawn on a chart from low to high. Add both, low below high."
    if asked.is_timed and not exercise.time_counts:
        yield (
            "predict.of",
            f"{asked.of} depends on time. Add time_counts: yes: runs then have the machine to themselves.",
        )
