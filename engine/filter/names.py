"""The names in filters: fields of every run, settings of all experiments, metrics; and their lookup."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from keyword import iskeyword

from engine.filter.tree import OF, RUN_FIELDS, SAME, WORDS, Field, Kind, metric_written
from engine.metrics import METRICS, metric
from engine.registry import EXPERIMENTS, experiments

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
        known = {name: name for name in (*RUN_FIELDS, *SAME)} | self._settings_written() | self._metrics_written()
        return f"Unknown field (text must be in quotes){near(written, known, 'Fields')}"

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
