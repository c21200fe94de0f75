"""Grouping of runs on the Compare page: groups by fields, their lines, and notes on how a group's values are computed.
Pure, except for reading from the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.charts import curve_data
from app.charts.curve_charts import GroupLine, group_line, possible
from app.charts.curve_data import Within
from app.compare.selection import fewest
from engine.analysis.result import upper_first
from engine.analysis.run_values import (
    ABOUT,
    EXPERIMENT,
    FAMILY,
    SEEDING,
    TARGET,
    family,
    field,
    field_in_words,
    field_names,
    lower_title,
    seed_word,
    shown_config,
)
from engine.analysis.statistics.groups import FEWEST_IN_BAND, Spread
from engine.analysis.statistics.intervals import FEWEST, LIMIT, Statistic
from engine.errors import counted
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow, is_complete
from engine.store.sweeps.sweeps import REPEAT, SEED

STATISTICS = {"mean": "Mean", "median": "Median", "iqm": "Interquartile mean"}
BANDS = {
    "sd": "± standard deviation",
    "se": "± standard error",
    "ci": "95 % confidence interval",
    "range": "min to max",
    "none": "none",
}
MOST_USUAL = 3
"""Fields by which runs are grouped without being asked; with more, the groups are not obvious."""


@dataclass(frozen=True)
class ComparedGroup:
    """Runs that agree in all group-by fields."""

    name: str
    runs: tuple[RunRow, ...]


def groups_of(runs: Sequence[RunRow], fields: Sequence[str]) -> list[ComparedGroup]:
    """Return the runs grouped by the values of some fields, in the order of these values. Runs with different seeding
    rules are in separate groups.
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
    return [ComparedGroup(_name(fields, key, found[key][0]), tuple(found[key])) for key in keys]


def usual_grouping(runs: Sequence[RunRow]) -> tuple[str, ...]:
    """Return the fields by which runs are grouped unless a view says otherwise: those in which repetitions with other
    seeds agree, such as the values of a sweep, or the experiment; a run without repetitions is then a group of one.
    Empty where no group has several runs, two of a group have one seed, or a run failed or was cancelled. Runs that
    never began don't count. Runs of other programs are also grouped by their names without seeds.
    """
    if _are_seeds_by_name(runs):
        return (FAMILY,)
    runs = [run for run in runs if run.started_at or run.status not in ENDED]
    kinds = list(dict.fromkeys(run.experiment for run in runs))
    known = [found for kind in kinds if (found := known_experiment(kind))]
    first = {name for one in known for name in (*one.counts, one.axis)}

    def differs(name: str) -> bool:
        return any(len({str(field(run, name)) for run in runs if run.experiment == kind}) > 1 for kind in kinds)

    settings = [name for name in field_names(runs) if name not in {*ABOUT, SEED, REPEAT} - {TARGET}]
    apart = sorted(filter(differs, settings), key=lambda name: name not in first)
    fields = [EXPERIMENT] * (len(kinds) > 1 or not apart) + [*fewest(runs, apart)]
    groups = groups_of(runs, fields)
    is_usual = (
        any(len(group.runs) > 1 for group in groups)
        and (len(groups) > 1 or len(runs) > 2)
        and len(fields) <= MOST_USUAL
        and all(run.status not in ENDED or is_complete(run) for run in runs)
        and all(len({run.config.get(SEED) for run in group.runs}) == len(group.runs) for group in groups)
    )
    return tuple(fields) if is_usual else ()


def _are_seeds_by_name(runs: Sequence[RunRow]) -> bool:
    """Return whether runs are repetitions by their names alone, such as `resnet_seed1` and `resnet_s2`: of other
    programs, complete, and with the same settings but for seeds in each group.
    """
    if not runs or not all(map(family, runs)) or any(known_experiment(run.experiment) for run in runs):
        return False
    groups = groups_of(runs, (FAMILY,))
    settings = [name for name in field_names(runs) if "seed" not in name.lower() and name not in ABOUT]
    alike = all(len({str(field(run, name)) for run in group.runs}) == 1 for group in groups for name in settings)
    return (
        alike
        and any(len(group.runs) > 1 for group in groups)
        and (len(groups) > 1 or len(runs) > 2)
        and all(run.status not in ENDED or is_complete(run) for run in runs)
        and all(len({run.name for run in group.runs}) == len(group.runs) for group in groups)
    )


def band_named(name: str, groups: Sequence[ComparedGroup], statistic: Statistic) -> str:
    """Return the name of a band, and that it is the value range where groups have too few runs for it."""
    fewest = FEWEST[statistic] if name == "ci" else FEWEST_IN_BAND if name in ("sd", "se") else 0
    sizes = {len(group.runs) for group in groups if len(group.runs) > 1}
    if not any(size < fewest for size in sizes):
        return BANDS[name]
    where = ":" if max(sizes) < fewest else " where"
    return f"{BANDS[name]} (min to max{where} n < {fewest})"


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
    """Return each group's line; None if none of its runs has a value of the metric on this axis."""
    found: list[GroupLine | None] = []
    for group in groups:
        values, raw = curve_data.group_line(reader, group.runs, metric, axis, statistic, spread, log=log, within=within)
        found.append(group_line(group.name, group.runs, values, possible(raw, metric), axis, log=log))
    return found


def in_picture(sizes: Mapping[str, int], groups: Sequence[ComparedGroup], statistic: Statistic, spread: Spread) -> str:
    """Return what the line and band of groups of so many runs are, for a picture; with the name of a group that is
    alone there, which has no legend. `sizes` are the numbers of runs in its lines by group.
    """
    counts = {*sizes.values()}
    runs = counted(counts.pop(), "run") if len(counts) == 1 else "the runs of each group"
    per_group = " per group" if len(sizes) > 1 and not counts else ""
    if not any(size > 1 for size in sizes.values()):
        return f"{next(iter(sizes))}: one run" if len(sizes) == 1 else ""
    band = "" if spread == "none" else f", band: {band_named(spread, groups, statistic)}"
    said = f"{STATISTICS[statistic].lower()} of {runs}{per_group}{band}"
    return f"{next(iter(sizes))}: {said}" if len(sizes) == 1 else upper_first(said)


def explained(lines: Sequence[GroupLine], statistic: str, spread: str) -> str:
    """Return how the lines of all charts are computed, in two sentences."""
    has_band = spread != "none" and any(len(line.members) > 1 for line in lines)
    band = "" if not has_band else f", band: {BANDS[spread]}{_fallback(lines, statistic, spread)}"
    limit = f" {limit_of(statistic, spread)}".rstrip() if band else ""
    return (
        f"{STATISTICS[statistic]} over the runs of each group, where all of them have values{band}. Between two points "
        f"a run follows a straight line; it is not extended beyond its first and last point.{limit}"
    )


def limit_of(statistic: str, spread: str) -> str:
    """Return the limit of a group's confidence intervals; empty where they have none, or another band is shown."""
    return LIMIT if spread == "ci" and statistic == "mean" else ""


def binned(lines: Sequence[GroupLine], log: bool) -> str:
    """Return the bins in which the points of a chart are averaged; empty if every recorded position is drawn."""
    cells = [line.values.cell for line in lines if not line.values.exact]
    if not cells:
        return ""
    wide = f"{min(cells):.3g}" if min(cells) == max(cells) else f"{min(cells):.3g} to {max(cells):.3g}"
    size = f"width growing by a factor of {wide}" if log else f"width {wide}"
    return f"All raw points, averaged per run in bins ({size})."


def _fallback(lines: Sequence[GroupLine], statistic: str, spread: str) -> str:
    """Return where the band falls back to the value range although another one is selected; empty if it never does."""
    if spread == "range" or not any((line.line.method == "range").any() for line in lines):
        return ""
    if spread == "ci":
        return f" (min to max with fewer than {FEWEST[statistic]} runs, or with identical values)"
    return f" (min to max with fewer than {FEWEST_IN_BAND} runs)"


def missing_bands(groups: Sequence[ComparedGroup], spread: str) -> str:
    """Return why groups have no band; empty if all have one or none is selected."""
    alone = [group.name for group in groups if len(group.runs) == 1]
    if spread == "none" or not alone:
        return ""
    over = seed_word(run for group in groups for run in group.runs)
    cure = f"A band needs at least two runs: launch more {over}s, or group by fewer fields."
    if len(alone) == len(groups):
        return f"No band: each group has one run. {cure}"
    more = f" and {len(alone) - 4} more" if len(alone) > 4 else ""
    return f"No band for {'; '.join(alone[:4])}{more}: one run{' each' * (len(alone) > 1)}. {cure}"


def _name(fields: Sequence[str], key: Sequence[object], run: RunRow) -> str:
    """Return the values of the fields in words; a setting that the runs do not have has a dash."""
    return ", ".join(
        field_in_words(name, held)
        if name in shown_config(run) or name in run.config or name in {*ABOUT, FAMILY}
        else f"{lower_title(name)} –"
        for name, held in zip(fields, key, strict=True)
    )
