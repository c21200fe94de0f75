"""How runs scale along a count: chart, what the fitted laws say, and tables."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

import streamlit as st

from app.report import page_capture
from app.scaling.charts import HEIGHT_PX, MEASURES, picture
from app.scaling.study import line_title
from app.scaling.tables import laws_table, sizes_table
from app.ui import components
from app.ui.html import as_text, table
from app.ui.interval_text import EXPLAINED, with_interval
from engine.analysis.scaling.laws import LAWS, SCALABILITY, Fit, best_count, fit, in_words
from engine.analysis.scaling.scaling_data import Study, at_once, words_of
from engine.analysis.scaling.speedup import SpeedupPoint, sizes, why_no_fit
from engine.store.records import RunRow

Fitted = dict[str, list[Fit]]


def scaling(found: Study, runs: Sequence[RunRow], key: str) -> None:
    """Show how the runs of a study scale; `key` tells its chart from others."""
    if not found.timings:
        st.write("The first point appears when a run has finished.")
        return
    most = at_once(runs, found.field)
    lines = {line_title(found, line): sizes(found.of(line), most) for line in found.line_keys()}
    laws, refused = _laws(found)
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
                f"There is no {measure.lower()} without a run at {found.field} 1; throughput and execution "
                "time are there."
            )
        )
    else:
        few = {
            name: fits if len(lines) == 1 else [each for each in fits if each.law is SCALABILITY]
            for name, fits in laws.items()
        }
        plural, _ = words_of(found.field)
        drawn, colours = picture(measure, lines, few, plural.capitalize(), found.unit, float(most) if most else None)
        components.figure(
            f"scaling-{key}-{measure}", drawn, alt=f"{measure} against {plural}", height=HEIGHT_PX, colours=colours
        )
    sentences = (*_findings(found, laws), *refused, *_cautions(found, lines))
    for sentence in sentences:
        st.markdown(as_text(sentence))
    page_capture.words(sentences)
    if laws:
        st.html(_laws_table(laws))
        page_capture.table("Fitted laws", lambda: laws_table(laws))
    st.html(_sizes_table(found, lines))
    page_capture.table("By size", lambda: sizes_table(found, lines))


def _laws(found: Study) -> tuple[Fitted, list[str]]:
    """Return the fitted laws by line, and why others were not fitted, in sentences."""
    if found.obstacles:
        return {}, [f"No law is fitted. {sentence}" for sentence in found.obstacles]
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
    return laws, [f"{', '.join(of)}: {why}" if len(of) < len(found.line_keys()) else why for why, of in refused.items()]


def _findings(found: Study, laws: Fitted) -> list[str]:
    """Return a sentence a line on how many pay."""
    plural, singular = words_of(found.field)
    said = []
    for line in found.line_keys():
        title = line_title(found, line)
        known = next((each for each in laws.get(title, ()) if each.law is SCALABILITY), None)
        if known:
            largest = max(timing.count for timing in found.of(line))
            said.append(f"{f'{title}: ' if title else ''}{in_words(known, largest, plural, singular)}")
    return said


def _cautions(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]]) -> list[str]:
    crowded = {size.count: size.crowded for each in lines.values() for size in each if size.crowded}
    said = []
    if crowded:
        which = ", ".join(f"{count} ({why})" for count, why in sorted(crowded.items()))
        said.append(
            f"Hollow points are oversubscribed, {found.field} {which}: they tell of this machine more than of "
            "the method."
        )
    if all(size.runs == 1 for each in lines.values() for size in each):
        said.append("Every point is one run, so none has an interval. More seeds give them one.")
    elif found.unit:
        said.append(
            f"{EXPLAINED} Speed-up compares {found.unit} a second, seed by seed; where the reference lacks a "
            "seed it is a ratio of two means, whose interval "
            "holds the error of both."
        )
    return said


def _laws_table(laws: Fitted) -> str:
    headers = ["Line", "Law", "Parameters with 95 % interval", "Best count", "Off by"]
    rows = []
    for title, fits in laws.items():
        for known in fits:
            parameters = "<br>".join(
                f"{each.name} {each.value:.3g} ({each.low:.2g} to {each.high:.2g})" for each in known.parameters
            )
            best = best_count(known) if known.law is SCALABILITY else None
            told = "–" if best is None else f"{best:.0f}" if isfinite(best) else "none seen"
            rows.append([escape(title or "measured"), escape(known.law.name), parameters, told, f"{known.error:.1%}"])
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
            *([f'<span class="pl-nowrap">{escape(title)}</span>'] if len(lines) > 1 else []),
            str(size.count),
            str(size.runs),
            *(with_interval(each) for each in (size.time_s, size.per_second, size.speed_up, size.efficiency)),
            f'<span class="pl-nowrap">{escape(f"oversubscribed: {size.crowded}" if size.crowded else "")}</span>',
        ]
        for title, each_size in lines.items()
        for size in each_size
    ]
    return table(headers, rows, caption="Scaling by size")
