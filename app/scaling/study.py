"""How a page lays runs along a count: those of a sweep, or some that were chosen by hand."""

from collections.abc import Sequence

from engine.analysis.scaling.scaling_data import Study, axis_of, differing, study
from engine.config_values import value_in_words
from engine.store import Reader, Sweep
from engine.store.records import RunRow

MOST_RUNS = 500


def of_sweep(sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> Study | str:
    """Return the study of a sweep along the count that it varies, or why there is none, in words."""
    if sweep.draw and len(sweep.fields) > 1:
        return (
            "A random draw changes several settings from run to run, so its times lie along no count. Launch a "
            "grid over one."
        )
    field = axis_of(sweep.fields)
    if field is None:
        return (
            f"This sweep varies {' and '.join(sweep.fields)}, which is no count of ranks or splits. Launch one "
            "over such a count to see how it scales."
        )
    return study(
        runs,
        reader.studies.surroundings([run.id for run in runs]),
        field,
        [name for name in sweep.fields if name != field],
    )


def of_runs(runs: Sequence[RunRow], reader: Reader, field: str | None = None, line: str | None = None) -> Study | str:
    """Return the study of some runs along a count that they differ in (the first one, unless told), or why there is
    none.
    """
    field = field or axis_of(differing(runs))
    if field is None:
        return (
            "These runs don't differ in a count of ranks or splits, so there is nothing to lay them along. Choose "
            "runs that do."
        )
    return study(runs, reader.studies.surroundings([run.id for run in runs]), field, [line] if line else [])


def line_title(found: Study, line: Sequence[object]) -> str:
    """Return what a line is called: `batched`, or `lock true`; empty where there is one line."""
    return ", ".join(
        value if isinstance(value, str) else f"{name} {value_in_words(value)}"
        for name, value in zip(found.lines, line, strict=True)
    )
