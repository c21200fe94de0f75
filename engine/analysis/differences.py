"""Differences of runs in config or environment; equal fields are counted, not listed. Torch-free."""

import difflib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.analysis.run_values import TASK, lower_title, shown_config, without_effect
from engine.analysis.total_work import MOST_NAMED, declared
from engine.config import empty_means, unit_of, without_interval
from engine.config_values import value_in_words
from engine.registry import known_experiment
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

MISSING = object()
"""Marks a field that a run does not have."""
_SINGULAR = {"passes": "pass", "epochs": "epoch", "rounds": "round", "batches": "batch"}


@dataclass(frozen=True)
class Row:
    """One field with its value in each run, MISSING if a run has no such field."""

    name: str
    values: tuple[Any, ...]
    differs: bool
    """Whether it differs among the runs in which it has an effect."""
    unused: tuple[str, ...] = ()
    """For each run the setting because of which it has no effect, empty if it has one; empty for all."""


def rows(found: Sequence[Mapping[str, Any]], unused: Sequence[Mapping[str, str]] = ()) -> list[Row]:
    """Return every field of the mappings, in order of first appearance; nested ones as `outer.inner`. `unused` has for
    each mapping the fields without effect (`without_effect`).
    """
    flat = [flattened(each) for each in found]
    names = dict.fromkeys(name for each in flat for name in each)
    return [
        _row(name, tuple(each.get(name, MISSING) for each in flat), tuple(each.get(name, "") for each in unused))
        for name in names
    ]


def rows_of_settings(runs: Sequence[RunRow]) -> list[Row]:
    """Return every setting of runs, and their seeding rule."""
    configs = [{"seeding": run.seeding, **shown_config(run)} for run in runs]
    return rows(configs, [without_effect(run.experiment, run.config) for run in runs])


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings as a flat one, names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= {f"{name}.{inner}": each for inner, each in flattened(value).items()}
        else:
            found[name] = value
    return found


def _row(name: str, values: tuple[Any, ...], unused: tuple[str, ...]) -> Row:
    if not any(unused):
        return Row(name, values, len({_comparable(value) for value in values}) > 1)
    used = (value for value, why in zip(values, unused, strict=True) if not why)
    return Row(name, values, len({_comparable(value) for value in used}) > 1, unused)


def _comparable(value: Any) -> str:
    """Return a value as a text that is equal for equal values: 1 equals 1.0, 1 does not equal true."""
    if value is MISSING:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)


def may_explain(groups: Mapping[str, Sequence[RunRow]], varied: Collection[str]) -> str:
    """Return the settings besides the `varied` ones, which names of groups hold, that differ between compared groups of
    runs although all have them, as a sentence; empty without any. One whose values each group has in equal shares
    explains nothing. Seeds, lengths and what is trained are left out.
    """
    runs = [run for own in groups.values() for run in own]
    if len(groups) < 2:
        return ""
    apart = {SEED, "timeout_s", *TASK, *varied}.union(*map(_told_elsewhere, runs))
    unused = {run.id: without_effect(run.experiment, run.config) for run in runs}
    found = []
    for name in runs[0].config:
        if name in apart or not all(name in run.config for run in runs):
            continue
        used = [run for run in runs if name not in unused[run.id]]
        if len({repr(run.config[name]) for run in used}) <= 1 and len({run.experiment for run in runs}) == 1:
            continue
        held: dict[str, dict[str, None]] = {}
        shares = set[frozenset[tuple[str, float]]]()
        for group, own in groups.items():
            values = [_in_words(run, name) for run in own if name not in unused[run.id]]
            for value in values:
                held.setdefault(value, {})[group] = None
            shares.add(frozenset((value, count / len(values)) for value, count in Counter(values).items()))
        if len(held) > 1 and len(shares) > 1:
            found.append(f"{lower_title(name)} {_values(held, [run.config[name] for run in used])}")
    if not found:
        return ""
    presets = {run.preset for run in runs}
    alike = len(presets) == 1 and len({run.experiment for run in runs}) > 1
    unlike = (
        f" The presets named {presets.pop()} of these experiments are not alike."
        if alike and None not in presets
        else ""
    )
    different = "Also different" if {*varied} - {SEED} else "Different"
    return f"{different}, which may explain the results: {_few(found, '; ')}.{unlike}"


def _values(held: Mapping[str, Collection[str]], values: Sequence[Any]) -> str:
    """Return the values of a setting: two with the groups that have them, numbers as a range, others individually."""
    if len(held) == 2:
        return " and ".join(f"{value} ({_few([*groups], ', ')})" for value, groups in held.items())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return f"{value_in_words(min(values))} to {value_in_words(max(values))}"
    return _few([*held], ", ")


def _in_words(run: RunRow, name: str) -> str:
    """Return the value of a setting; an empty one as the form shows it."""
    known = known_experiment(run.experiment)
    info = known.config.model_fields.get(name) if known else None
    if info is not None and run.config[name] is None:
        return empty_means(info)
    value = value_in_words(run.config[name])
    if info is None or not without_interval(info):
        return value
    unit = unit_of(info)  # one counts epochs, another one rounds
    return f"{value} {_SINGULAR.get(unit, unit) if run.config[name] == 1 else unit}"


def _told_elsewhere(run: RunRow) -> set[str]:
    """Return the length of a run, and its intervals but those of tests, which decide where a curve has points."""
    known, work = known_experiment(run.experiment), declared(run.experiment, run.config)
    fields = known.config.model_fields if known else {}
    intervals = (name for name, info in fields.items() if without_interval(info) and not name.startswith("evaluate"))
    return {work.length if work else "", *intervals}


def _few(words: Sequence[str], comma: str) -> str:
    """Return the first of some words, and how many more there are."""
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return comma.join(words[:MOST_NAMED]) + more


# ---- The code of runs of a lab's own commands ------------------------------------------------------------------------

MOST_LINES = 2_000
"""Lines of a file that are compared, and lines of a difference."""


def code_difference(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the files that differ between two copies of code, each the texts by path, and their difference."""
    changed = [path for path in dict.fromkeys([*before, *after]) if before.get(path) != after.get(path)]
    lines: list[str] = []
    for path in changed:
        old, new = (each.get(path, "").splitlines()[:MOST_LINES] for each in (before, after))
        was, now = (path if path in each else "(no file)" for each in (before, after))
        lines += difflib.unified_diff(old, new, was, now, lineterm="")
        if len(lines) > MOST_LINES:
            return changed, "\n".join([*lines[:MOST_LINES], "…"])
    return changed, "\n".join(lines)
