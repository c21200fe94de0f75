"""Runs of the Compare page in groups by fields, as lines, and the sentences that say how a group's numbers came about.
Pure but for the store's answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.charts.curve_charts import GroupLine, possible
from app.charts.curve_data import Within, group_line
from engine.analysis.run_values import SEEDING, field
from engine.analysis.statistics.bands import Spread
from engine.analysis.statistics.confidence import FEWEST, Statistic
from engine.config_values import value_in_words
from engine.store import Reader
from engine.store.records import RunRow

STATISTICS = {"mean": "Mean", "median": "Median", "iqm": "Interquartile mean"}
BANDS = {
    "sd": "± standard deviation",
    "se": "± standard error",
    "ci": "95 % confidence interval",
    "range": "lowest to highest",
    "none": "none",
}


@dataclass(frozen=True)
class ComparedGroup:
    """Runs that agree in all fields that they are grouped by."""

    name: str
    runs: tuple[RunRow, ...]


def groups_of(runs: Sequence[RunRow], fields: Sequence[str]) -> list[ComparedGroup]:
    """Return the runs by their values of some fields, in the order of these values; those that draw by different rules
    stand apart.
    """
    if SEEDING not in fields and len({run.seeding for run in runs}) > 1:
        fields = [*fields, SEEDING]
    found: dict[tuple[object, ...], list[RunRow]] = {}
    for run in runs:
        found.setdefault(tuple(field(run, name) for name in fields), []).append(run)
    keys = sorted(
        found,
        key=lambda key: [
            (isinstance(value, str) or value is None, value if isinstance(value, int | float) else 0, str(value))
            for value in key
        ],
    )
    return [ComparedGroup(_name(fields, key), tuple(found[key])) for key in keys]


def lines_of(
    reader: Reader,
    groups: Sequence[ComparedGroup],
    metric: str,
    axis: str,
    statistic: Statistic,
    spread: Spread,
    *,
    log: bool,
    within: Within = None,
) -> list[GroupLine | None]:
    """Return each group's line, None where none of its runs has a value of the metric along the axis."""
    found: list[GroupLine | None] = []
    for group in groups:
        values, raw = group_line(reader, group.runs, metric, axis, statistic, spread, log=log, within=within)
        of_group = possible(raw, metric)
        there = [run.id for run, row in zip(group.runs, values.values, strict=True) if np.isfinite(row).any()]
        found.append(GroupLine(group.name, there, values, of_group) if there else None)
    return found


def explained(lines: Sequence[GroupLine], statistic: str, spread: str, log: bool) -> str:
    """Return how the lines came about, in a sentence or two."""
    way = (
        f"{STATISTICS[statistic]} over the runs of each "
        f"group{'' if spread == 'none' else f', band: {BANDS[spread]}{_instead(lines, statistic, spread)}'}"
    )
    cells = [line.values.cell for line in lines if not line.values.exact]
    if not cells:
        return (
            f"{way}, at every position that was recorded; a run's last value holds until its next one, and never "
            "past its end."
        )
    wide = f"{min(cells):.3g}" if min(cells) == max(cells) else f"{min(cells):.3g} to {max(cells):.3g}"
    size = f"each {wide} times as far as the one before" if log else f"{wide} wide"
    return f"{way}. Every raw point counts: a run's value is the mean of its points in each cell, {size}."


def _instead(lines: Sequence[GroupLine], statistic: str, spread: str) -> str:
    """Return where the band is no interval although one is asked for; empty where it is one all along."""
    if spread != "ci" or not any((line.line.method == "range").any() for line in lines):
        return ""
    return f" (lowest to highest where fewer than {FEWEST[statistic]} runs have a value, or all have the same)"


def lonely(groups: Sequence[ComparedGroup], spread: str) -> str:
    """Return why groups have no band, empty where all have one or none is asked for."""
    alone = [group.name for group in groups if len(group.runs) == 1]
    if spread == "none" or not alone:
        return ""
    cure = "A band needs two: launch it with other seeds, or group by fewer fields."
    if len(alone) == len(groups):
        return f"No band is drawn, since each group has one run. {cure}"
    return (
        f"No band is drawn for {'; '.join(alone[:4])}{f' and {len(alone) - 4} more' if len(alone) > 4 else ''}: "
        f"one run each. {cure}"
    )


def _name(fields: Sequence[str], key: Sequence[object]) -> str:
    return ", ".join(
        value if isinstance(value, str) and value else f"{name} {value_in_words(value)}"
        for name, value in zip(fields, key, strict=True)
    )
