"""The tree of a filter. Conditions are two-valued: a condition on a missing value is false."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from difflib import get_close_matches
from functools import cache
from keyword import iskeyword
from typing import Literal

from engine.errors import ConfigError
from engine.launch_options import HERE
from engine.metrics import METRICS, metric
from engine.registry import EXPERIMENTS, experiments

Kind = Literal["text", "tags", "number", "seconds", "time", "flag", "any"]
"""Type of a field; `any`: a setting whose type depends on the experiment."""
Op = Literal["==", "<", "<=", ">", ">=", "in", "contains"]
Of = Literal["last", "best", "mean", "min", "max", "count"]
OF: tuple[Of, ...] = ("last", "best", "mean", "min", "max", "count")
"""Which value of a metric, from its summary, as in the results table."""


RUN_FIELDS: dict[str, tuple[Kind, str]] = {
    "id": ("number", "id of the run"),
    "experiment": ("text", "name of the method, such as hogwild"),
    "preset": ("text", "preset of its config"),
    "name": ("text", "name of the run"),
    "owner": ("text", "person who launched it"),
    "via": ("text", "agent that launched or reported it for its owner"),
    "status": ("text", "queued, starting, running, stopping, finished, failed, cancelled or lost"),
    "cause": ("text", "reason for its end"),
    "note": ("text", "note of the run"),
    "tags": ("tags", "tags of the run"),
    "sweep": ("number", "id of its sweep"),
    "resumes": ("number", "id of the run that it resumes"),
    "retry_of": ("number", "id of the run that it repeats from the start"),
    "clone_of": ("number", "id of the run that it is a clone of"),
    "origin": ("text", 'the run that it came of, such as "clone of 13", "retry of 13" or "resumes 13"'),
    "created": ("time", "time of queueing"),
    "started": ("time", "time when all ranks were ready"),
    "ended": ("time", "time of its end"),
    "duration": (
        "seconds",
        "execution time: from all ranks ready to all ranks done, or until a run that did not finish ended",
    ),
    "waited": ("seconds", "time in the queue, from its launch to its start or, while it is queued, until now"),
    "startup": ("seconds", "start-up time"),
    "cores": ("number", "requested CPU cores"),
    "gpus": ("number", "requested GPUs"),
    "ranks": ("number", "number of processes"),
    "target": ("text", f"cluster that it runs on, or {HERE}"),
    "seeding": ("number", "rule of its random numbers: 1 seed + rank, 2 streams"),
    "source": ("text", "where it was recorded: here, reported, bundle, tensorboard or mlflow"),
    "imported": ("flag", "it was imported: from a bundle, TensorBoard or MLflow"),
    "starred": ("flag", "it is starred"),
    "pinned": ("flag", "it is its experiment's baseline"),
    "archived": ("flag", "it is archived"),
}
"""Fields of every run: type and description. A setting of the same name is written `config.NAME`."""
TIMES_OF_RUNS = ("created", "started", "ended")
SAME = {
    "run": "id",
    "tag": "tags",
    "execution_time_s": "duration",
    "startup_time_s": "startup",
    "waited_s": "waited",
    **{f"{name}_at": name for name in TIMES_OF_RUNS},
}
"""Aliases, among them the names in answers of the API."""
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:/[A-Za-z_]\w*)+", re.ASCII)
WORDS = {"and", "or", "not", "in", "is", "contains"}
TEXT = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*')"""
_QUOTED = re.compile(rf"metric\[((?:{TEXT}| )+)\](?:\.(\w+))?")


def quoted(text: str) -> str:
    """Return a text as it is written in a filter; of both kinds of quotes, the double ones are doubled."""
    return f"'{text}'" if '"' in text and "'" not in text else '"' + text.replace('"', '""') + '"'


def metric_written(name: str, of: str = "") -> str:
    """Return a metric, or one of its values, as it is written in filters, columns and addresses: `test/accuracy.best`,
    and `metric["loss"].min` for a name that could be a setting's or is more than words and slashes.
    """
    is_plain = _PLAIN.fullmatch(name) and not any(iskeyword(word) or word.lower() in WORDS for word in name.split("/"))
    return (name if is_plain else f"metric[{quoted(name)}]") + (f".{of}" if of else "")


def metric_quoted(text: str) -> tuple[str, str] | None:
    """Return the name and the value of a text such as `metric["loss"].min`; None for another text."""
    if (found := _QUOTED.fullmatch(text)) is None:
        return None
    parts = re.findall(TEXT, found[1])
    return "".join(part[1:-1].replace(2 * part[0], part[0]) for part in parts), found[2] or ""


def setting_quoted(text: str) -> str | None:
    """Return the name of a text such as `config["warmup steps"]`; None for another text."""
    found = metric_quoted(text.replace("config", "metric", 1)) if text.startswith("config[") else None
    return found[0] if found and not found[1] else None


@dataclass(frozen=True)
class Field:
    """A field of runs."""

    source: Literal["run", "config", "metric"]
    name: str
    kind: Kind
    of: Of = "last"
    """For a metric, the value to use."""

    @property
    def written(self) -> str:
        """The field as written in a filter."""
        if self.source == "metric":
            return metric_written(self.name, self.of)
        if self.source == "config" and (not self.name.isidentifier() or iskeyword(self.name) or self.name in WORDS):
            return f"config[{quoted(self.name)}]"
        return f"config.{self.name}" if self.source == "config" and self.name in {*RUN_FIELDS, *SAME} else self.name


@dataclass(frozen=True)
class Moment:
    """A time in the store's format: first and last millisecond of a day, or the same time twice."""

    first: str
    last: str


Value = str | int | float | bool | None | Moment


@dataclass(frozen=True)
class Comparison:
    """A field against a value, several of them (`in`) or another field."""

    field: Field
    op: Op
    value: "Value | tuple[Value, ...] | Field"


@dataclass(frozen=True)
class Negation:
    """True if its part is false."""

    part: "Node"


@dataclass(frozen=True)
class Both:
    """True if all parts are true; without parts, for every run."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class One:
    """True if any part is true."""

    parts: tuple["Node", ...]


Node = Comparison | Negation | Both | One


@dataclass(frozen=True)
class SortOrder:
    """Sort order of runs; missing values come last."""

    field: Field
    descending: bool = False


@dataclass(frozen=True)
class Filter:
    """A parsed filter."""

    text: str
    tree: Node
    notes: tuple[str, ...] = ()
    """Notes on the interpretation of ambiguous parts."""

    @property
    def fields(self) -> set[Field]:
        """All fields in the filter."""
        return set(_fields(self.tree))

    def mentions(self, name: str) -> bool:
        """Return whether the filter uses a field of runs, such as `archived`."""
        return any(field.source == "run" and field.name == name for field in self.fields)


def _fields(node: Node) -> Iterator[Field]:
    if isinstance(node, Comparison):
        yield from (each for each in (node.field, node.value) if isinstance(each, Field))
        return
    for part in (node.part,) if isinstance(node, Negation) else node.parts:
        yield from _fields(part)


# ---- The names in filters: fields of every run, settings of all experiments, metrics; and their lookup -------------

CONFIG = "config."
NEAREST, SHOWN = 3, 8


@dataclass(frozen=True)
class Names:
    """Known settings, metrics and experiments."""

    settings: Mapping[str, Kind]
    metrics: frozenset[str]
    experiments: frozenset[str]

    @classmethod
    @cache
    def usual(cls) -> "Names":
        """Return the names of this version; a store may have others too."""
        kinds: dict[str, set[Kind]] = {}
        for one in experiments():
            for name, types in one.config.value_types().items():
                kinds.setdefault(name, set()).add(_kind_of(types))
        settings: dict[str, Kind] = {name: found.pop() if len(found) == 1 else "any" for name, found in kinds.items()}
        return cls(settings, frozenset(METRICS), frozenset(EXPERIMENTS))

    def __or__(self, other: "Names") -> "Names":
        return Names(
            {**other.settings, **self.settings}, self.metrics | other.metrics, self.experiments | other.experiments
        )

    def field(self, written: str) -> Field | str:
        """Return the field of that name, or an error message."""
        if "/" in written and written not in self.settings:
            return self._metric(written)
        if written.startswith(CONFIG):
            return self.setting(written.removeprefix(CONFIG))
        name = SAME.get(written, written)
        if name in RUN_FIELDS:
            return Field("run", name, RUN_FIELDS[name][0])
        if written in self.settings:
            return Field("config", written, self.settings[written])
        if {written, written.rpartition(".")[0]} & self.metrics:
            return self._metric(written)
        if written in ("time", "date"):
            return f"Unknown field. Did you mean {', '.join(TIMES_OF_RUNS[:-1])} or {TIMES_OF_RUNS[-1]}?"
        if written == "project":
            return "Unknown field. Did you mean experiment?"
        known = {name: name for name in (*RUN_FIELDS, *SAME)} | self._settings_written() | self._metrics_written()
        return f"Unknown field{near(written, known, 'Fields')}"

    def setting(self, name: str) -> Field | str:
        """Return a setting, or an error message."""
        if name in self.settings:
            return Field("config", name, self.settings[name])
        return f"Unknown setting{near(name, self._settings_written(), 'Known')}"

    def metric(self, name: str, of: str = "last") -> Field | str:
        """Return one of a metric's values, or an error message."""
        if name not in self.metrics:
            return f"Unknown metric{near(name, self._metrics_written(), 'Known')}"
        known = [each for each in OF if each != "best" or metric(name).better]
        if of == "best" and of not in known:
            return (
                f"{name} has no best value, as neither direction is known to be better: use .min or .max, such as "
                f"{metric_written(name, 'min')}."
            )
        if of not in known:
            return f"Values of {name} are .{', .'.join(known)}{near(of, known)}"
        return Field("metric", name, "number", of)

    def as_written(self, text: str) -> Field | None:
        """Return the setting or metric (optionally `.min` and so on) of that name, which may have spaces and signs."""
        if text in self.settings:
            return Field("config", text, self.settings[text])
        name, of = (text, "last") if text in self.metrics else text.rpartition(".")[::2]
        field = self.metric(name, of)
        return None if isinstance(field, str) else field

    def in_brackets(self) -> dict[str, list[str]]:
        """Return the names that must be in brackets and quotes, and how each is written; both a setting and a metric
        may have it.
        """
        every = [*self._settings_written().items(), *self._metrics_written().items()]
        found: dict[str, list[str]] = {}
        for name, written in every:
            if not _is_plain(name):
                found.setdefault(name, []).append(written)
        return found

    def _settings_written(self) -> dict[str, str]:
        return {name: Field("config", name, kind).written for name, kind in sorted(self.settings.items())}

    def _metrics_written(self) -> dict[str, str]:
        return {name: metric_written(name) if not _is_plain(name) else name for name in sorted(self.metrics)}

    def _metric(self, written: str) -> Field | str:
        name, dot, of = written.rpartition(".")
        if written in self.metrics or not dot:
            return self.metric(written)
        return self.metric(name, of)


def _is_plain(name: str) -> bool:
    """Return whether a name is words with dots or slashes between them, which need no brackets."""
    return all(
        word.isidentifier() and not iskeyword(word) and word.lower() not in WORDS for word in re.split("[./]", name)
    )


def near(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message: similar known words, or some known words after `otherwise`, or a full stop. A
    mapping holds how each is written.
    """
    written = known if isinstance(known, Mapping) else {name: name for name in known}
    listed = list(written.values())
    if found := get_close_matches(word, written, n=NEAREST, cutoff=0.6):
        return f". Did you mean {' or '.join(written[name] for name in found)}?"
    more = ", …" if len(listed) > SHOWN else ""
    return f". {otherwise}: {', '.join(listed[:SHOWN])}{more}." if otherwise and listed else "."


def _kind_of(types: Iterable[type]) -> Kind:
    """Return the type of a setting: a flag, number or text, or any where its values have several types."""
    named: dict[type, Kind] = {bool: "flag", int: "number", float: "number", str: "text"}
    found = {named.get(kind, "any") for kind in types}
    return found.pop() if len(found) == 1 else "any"


# ---- Parsing and formatting of times and durations -----------------------------------------------------------------
# "7d ago", "yesterday", "2026-11-01 14:30"; "5 min", "2 h 30 min". All in UTC, also with the zone written out:
# "2026-11-01 14:30 UTC".

UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_SAID = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
"""Each unit and the next smaller one, both with their seconds."""
_LENGTH = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?\s*[a-z]+\s*)+", re.ASCII)
_PART = re.compile(r"([\d.]+)\s*([a-z]+)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def read_length(text: str) -> float | None:
    """Parse a duration such as `5 min` or `2h 30min` to seconds; None if invalid."""
    text = text.strip().lower()
    if not _LENGTH.fullmatch(text):
        return None
    parts = [(float(count), UNITS.get(unit)) for count, unit in _PART.findall(text)]
    return (
        None
        if any(unit is None for _, unit in parts)
        else sum(count * unit for count, unit in parts if unit is not None)
    )


def duration(seconds: float | None, *, missing: str = "–", aligned: bool = False) -> str:
    """Format a duration, such as `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; `missing` for None.

    `aligned` is for columns: `12.3 s`, `3 min 05 s`, `2 h 00 min`, `76 h 00 min`.
    """
    if seconds is None:
        return missing
    if seconds < (59.95 if aligned else 9.95):
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for size, unit, lesser, name in _SAID[aligned:]:
        if whole >= size:
            rest = whole % size // lesser
            return f"{whole // size} {unit}" + (f" {rest:{'02' if aligned else ''}} {name}" if rest or aligned else "")
    return f"{whole} s"


TIMES = 'such as "7d ago", "yesterday", "2026-11-01" or "2026-11-01 14:30" (UTC)'


def read_moment(text: str, now: datetime) -> Moment | None:
    """Parse a time relative to `now`; None if invalid. A date alone is its whole day."""
    text = text.strip().lower()
    if text in ("today", "yesterday"):
        return _day(now - timedelta(days=text == "yesterday"))
    if text.endswith("ago"):
        seconds = read_length(text.removesuffix("ago"))
        try:
            return None if seconds is None else _at(now - timedelta(seconds=seconds))
        except OverflowError:
            return None
    try:
        found = datetime.fromisoformat(re.sub(r"\s*utc$", "z", text).upper())
    except ValueError:
        return None
    if _DATE.fullmatch(text):
        return _day(found)
    try:
        return _at(found if found.tzinfo else found.replace(tzinfo=UTC))
    except OverflowError:
        return None


def read_since(text: str) -> str:
    """Return the start of a time as the store writes it, empty for an empty text; raises ConfigError."""
    if not text.strip():
        return ""
    if (found := read_moment(text, datetime.now(UTC))) is None:
        raise ConfigError.of("since", f"since must be a time, {TIMES}; got '{text[:40]}'.")
    return found.first


def _day(at: datetime) -> Moment:
    first = datetime.combine(at.date(), time(), UTC)
    return Moment(
        _written(first),
        _written(first + timedelta(hours=24) - timedelta(milliseconds=1)) if at.year < 9999 else _written(first),
    )


def _at(moment: datetime) -> Moment:
    return Moment(_written(moment), _written(moment))


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
