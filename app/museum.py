"""An exhibit of the museum: as a card, with its newest result in a line, and on its page, with a switch between
published and corrected code.
"""

from collections.abc import Mapping

import plotly.graph_objects as go
import streamlit as st
from markupsafe import Markup

from app.actions import submit
from app.charts.sweep_charts import scale
from app.core.assets import at
from app.links import addresses
from app.links.launch import LAUNCH
from app.ui import components, current_user
from app.ui.documentation import guide
from app.ui.html import (
    as_text,
    block,
    code,
    joined,
    labelled,
    link,
    number,
    paragraph,
    quiet,
    run_link,
    small,
    strong,
    table,
    when,
)
from app.ui.widgets import PAGES
from engine.home import ROOT
from engine.museum.exhibit import Outcome, Sign, Way
from engine.museum.latest_runs import NAME, Visit
from engine.registry import experiment
from engine.store import Launch
from engine.store.records import RunRow

# ---- The chart of an exhibit with both versions, and its tables. Pure; the theme sets the colours ------------------

HEIGHT_PX, MOST_MARKERS = 320, 60
NAMES: Mapping[Way, str] = {"wrong": "published code", "right": "corrected code"}
COLOURS = [1, 0]


def picture(sign: Sign, outcomes: Mapping[Way, Outcome], way: Way) -> go.Figure:
    """Return the chart of an exhibit with the selected version emphasised, its traces in `COLOURS` of the palette."""
    drawn = go.Figure()
    for each, name in NAMES.items():
        series, is_strong, is_wrong = outcomes[each].series, each == way, each == "wrong"
        drawn.add_scatter(
            x=list(series),
            y=list(series.values()),
            name=name,
            mode="lines+markers" if len(series) <= MOST_MARKERS else "lines",
            marker={"symbol": "x" if is_wrong else "circle", "size": 8 if is_strong else 6},
            line={"width": 2.6 if is_strong else 1.6, "dash": "dash" if is_wrong else "solid"},
            opacity=1.0 if is_strong else 0.7,
            hovertemplate=f"{sign.x} %{{x:,}}: %{{y:.4g}}<extra>{name}</extra>",
        )
    xs = sorted({float(x) for outcome in outcomes.values() for x in outcome.series})
    ys = [0.0, *(y for outcome in outcomes.values() for y in outcome.series.values())]
    edge = 0.05 * (max(ys) - min(ys)) or 1.0
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": sign.x, **(scale(xs) if len(xs) <= 6 else {})},
        yaxis={"title": sign.y, "range": [min(ys) - edge, max(ys) + edge]},
        hovermode="closest",
        showlegend=True,
    )
    return drawn


def numbers(sign: Sign, outcomes: Mapping[Way, Outcome], way: Way) -> str:
    """Return the values of both versions as a table, with the selected version in bold."""
    rows = []
    for found in sign.numbers:
        cells = {each: number(outcomes[each].numbers.get(found.key)) for each in NAMES}
        cells[way] = strong(cells[way])
        rows.append([f"{found.label} ({found.unit})" if found.unit else found.label, *cells.values()])
    return table(["Metric", "Published code", "Corrected code"], rows, caption=f"Values of {sign.title}")


def points(sign: Sign, outcomes: Mapping[Way, Outcome]) -> str:
    """Return the chart's values as a table: one row per x."""
    xs = sorted({x for outcome in outcomes.values() for x in outcome.series})
    rows = [[f"{x:,}", *(number(outcomes[way].series.get(x)) for way in NAMES)] for x in xs]
    return table([sign.x, "Published code", "Corrected code"], rows, caption=f"{sign.y}: {sign.title}")


# ---- An exhibit of the museum --------------------------------------------------------------------------------------
# as a card, with its newest result in a line, and on its page, with a switch between published and corrected code.


def launch(exhibit: str) -> None:
    """Queue a run of one exhibit or all, and stay on the page."""
    found = experiment(NAME)
    preset = exhibit if exhibit in found.presets else None
    config = found.configure(changes={"exhibit": exhibit}).model_dump(mode="json")
    submit.submit(Launch(NAME, config, preset=preset), stays=True)


def card(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show one exhibit as a card with its newest visit; `coming` is an active run that will show it again."""
    st.subheader(as_text(sign.title), anchor=sign.name.replace("_", "-"))
    with st.container(horizontal=True, gap="small"):
        _badges(visit, coming)
    st.html(paragraph(_marked(sign.wrong)))
    if visit:
        st.html(_result(sign, visit))
        if st.button("View result", key=f"museum.view.{sign.name}"):
            addresses.go(PAGES["museum"], {"exhibit": sign.name})
    else:
        _launch_button(sign, visit, coming)
    details = [labelled("Correct behaviour", _marked(sign.right)), labelled("Source", sign.source), _engine_test(sign)]
    if visit:
        details.append(_results_of(visit))
    details.append(paragraph(link("Chart and source code", f"{at('/museum')}?exhibit={sign.name}")))
    with st.expander("Details"):
        st.html(joined(details, ""))


def section(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show one exhibit on its page with its newest visit; `coming` is an active run that will show it again."""
    key = f"museum.fault.{sign.name}"
    st.session_state.setdefault(key, True)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.title(as_text(sign.title), anchor=False, width="content")
        _badges(visit, coming)
        published = st.toggle("As published", key=key, help="On: published code. Off: corrected code.")
    way: Way = "wrong" if published else "right"
    st.html(paragraph(small(sign.source)))
    left, right = st.columns([5, 4], gap="large")
    with left:
        if visit:
            _picture(sign, visit, way)
        else:
            st.caption(f"The chart appears {'when both versions have run' if coming else 'after the first run'}.")
    with right:
        _words(sign, visit, way)
    with st.expander("Source code"):
        help_ = "Off: only the code of the selected version."
        whole = st.toggle("Whole module", key=f"museum.whole.{sign.name}", help=help_)
        st.code(sign.path.read_text() if whole else sign.code(way), language="python")
        st.caption(as_text(str(sign.path.relative_to(ROOT))))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        _launch_button(sign, visit, coming)
        if visit:
            st.html(_results_of(visit), width="content")
        launches = link(f"Launch {experiment(sign.system).title}", f"{at(LAUNCH)}?experiment={sign.system}")
        st.html(quiet(launches + " · " + guide(sign.system, "Guide of this system")), width="content")


def _picture(sign: Sign, visit: Visit, way: Way) -> None:
    components.figure(
        f"museum-{sign.name}",
        picture(sign, visit.outcomes, way),
        alt=f"{sign.title}: {sign.y}, published and corrected code",
        height=HEIGHT_PX,
        colours=COLOURS,
    )
    st.caption(as_text(sign.seen))
    with st.expander("Table"):
        st.html(points(sign, visit.outcomes))


def _words(sign: Sign, visit: Visit | None, way: Way) -> None:
    """Show the selected version: description, values, error, and what the invariant says."""
    label, words = ("Published code", sign.wrong) if way == "wrong" else ("Correct behaviour", sign.right)
    st.html(labelled(label, _marked(words)))
    if not visit:
        st.html(labelled("Expected result", _marked(sign.seen)))
        return
    st.html(numbers(sign, visit.outcomes, way))
    if way == "wrong":
        if error := visit.outcomes["wrong"].error:
            st.html(paragraph(small("Error raised")))
            st.code(error, language=None, wrap_lines=True)
        st.html(paragraph(small("Error of the invariant")))
        st.code(visit.caught or visit.unseen, language=None, wrap_lines=True)
    else:
        st.html(labelled("Invariant", "It holds."))
    st.html(_engine_test(sign))


def _badges(visit: Visit | None, coming: RunRow | None) -> None:
    if visit and visit.caught:
        held = "The invariant holds for the corrected code and fails for the published code."
        st.badge("fault seen", color="green", help=held)
    elif visit:
        st.badge("fault not seen", color="orange", help=as_text(visit.unseen))
    if coming:
        st.badge("queued" if coming.status == "queued" else "running", color="blue")
    elif not visit:
        st.badge("not run yet", color="gray")


def _launch_button(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show the button that runs an exhibit, disabled while a run of it is active."""
    control = current_user.control("launch", disabled=coming is not None)
    if submit.button("Run again" if visit else "Run exhibit", f"museum.run.{sign.name}", **control):
        launch(sign.name)


def _result(sign: Sign, visit: Visit) -> Markup:
    """Return the value that summarises an exhibit, of both versions, in a line."""
    first = sign.numbers[0]
    published, corrected = (strong(number(visit.outcomes[way].numbers.get(first.key))) for way in ("wrong", "right"))
    unit = f" {first.unit}" if first.unit and first.unit.lower() not in first.label.lower() else ""
    values = [f"{first.label}: published ", published, ", corrected ", corrected, unit]
    return block("pl-result", joined(values, ""))


def _engine_test(sign: Sign) -> Markup:
    """Return the engine test of the same rule."""
    path, _, name = sign.guard.partition("::")
    return labelled("Test of the engine", f"{name} " + quiet(f"in {path}"))


def _results_of(visit: Visit) -> Markup:
    """Return the run that an exhibit's results are from."""
    shown = run_link(f"run {visit.run.id}", visit.run.id)
    return quiet("Results of " + shown + f" by {visit.run.owner}, " + when(visit.run.created_at))


def _marked(words: str) -> Markup:
    """Return a sentence as HTML, with backquoted parts as code."""
    return joined((code(part) if place % 2 else part for place, part in enumerate(words.split("`"))), "")
