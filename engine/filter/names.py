"""The names in filters: fields of every run, settings of all experiments, metrics; and their lookup."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from engine.filter.tree import OF, RUN_FIELDS, SAME, Field, Kind
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
        known = [*RUN_FIELDS, *SAME, *sorted(self.settings), *sorted(self.metrics)]
        return f"Unknown field (text must be in quotes){near(written, known, 'Fields')}"

    def setting(self, name: str) -> Field | str:
        """Return a setting, or an error message."""
        if name in self.settings and '"' not in name:
            return Field("config", name, self.settings[name])
        if name in self.settings:
            return f"Settings with a double quote in their names can't be used in filters{near('', ())}"
        return f"Unknown setting{near(name, sorted(self.settings), 'Known')}"

    def metric(self, name: str, of: str = "last") -> Field | str:
        """Return one of a metric's values, or an error message."""
        if name not in self.metrics:
            return f"Unknown metric{near(name, sorted(self.metrics), 'Known')}"
        if of not in OF:
            return f"Metric values are .{', .'.join(OF)}{near(of, OF)}"
        if of == "best" and metric(name).better is None:
            return f"{name} has no best value, as neither direction is better: use .min or .max."
        return Field("metric", name, "number", of)

    def _metric(self, written: str) -> Field | str:
        name, dot, of = written.rpartition(".")
        if written in self.metrics or not dot:
            return self.metric(written)
        return self.metric(name, of)


def near(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message: similar known words, or some known words after `otherwise`, or a full stop."""
    listed = list(known)
    if found := get_close_matches(word, listed, n=NEAREST, cutoff=0.6):
        return f". Did you mean {' or '.join(found)}?"
    more = ", …" if len(listed) > SHOWN else ""
    return f". {otherwise}: {', '.join(listed[:SHOWN])}{more}." if otherwise and listed else "."


def _kind_of(types: Iterable[type]) -> Kind:
    """Return the type of a setting: a flag, number or text, or any where its values have several types."""
    named: dict[type, Kind] = {bool: "flag", int: "number", float: "number", str: "text"}
    found = {named.get(kind, "any") for kind in types}
    return found.pop() if len(found) == 1 else "any"
