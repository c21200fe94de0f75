"""The scaling view: chart, findings of the fitted laws, and tables."""

from collections.abc import Mapping, Sequence
from math import isfinite

import streamlit as st

from app.report import page_capture
from app.scaling.charts import HEIGHT_PX, MEASURES, picture
from app.scaling.study import line_title
from app.scaling.tables import laws_table, sizes_table
from app.ui import components
from app.ui.html import as_text, nowrap, stacked, table
from app.ui.interval_text import EXPLAINED, with_interval
from engine.analysis.run_values import lower_title
from engine.analysis.scaling import speedup
from engine.analysis.scaling.laws import LAWS, SCALABILITY, Fit, best_count, fit, in_words
from engine.analysis.scaling.scaling_data import Study, TimedRun, at_once, words_of
from engine.analysis.scaling.speedup import SpeedupPoint, is_flat, sizes, why_no_fit
from engine.store.records import RunRow

Fitted = dict[str, list[Fit]]


def scaling(found: Study, runs: Sequence[RunRow], key: str, *, goes_on: bool = False) -> None:
    """Show how the runs of a study scale; `key` makes chart keys unique. While their sweep `goes_on`, nothing is
    advised.
    """
    if not found.timings:
        st.write(as_text(found.left_out) or "Points appear as runs finish.")
        return
    most = at_once(runs, found.field)
    lines = {line_title(found, line): sizes(found.of(line), most, found.statistic) for line in found.line_keys()}
    laws, refused = _laws(found, goes_on=goes_on)
    has_reference = any(size.speed_up for each in lines.values() for size in each)
    usual = MEASURES[0] if has_reference else MEASURES[2]
    measure = (
        st.segmented_control(
            "Measure", MEASURES, key="measure", default=usual, required=True, bind="query-params", wrap=True
        )
        or usual
    )
    if measure in MEASURES[:2] and not has_reference:
        st.caption(
            as_text(
                f"{measure} needs a run at {lower_title(found.field)} 1. Throughput and execution time are available."
            )
        )
    else:
        few = {
            name: fits if len(lines) == 1 else [each for each in fits if each.law is SCALABILITY]
            for name, fits in laws.items()
        }
        plural, _ = words_of(found.field)
        apart: dict[str, list[TimedRun]] = {}
        for timing in found.disturbed:
            apart.setdefault(line_title(found, timing.line), []).append(timing)
        drawn, colours = picture(
            measure, lines, few, plural.capitalize(), found.unit, float(most) if most else None, apart
        )
        components.figure(
            f"scaling-{key}-{measure}", drawn, alt=f"{measure} by {plural}", height=HEIGHT_PX, colours=colours
        )
    verdicts, cautions = _verdicts(found, laws, lines), _cautions(found, lines, goes_on=goes_on)
    for sentence in verdicts:
        st.markdown(as_text(sentence))
    for sentence in cautions:
        st.caption(as_text(sentence))
    page_capture.words([*verdicts, *cautions, *refused])
    st.html(_sizes_table(found, lines))
    page_capture.table("By size", lambda: sizes_table(found, lines))
    if laws:
        page_capture.table("Fitted laws", lambda: laws_table(laws))
    if laws or refused:
        with st.expander("Fitted laws" if laws else "Why no law is fitted"):
            for sentence in refused:
                st.markdown(as_text(sentence))
            if laws:
                st.html(_laws_table(laws))


def _laws(found: Study, *, goes_on: bool) -> tuple[Fitted, list[str]]:
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


def _verdicts(found: Study, laws: Fitted, lines: Mapping[str, Sequence[SpeedupPoint]]) -> list[str]:
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
            else speedup.in_words(lines[title], plural)
        )
        said += [f"{title}: {words}" if title else words] if words else []
    return said


def _cautions(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]], *, goes_on: bool) -> list[str]:
    crowded = {size.count: size.crowded for each in lines.values() for size in each if size.crowded}
    said = [found.left_out] if found.left_out else []
    plural, _ = words_of(found.field)
    said += dict.fromkeys(filter(None, (speedup.opposite_in_words(each, plural) for each in lines.values())))
    if crowded:
        which = ", ".join(f"{count} ({why})" for count, why in sorted(crowded.items()))
        said.append(f"Oversubscribed ({found.field} {which}): timings limited by this machine.")
    if all(size.runs == 1 for each in lines.values() for size in each):
        said.append(f"No intervals: every point is a single run.{'' if goes_on else ' Add seeds.'}")
    elif found.unit:
        said.append(
            f"{EXPLAINED[found.statistic]} Speed-up compares {found.unit} per second, seed by seed. With too few "
            f"common seeds it is a ratio of {found.statistic}s."
        )
    return said


def _laws_table(laws: Fitted) -> str:
    headers = ["Line", "Law", "Parameters with 95 % interval", "Best count", "Fit error"]
    rows = []
    for title, fits in laws.items():
        for known in fits:
            parameters = stacked(
                f"{each.name} {each.value:.3g} ({each.low:.2g} – {each.high:.2g})" for each in known.parameters
            )
            best = best_count(known) if known.law is SCALABILITY else None
            told = "–" if best is None else f"{best:.0f}" if isfinite(best) else "not found"
            rows.append([title or "measured", known.law.name, parameters, told, f"{known.error:.1%}"])
    return table(headers, rows, caption="Fitted laws")


def _sizes_table(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]]) -> str:
    headers = [
        *(["Line"] if len(lines) > 1 else []),
        found.field,
        "Runs",
        "Time (s)",
        f"{(found.unit or 'runs').capitalize()}/s",
        "Speed-up",
        "Efficiency",
        "",
    ]
    rows = [
        [
            *([nowrap(title)] if len(lines) > 1 else []),
            str(size.count),
            str(size.runs),
            *(with_interval(each) for each in (size.time_s, size.per_second, size.speed_up, size.efficiency)),
            nowrap(f"oversubscribed: {size.crowded}" if size.crowded else ""),
        ]
        for title, each_size in lines.items()
        for size in each_size
    ]
    return table(headers, rows, caption="Scaling by size")
