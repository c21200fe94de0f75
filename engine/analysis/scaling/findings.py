"""What runs by a count say: the study of a sweep or of selected runs, the laws fitted to each of its lines, and the
finding of each as a sentence. Torch-free.
"""

from collections.abc import Mapping, Sequence

from engine.analysis.run_values import field_in_words, lower_title
from engine.analysis.scaling import speedup
from engine.analysis.scaling.laws import LAWS, SCALABILITY, Fit, fit, in_words
from engine.analysis.scaling.scaling_data import Study, axis_of, differing, study, words_of
from engine.analysis.scaling.speedup import SpeedupPoint, is_flat, why_no_fit
from engine.store import Reader, Sweep
from engine.store.records import RunRow

Fitted = dict[str, list[Fit]]
"""The laws by the name of their line."""


def of_sweep(sweep: Sweep, runs: Sequence[RunRow], reader: Reader, *, with_disturbed: bool = False) -> Study | str:
    """Return the study of a sweep by the count that it varies, or an explanation if there is none."""
    if sweep.draw and len(sweep.fields) > 1:
        return (
            "Scaling needs a grid over one count; this sweep draws several settings at random. Launch a grid over a "
            "number of ranks or splits."
        )
    field = axis_of(sweep.fields)
    if field is None:
        varied = " and ".join(map(lower_title, sweep.across))
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


def fitted_laws(found: Study, *, goes_on: bool) -> tuple[Fitted, list[str]]:
    """Return the fitted laws by line, and reasons why others were not fitted."""
    if found.obstacles:
        return {}, []
    laws: Fitted = {}
    refused: dict[str, list[str]] = {}
    for line in found.line_keys():
        title = line_title(found, line)
        if why := why_no_fit(found.of(line), found.field):
            refused.setdefault(why, []).append(title)
            continue
        for law in LAWS:
            known = fit(law, found.of(line))
            if isinstance(known, Fit):
                laws.setdefault(title, []).append(known)
            else:
                refused.setdefault(f"{law.name}: {known}", []).append(title)
    if goes_on and refused:
        return laws, ["Runs of this sweep are still queued or running."]
    return laws, [f"{', '.join(of)}: {why}" if len(of) < len(found.line_keys()) else why for why, of in refused.items()]


def verdicts(found: Study, laws: Fitted, lines: Mapping[str, Sequence[SpeedupPoint]]) -> list[str]:
    """Return one sentence per line: of the Universal Scalability Law about the best count, or of the measured sizes
    where it is not fitted or nothing is faster than one.
    """
    plural, singular = words_of(found.field)
    said = [f"No fitted law. {sentence}" for sentence in found.obstacles]
    for line in () if said else found.line_keys():
        title = line_title(found, line)
        known = next((each for each in laws.get(title, ()) if each.law is SCALABILITY), None)
        largest = max(timing.count for timing in found.of(line))
        words = (
            in_words(known, largest, plural, singular)
            if known and not is_flat(lines[title])
            else speedup.in_words(lines[title], plural, singular)
        )
        said += [f"{found.caveat}{title}: {words}" if title else f"{found.caveat}{words}"] if words else []
    return said
