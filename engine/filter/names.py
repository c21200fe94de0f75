"""The names that a filter can ask for: what every run has, the settings of all experiments, metrics; and which one a
word means.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import get_args

from pydantic.fields import FieldInfo

from engine.config import choices_of
from engine.filter.tree import OF, Field, Kind
from engine.metrics import METRICS, metric
from engine.registry import EXPERIMENTS, experiments

RUN_FIELDS: dict[str, tuple[Kind, str]] = {
    "id": ("number", "the run's number"),
    "experiment": ("text", "the method's name, such as hogwild"),
    "preset": ("text", "the preset that its config began as"),
    "name": ("text", "what its owner calls it"),
    "owner": ("text", "who launched it"),
    "status": ("text", "queued, starting, running, stopping, finished, failed, cancelled or lost"),
    "cause": ("text", "why it ended as it did"),
    "note": ("text", "what people wrote about it"),
    "tags": ("tags", "the words that people file it under"),
    "sweep": ("number", "the number of the sweep that it belongs to"),
    "resumes": ("number", "the number of the run that it resumes"),
    "created": ("time", "when it was queued"),
    "started": ("time", "when all ranks were ready"),
    "ended": ("time", "when it came to its end"),
    "duration": ("seconds", "its execution time: from all ranks ready to all ranks done"),
    "startup": ("seconds", "its start-up time"),
    "cores": ("number", "CPU cores it asks for"),
    "gpus": ("number", "GPUs it asks for"),
    "ranks": ("number", "processes it starts"),
    "seeding": ("number", "the rule that it drew random numbers by: 1 seed + rank, 2 streams"),
    "starred": ("flag", "someone gave it a star"),
    "pinned": ("flag", "it is its experiment's baseline"),
    "archived": ("flag", "it was put away"),
}
"""What every run has: its kind, and its words for people. A setting of the same name is asked for as `config.NAME`."""
SAME = {"run": "id", "tag": "tags", "execution_time_s": "duration", "startup_time_s": "startup"}
"""Other words for them."""
CONFIG = "config."
NEAREST, SHOWN = 3, 8


@dataclass(frozen=True)
class Names:
    """Settings, metrics and experiments that a filter may name."""

    settings: Mapping[str, Kind]
    metrics: frozenset[str]
    experiments: frozenset[str]

    @classmethod
    @cache
    def usual(cls) -> "Names":
        """Return those that this version knows; a store may hold others too."""
        kinds: dict[str, set[Kind]] = {}
        for one in experiments():
            for name, info in one.config.model_fields.items():
                kinds.setdefault(name, set()).add(_kind_of(info))
        settings: dict[str, Kind] = {name: found.pop() if len(found) == 1 else "any" for name, found in kinds.items()}
        return cls(settings, frozenset(METRICS), frozenset(EXPERIMENTS))

    def __or__(self, other: "Names") -> "Names":
        return Names(
            {**other.settings, **self.settings}, self.metrics | other.metrics, self.experiments | other.experiments
        )

    def field(self, written: str) -> Field | str:
        """Return the field that is written so, or a sentence that says why there is none."""
        if "/" in written:
            return self._metric(written)
        if written.startswith(CONFIG):
            name = written.removeprefix(CONFIG)
            return (
                Field("config", name, self.settings[name])
                if name in self.settings
                else f"No setting has that name{near(name, sorted(self.settings), 'Known')}"
            )
        name = SAME.get(written, written)
        if name in RUN_FIELDS:
            return Field("run", name, RUN_FIELDS[name][0])
        if written in self.settings:
            return Field("config", written, self.settings[written])
        known = [*RUN_FIELDS, *SAME, *sorted(self.settings), *sorted(self.metrics)]
        return f"No run has that field, and a text stands in quotes{near(written, known, 'Every run has')}"

    def metric(self, name: str, of: str = "last") -> Field | str:
        """Return one of a metric's values, or a sentence that says why there is none."""
        if name not in self.metrics:
            return f"No run has recorded that metric{near(name, sorted(self.metrics), 'Known')}"
        if of not in OF:
            return f"A metric has .{', .'.join(OF)}{near(of, OF)}"
        if of == "best" and metric(name).better is None:
            return f"Of {name} neither more nor less is better, so it has no best: ask for .min or .max."
        return Field("metric", name, "number", of)

    def _metric(self, written: str) -> Field | str:
        name, dot, of = written.rpartition(".")
        if written in self.metrics or not dot:
            return self.metric(written)
        return self.metric(name, of)


def near(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a sentence: the nearest known words, some of them after `otherwise` where none is near, or a
    mere full stop.
    """
    listed = list(known)
    if found := get_close_matches(word, listed, n=NEAREST, cutoff=0.6):
        return f". Did you mean {' or '.join(found)}?"
    more = ", …" if len(listed) > SHOWN else ""
    return f". {otherwise}: {', '.join(listed[:SHOWN])}{more}." if otherwise and listed else "."


def _kind_of(info: FieldInfo) -> Kind:
    """Return what a setting holds: a flag, a number or a text, each of which may be empty, else anything."""
    named: dict[object, Kind] = {bool: "flag", int: "number", float: "number", str: "text"}
    types: tuple[object, ...] = tuple(map(type, choices_of(info))) or get_args(info.annotation) or (info.annotation,)
    found = {named.get(kind, "any") for kind in types if kind is not type(None)}
    return found.pop() if len(found) == 1 else "any"
