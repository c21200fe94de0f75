"""One exhibit on its page: a switch between published and corrected code, the chart and values of both, and the
invariant's result.
"""

import streamlit as st

from app.core.base_path import at
from app.links.launch import LAUNCH
from app.museum.chart import HEIGHT_PX, numbers, picture, points
from app.museum.parts import badges, engine_test, launch_button, marked, results_of
from app.ui import components
from app.ui.documentation import guide
from app.ui.html import as_text, labelled, link, paragraph, quiet, small
from engine.home import ROOT
from engine.museum.latest_runs import Visit
from engine.museum.outcome import Way
from engine.museum.source import code_of, module_of, path_of
from engine.registry import experiment
from engine.signs.sign import Sign
from engine.store.records import RunRow


def section(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show one exhibit with its newest visit; `coming` is an active run that will show it again."""
    key = f"museum.fault.{sign.name}"
    st.session_state.setdefault(key, True)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.title(as_text(sign.title), anchor=False, width="content")
        badges(visit, coming)
        way: Way = (
            "wrong" if st.toggle("As published", key=key, help="On: published code. Off: corrected code.") else "right"
        )
    st.html(paragraph(small(sign.source)))
    left, right = st.columns([5, 4], gap="large")
    with left:
        if visit:
            _picture(sign, visit, way)
        else:
            st.caption(
                "The chart appears after the first run."
                if not coming
                else "The chart appears when both versions have run."
            )
    with right:
        _words(sign, visit, way)
    with st.expander("Source code"):
        whole = st.toggle(
            "Whole module", key=f"museum.whole.{sign.name}", help="Off: only the code of the selected version."
        )
        st.code(module_of(sign) if whole else code_of(sign, way), language="python")
        st.caption(as_text(str(path_of(sign).relative_to(ROOT))))
    _footer(sign, visit, coming)


def _picture(sign: Sign, visit: Visit, way: Way) -> None:
    drawn, colours = picture(sign, visit.outcomes, way)
    components.figure(
        f"museum-{sign.name}",
        drawn,
        alt=f"{sign.title}: {sign.y}, published and corrected code",
        height=HEIGHT_PX,
        colours=colours,
    )
    st.caption(as_text(sign.seen))
    with st.expander("Table"):
        st.html(points(sign, visit.outcomes))


def _words(sign: Sign, visit: Visit | None, way: Way) -> None:
    label, words = ("Published code", sign.wrong) if way == "wrong" else ("Correct behaviour", sign.right)
    st.html(labelled(label, marked(words)))
    if not visit:
        st.html(labelled("Expected result", marked(sign.seen)))
        return
    st.html(numbers(sign, visit.outcomes, way))
    if way == "wrong" and (error := visit.outcomes["wrong"].error):
        st.html(paragraph(small("Error raised")))
        st.code(error, language=None, wrap_lines=True)
    _caught(sign, visit, way)


def _caught(sign: Sign, visit: Visit, way: Way) -> None:
    """Show the invariant's result for the selected version, and the engine test of the same rule."""
    if way == "wrong":
        st.html(paragraph(small("Error of the invariant")))
        st.code(visit.caught or visit.unseen, language=None, wrap_lines=True)
    else:
        st.html(labelled("Invariant", "It holds."))
    st.html(engine_test(sign))


def _footer(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        launch_button(sign, visit, coming)
        if visit:
            st.html(results_of(visit), width="content")
        launches = link(f"Launch {experiment(sign.system).title}", f"{at(LAUNCH)}?experiment={sign.system}")
        st.html(quiet(launches + " · " + guide(sign.system, "Guide of this system")), width="content")
