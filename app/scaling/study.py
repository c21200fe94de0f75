"""Studies of runs by count, for a sweep or for selected runs."""

from collections.abc import Sequence

from engine.analysis.run_values import field_in_words, lower_title
from engine.analysis.scaling.scaling_data import Study, axis_of, differing, study
from engine.store import Reader, Sweep
from engine.store.records import RunRow

MOST_RUNS = 500


def of_sweep(sweep: Sweep, runs: Sequence[RunRow], reader: Reader, *, with_disturbed: bool = False) -> Study | str:
    """Return the study of a sweep by the count that it varies, or an explanation if there is none."""
    if sweep.draw and len(sweep.fields) > 1:
        return (
            "Scaling needs a grid over one count; this sweep draws several settings at random. Launch a grid over a "
            "number of ranks or splits."
        )
    field = axis_of(sweep.fields)
    if field is None:
        varied = " and ".join(map(lower_title, sweep.fields))
        return (
            f"Scaling needs a sweep over a number of ranks or splits; this one varies {varied}. "
            "Launch a sweep over such a count."
        )
    return study(
        runs,
        reader.studies.surroundings([run.id for run in runs]),
        field,
        [name for name in sweep.fields if name != field],
        with_disturbed=with_disturbed,
        statistic="mean" if sweep.timing is None else "median",
    )


def of_runs(
    runs: Sequence[RunRow],
    reader: Reader,
    field: str | None = None,
    line: str | None = None,
    *,
    with_disturbed: bool = False,
) -> Study | str:
    """Return the study of some runs by a count in which they differ (default: the first), or an explanation if there is
    none.
    """
    field = field or axis_of(differing(runs))
    if field is None:
        return "Scaling needs runs that differ in a number of ranks or splits; these don't. Select other runs."
    around = reader.studies.surroundings([run.id for run in runs])
    return study(runs, around, field, [line] if line else [], with_disturbed=with_disturbed)


def line_title(found: Study, line: Sequence[object]) -> str:
    """Return the name of a line: `batched`, or `lock true`; empty if there is only one line."""
    return ", ".join(map(field_in_words, found.lines, line))
