"""One published figure on its page: verdict, picture over the published numbers, the rules that led to it, what is
missing, and its launch.
"""

from collections.abc import Sequence
from html import escape
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.actions import submit
from app.actions.sweep_forecast import in_a_line
from app.figures.chart import HEIGHT_PX, numbers, picture, points
from app.figures.export import leave, said_of
from app.figures.reasons import reasons
from app.report import page_capture
from app.ui import components, permissions
from app.ui.config_form import label_of
from app.ui.html import as_text, sweep_link, when
from app.ui.store_access import reading
from engine.errors import EngineError
from engine.published import EXECUTION, PASSES, WHOLE, Figure, Size, figure
from engine.published.judgement import Judgement, judge, size_of, sweeps_of
from engine.published.launch import order_of
from engine.published.verdict import Verdict
from engine.registry import experiment
from engine.store import Sweep

EVERY_MS = 2_000
STARTUP = "Without start-up, which the published timings contain."
ALONE = "The published times contain start-up, so they are not drawn beside execution alone."
COLOURS: dict[Verdict, Literal["green", "blue", "red", "orange", "gray"]] = {
    "reproduced": "green",
    "set-up assumed": "blue",
    "trend only": "blue",
    "not reproduced": "red",
    "too few seeds": "orange",
    "not comparable": "gray",
}


@st.fragment
def section(name: str) -> None:
    """Show one figure, and again whenever its sweep has news."""
    found = figure(name)
    with reading() as reader, reader.db.snapshot():
        sweeps = sweeps_of(reader, found)
        top = st.container()
        sweep = _chosen(found, sweeps)
        token = reader.sweeps.token(sweep.id) if sweep else 0
        judged = judge(reader, found, sweep) if sweep else None
        runs = reader.sweeps.runs(sweep.id) if sweep else []
    with top:
        leaving = _heading(found, judged)
    left, right = st.columns([5, 3], gap="large")
    with page_capture.keeping() as shown:
        page_capture.facts("The figure", said_of(found, judged))
        with left:
            _picture(found, judged)
        with right:
            _about(found, judged)
            _launches(found, judged)
        if judged:
            reasons(judged)
    with leaving:
        leave(found, judged, runs, shown)
    if sweep:
        components.pulse(token, sweep_id=sweep.id, active=sweep.active, every_ms=EVERY_MS)


def _chosen(found: Figure, sweeps: Sequence[Sweep]) -> Sweep | None:
    """Return the sweep to show: the newest, or the one asked for where there are several; a link asks by `sweep` beside
    `figure`.
    """
    if len(sweeps) < 2:
        return sweeps[0] if sweeps else None
    names = {sweep.id: f"{sweep.id}: {size_of(sweep, found)}, by {sweep.owner}" for sweep in sweeps}
    linked = st.query_params.get("sweep", "") if st.query_params.get("figure") == found.name else ""
    start = next((place for place, sweep_id in enumerate(names) if str(sweep_id) == linked), 0)
    wanted = st.selectbox(
        "Sweep", list(names), start, format_func=names.__getitem__, key=f"sweep-of-{found.name}", width=420
    )
    return next((sweep for sweep in sweeps if sweep.id == wanted), sweeps[0])


def _heading(found: Figure, judged: Judgement | None) -> DeltaGenerator:
    """Show the title and what is known in a word; return the place beside them."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(as_text(found.title), anchor=found.name.replace("_", "-"), width="content")
        if judged and judged.sweep.active:
            st.badge(
                (
                    f"{'paused' if judged.sweep.paused else 'under way'}, {judged.sweep.ended} of "
                    f"{judged.sweep.total} runs ended"
                ),
                color="blue",
            )
        if judged and judged.verdict:
            st.badge(judged.verdict, color=COLOURS[judged.verdict])
        elif not judged:
            st.badge("not launched yet", color="gray")
        elif not judged.sweep.active:
            st.badge("no run finished", color="gray")
        if found.assumed and not (judged and judged.verdict == "set-up assumed"):
            st.badge(
                "set-up assumed",
                color="violet",
                help=f"The source leaves open and was assumed: {as_text(found.assumed)}.",
            )
        beside = st.container(width="content")
    st.text(f"Published: {found.claim}")
    return beside


def _picture(found: Figure, judged: Judgement | None) -> None:
    name = found.number
    if name == WHOLE and st.toggle("Execution alone", key=f"execution-{found.name}", bind="query-params", help=STARTUP):
        name = EXECUTION
    readings = judged.evidence.readings.get(name, ()) if judged else ()
    if not readings and not found.published:
        st.caption(
            "The source shows a picture without numbers. Ours appears here when the first run of a sweep has finished."
        )
        return
    drawn, colours = picture(found, readings, name, _x_title(found))
    components.figure(
        f"figure-{found.name}-{name}",
        drawn,
        alt=f"{found.title}, measured here and as published",
        height=HEIGHT_PX,
        colours=colours,
    )
    if name == EXECUTION and found.published:
        st.caption(ALONE)
        page_capture.words([ALONE])
    with st.expander("Numbers"):
        st.html(numbers(found, readings, name))
    page_capture.table("Numbers", points(found, readings, name))


def _about(found: Figure, judged: Judgement | None) -> None:
    pairs = [("Source", escape(found.source))]
    if found.assumed:
        pairs.append(("Set-up assumed", f"{escape(found.assumed[0].upper() + found.assumed[1:])}."))
    if found.chosen:
        pairs.append(("Chosen by its outcome", f"{escape(found.chosen[0].upper() + found.chosen[1:])}."))
    if found.note:
        pairs.append(("Read with care", escape(found.note)))
    if judged:
        sweep, reduced = judged.sweep, found.versions[judged.size].reduced
        runs = f"{len(judged.evidence.finished)} of {judged.evidence.planned} runs finished"
        pairs.append(
            (
                "Measured by",
                (
                    f"{sweep_link(f'sweep {sweep.id}', sweep.id)}, {judged.size}, launched "
                    f"{when(sweep.created_at)}: {runs}."
                ),
            )
        )
        if reduced:
            pairs.append(("Reduced", escape(" ".join(reduced))))
    st.html("".join(f'<p class="pl-said"><small>{label}</small><br>{words}</p>' for label, words in pairs))


def _launches(found: Figure, judged: Judgement | None) -> None:
    """Offer each size with what it takes."""
    for size, version in found.versions.items():
        order = order_of(found, size)
        try:
            planned = order.plan()
            less = version.reduced if not judged or judged.size != size else ()
            cost = in_a_line(found.experiment, planned, order.exclusive)
        except EngineError as error:
            st.caption(as_text(f"{size.capitalize()}: {error}"))
            continue
        with st.container(gap="xsmall"):
            kind: Literal["primary", "secondary"] = "primary" if size == "reduced" else "secondary"
            if st.button(
                f"Launch {size}: {len(planned.cells)} runs",
                key=f"launch-{found.key(size)}",
                type=kind,
                **permissions.control("launch sweep"),
            ):
                _launch(found, size)
            st.caption(as_text(" ".join([cost, *less])))


def _launch(found: Figure, size: Size) -> None:
    submit.order(order_of(found, size))


def _x_title(found: Figure) -> str:
    if found.axis == PASSES:
        return "Passes over the data, all ranks together"
    return label_of(found.axis, experiment(found.experiment).config.model_fields[found.axis])
