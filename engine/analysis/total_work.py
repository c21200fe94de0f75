"""The total work of runs, as their configs declare it or as they recorded it, and whether compared runs did equal work.
Torch-free.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.config import Config, unit_of, without_interval
from engine.errors import ConfigError
from engine.experiment import Experiment, Work, passes_number
from engine.registry import known_experiment
from engine.store import Reader, Surroundings
from engine.store.records import ENDED, RunRow, is_complete

ALIKE = 0.05
"""Relative difference up to which the work of runs counts as equal."""
MUCH_LONGER = 1.5
"""Ratio of steps from which the lengths of runs of other programs, whose work is unknown, are named as unequal."""
MOST_NAMED = 6
_COUNT = re.compile(r"(\d+) ([a-z ]+?)s?")


def declared(experiment: str, config: Mapping[str, Any]) -> Work | None:
    """Return the total work of a run of that config; None if its experiment is unknown or counts none, or if this
    version refuses the config.
    """
    known = known_experiment(experiment, config.get("code", ""))
    if known is None or known.work is None:
        return None
    key = known.config, repr(config)
    if key not in _declared:
        try:
            found = known.work(known.config.check(config))
        except ConfigError:  # which a later entry of the catalogue may allow
            return None
        _declared[key] = found
        for old in list(_declared)[:-MOST_KEPT]:
            _declared.pop(old, None)
    return _declared[key]


MOST_KEPT = 2_000
_declared: dict[tuple[type[Config], str], Work] = {}
"""The work of configs that were asked for before: checking one takes longer than all else that a page asks of a run."""


def unreached(found: Experiment, config: Config, limit_s: float | None = None) -> list[str]:
    """Return a caution for each interval of a config that exceeds the length of its run, or one in seconds that exceeds
    the time limit.
    """
    work = found.work(config) if found.work else None
    lengths: dict[str, float | None] = {"s": limit_s}
    if work:
        lengths |= {"passes": work.passes, "steps": work.steps, work.length: getattr(config, work.length)}
    cautions = []
    for name, value, unit, otherwise in _intervals(config):
        length = lengths.get(unit)
        if length is not None and value > length:
            whole = f"the time limit is {length:g} s" if unit == "s" else f"the run has {passes_number(length)}"
            cautions.append(f"{name} is {value:,g} {unit}, but {whole}: {otherwise}.")
    return cautions


def unreached_in(config: Config, expected_s: float, limit_s: float | None = None) -> list[str]:
    """Return a note for each interval in seconds that exceeds the expected execution time, but not the time limit."""
    return [
        f"{name} is {value:,g} s, but the run is estimated at {expected_s:,.3g} s: {otherwise}."
        for name, value, unit, otherwise in _intervals(config)
        if unit == "s" and expected_s < value <= (limit_s or value)
    ]


def _intervals(config: Config) -> Iterator[tuple[str, float, str, str]]:
    """Yield name, value and unit of each interval that has an effect, and what happens in a shorter run."""
    for name, info in type(config).model_fields.items():
        if (otherwise := without_interval(info)) and name not in config.unused:
            yield name, getattr(config, name), unit_of(info), otherwise


def unreached_of(found: Experiment, cells: Mapping[str, Config], limit_s: float | None = None) -> list[str]:
    """Return the same for the combinations of a sweep, by name."""
    named: dict[str, list[str]] = {}
    for name, config in cells.items():
        for caution in unreached(found, config, limit_s):
            named.setdefault(caution, []).append(name)
    cautions = [
        caution if len(names) == len(cells) else f"With {_shortened(names)}: {caution}"
        for caution, names in named.items()
    ]
    more = len(cautions) - MOST_NAMED
    return cautions[:MOST_NAMED] + ([f"{more} more cautions of this kind."] if more > 0 else [])


def work_of(run: RunRow, about: Surroundings | None = None) -> Work | None:
    """Return the work of a run: what it recorded, if it has ended, otherwise what it will have done; None if unknown.
    Where its experiment declares none, its passes and updates are unknown too.
    """
    whole, done = declared(run.experiment, run.config), about.work if about else 0
    if run.status not in ENDED:
        return whole
    if not about or not done:
        return whole if run.status == "finished" else None
    return replace(whole.share(done / whole.amount), amount=done) if whole else Work("", done, about.unit)


def unequal_work(groups: Mapping[str, Sequence[RunRow]], around: Mapping[int, Surroundings]) -> str:
    """Return that the runs of some groups do unequal total work, with the work of each group, as a sentence; empty if
    it is equal, or unknown, or counted in different units.
    """
    works = {
        name: found
        for name, runs in groups.items()
        if (found := [work for run in runs if (work := work_of(run, around.get(run.id)))])
    }
    every = [work for found in works.values() for work in found]
    if len({work.unit for work in every}) != 1:
        return ""
    sizes = {work.pass_size for work in every}
    by_pass = None not in sizes and max(filter(None, sizes)) <= (1 + ALIKE) * min(filter(None, sizes))
    amounts = {
        name: [(work.passes or 0.0) if by_pass else float(work.amount) for work in found]
        for name, found in works.items()
    }
    least, most = (end(map(end, amounts.values())) for end in (min, max))
    if most <= (1 + ALIKE) * least:
        return ""
    unit = "passes" if by_pass else every[0].unit
    named = {name: _range(found) for name, found in amounts.items()}
    if len(named) > MOST_NAMED:
        first, last = (
            min(amounts, key=lambda name: min(amounts[name])),
            max(amounts, key=lambda name: max(amounts[name])),
        )
        said = f"from {named[first]} {unit} ({first}) to {named[last]} {unit} ({last})"
    elif together := _together(list(named)):
        said = f"{together}: {_listed(list(named.values()))} {unit}"
    else:
        said = "; ".join(f"{name}: {amount} {unit}" for name, amount in named.items())
    return f"Unequal total work: {said}. Every metric may differ because of it."


def unequal_work_of(groups: Mapping[str, Sequence[RunRow]], reader: Reader) -> str:
    """Return the same for runs of a store."""
    return unequal_work(groups, reader.studies.surroundings([run.id for runs in groups.values() for run in runs]))


def unequal_steps_of(groups: Mapping[str, Sequence[RunRow]], reader: Reader) -> str:
    """Return that runs of one other program recorded much fewer steps than others, as a sentence; else empty."""
    runs = [run for own in groups.values() for run in own]
    if len({run.experiment for run in runs}) != 1 or known_experiment(runs[0].experiment):
        return ""
    last = reader.multi_run.last_steps([run.id for run in runs])
    steps = {name: found for name, own in groups.items() if (found := [last[run.id] for run in own if run.id in last])}
    if len(steps) < 2:
        return ""
    first, longest = min(steps, key=lambda name: min(steps[name])), max(steps, key=lambda name: max(steps[name]))
    least, most = min(steps[first]), max(steps[longest])
    if most < MUCH_LONGER * max(least, 1):
        return ""
    return (
        f"Unequal length: to step {least:,} ({first}) and {most:,} ({longest}). Every metric may differ because of it."
    )


def counted(groups: Mapping[str, Sequence[RunRow]]) -> dict[str, list[RunRow]]:
    """Return the groups without the runs that failed, were lost, or were cancelled by a person."""
    return {name: [run for run in runs if run.status not in ENDED or is_complete(run)] for name, runs in groups.items()}


def _range(amounts: Sequence[float]) -> str:
    ends = list(dict.fromkeys(map(passes_number, (min(amounts), max(amounts)))))
    return " to ".join(ends)


def _together(names: Sequence[str]) -> str:
    """Return names that count the same noun, such as `1, 2 and 4 trainers`; empty for others."""
    found = [match for name in names if (match := _COUNT.fullmatch(name))]
    nouns = {match[2] for match in found}
    if len(found) < len(names) or len(nouns) != 1:
        return ""
    return f"{_listed([match[1] for match in found])} {nouns.pop()}s"


def _shortened(names: Sequence[str]) -> str:
    shown = names if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return _listed([f"({name})" if ", " in name else name for name in shown])


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
