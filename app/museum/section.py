"""One exhibit on its page: a switch between the published code and the right way, the picture and numbers of both, and
what caught the fault.
"""

from html import escape

import streamlit as st

from app.actions.submit import PendingLaunch, order
from app.core.base_path import at
from app.links.launch import LAUNCH
from app.museum.chart import HEIGHT_PX, numbers, picture, points
from app.ui import components, permissions
from app.ui.html import as_text, run_link, when
from engine.home import ROOT
from engine.museum.latest_runs import NAME, Visit
from engine.museum.outcome import Way
from engine.museum.source import code_of, module_of, path_of
from engine.registry import experiment
from engine.signs.sign import Sign
from engine.store.records import RunRow


def section(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show one exhibit with its newest visit; `coming` is a run that is about to show it anew."""
    key = f"museum.fault.{sign.name}"
    st.session_state.setdefault(key, True)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.header(sign.title, anchor=sign.name.replace("_", "-"), width="content")
        _badges(visit, coming)
        way: Way = (
            "wrong"
            if st.toggle("As published", key=key, help="On: the published code. Off: the right way.")
            else "right"
        )
    st.html(f'<p class="pl-said"><small>{escape(sign.source)}</small></p>')
    left, right = st.columns([5, 4], gap="large")
    with left:
        if visit:
            _picture(sign, visit, way)
        else:
            st.caption(
                "Its picture stands here once it has been run."
                if not coming
                else "Its picture comes as soon as both ways have been run."
            )
    with right:
        _words(sign, visit, way)
    with st.expander("The code that runs"):
        whole = st.toggle(
            "The whole module", key=f"museum.whole.{sign.name}", help="Off: what the other way does not share."
        )
        st.code(module_of(sign) if whole else code_of(sign, way), language="python")
        st.caption(as_text(str(path_of(sign).relative_to(ROOT))))
    _footer(sign, visit, coming)


def _badges(visit: Visit | None, coming: RunRow | None) -> None:
    """Show what is known of an exhibit in a word or two."""
    if visit and visit.caught:
        st.badge("caught", color="green", help="The invariant held the right way and was broken by the published code.")
    elif visit:
        st.badge("fault not seen", color="orange", help=as_text(visit.unseen))
    if coming:
        st.badge("queued" if coming.status == "queued" else "under way", color="blue")
    elif not visit:
        st.badge("not run yet", color="gray")


def _picture(sign: Sign, visit: Visit, way: Way) -> None:
    drawn, colours = picture(sign, visit.outcomes, way)
    components.figure(
        f"museum-{sign.name}",
        drawn,
        alt=f"{sign.title}: {sign.y}, published code and right way",
        height=HEIGHT_PX,
        colours=colours,
    )
    st.caption(as_text(sign.seen))
    with st.expander("Numbers of the picture"):
        st.html(points(sign, visit.outcomes))


def _words(sign: Sign, visit: Visit | None, way: Way) -> None:
    label, words = ("What the published code does", sign.wrong) if way == "wrong" else ("What is right", sign.right)
    st.html(f'<p class="pl-said"><small>{label}</small><br>{_marked(words)}</p>')
    if not visit:
        st.html(f'<p class="pl-said"><small>What to look for</small><br>{_marked(sign.seen)}</p>')
        return
    st.html(numbers(sign, visit.outcomes, way))
    if way == "wrong" and (error := visit.outcomes["wrong"].error):
        st.html('<p class="pl-said"><small>The error it ends in</small></p>')
        st.code(error, language=None, wrap_lines=True)
    _caught(sign, visit, way)


def _caught(sign: Sign, visit: Visit, way: Way) -> None:
    """Say what the invariant said of the way that is switched on, and which test of ours holds the engine to it."""
    if way == "wrong":
        st.html('<p class="pl-said"><small>What would have caught it: the invariant says</small></p>')
        st.code(visit.caught or visit.unseen, language=None, wrap_lines=True)
    else:
        st.html('<p class="pl-said"><small>The invariant</small><br>It holds.</p>')
    path, _, name = sign.guard.partition("::")
    st.html(
        f'<p class="pl-said"><small>Our engine is held to it by</small><br>{escape(name)} <span '
        f'class="pl-quiet">in {escape(path)}</span></p>'
    )


def _footer(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if st.button(
            "Run it again" if visit else "Run it",
            key=f"museum.run.{sign.name}",
            **permissions.control("launch", disabled=coming is not None),
        ):
            launch(sign.name)
        if visit:
            by = (
                f"{run_link(f'run {visit.run.id}', visit.run.id)} by {escape(visit.run.owner)}, "
                f"{when(visit.run.created_at)}"
            )
            st.html(f'<span class="pl-quiet">As shown by {by}</span>', width="content")
        launches = f'<a href="{at(LAUNCH)}?experiment={sign.system}">Launch {escape(experiment(sign.system).title)}</a>'
        st.html(
            f'<span class="pl-quiet">{launches}, described in docs/experiments/{sign.system}.md</span>', width="content"
        )


def launch(exhibit: str) -> None:
    """Queue a run of one exhibit or of all; the page stays."""
    found = experiment(NAME)
    preset = exhibit if exhibit in found.presets else None
    order(PendingLaunch(NAME, preset, found.configure(changes={"exhibit": exhibit}), stays=True))


def _marked(words: str) -> str:
    """Return a sentence as HTML, what stands between backquotes as code."""
    parts = escape(words).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
