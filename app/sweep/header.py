"""The top of a sweep's page: what varies, whose it is, how far it is, and what can be done with it; and its entry in a
list.
"""

from html import escape

import streamlit as st

from app.actions import sweep_forecast
from app.charts.sweep_data import experiment_of
from app.sweep.actions import actions
from app.ui import permissions, widgets
from app.ui.html import as_text, bar, figure_link, sweep_link, when
from engine.analysis.seedings import mixture
from engine.analysis.sweep_cells import newest
from engine.config_values import value_in_words
from engine.store import Sweep
from engine.store.records import ENDED, RunRow


def heading(sweep: Sweep, runs: list[RunRow]) -> None:
    """Show the top of the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Sweep {sweep.id}: {name_of(sweep)}"), anchor=False, width="stretch")
        with st.popover("Link", help="The address of this page, to keep or to send."):
            st.code(widgets.page_address(f"/sweep?sweep={sweep.id}"), language=None, wrap_lines=True)
        actions(sweep, runs)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for status, count in sweep.statuses.items():
            st.badge(f"{count} {status}", color=widgets.COLOURS[status])
        if sweep.paused:
            st.badge("paused", color="orange")
            st.text("Its queued runs wait until someone lets it go on.")
    permissions.say_whose(f"Sweep {sweep.id}", sweep.owner)
    if mixed := mixture(runs):
        st.warning(as_text(f"{mixed} Means over seeds mix them."))
    if sweep.active:
        st.html(bar(share_done(newest(sweep, runs)), f"Progress of sweep {sweep.id}"))
        sweep_forecast.what_is_left(sweep)
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    widgets.show_facts(
        [
            ("Experiment", escape(f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}")),
            ("Owner", escape(sweep.owner)),
            ("Launched", when(sweep.created_at)),
            *(
                (f"Values of {field}", escape(sweep.draw["over"][field] if sweep.draw else _values(sweep.grid[field])))
                for field in sweep.fields
            ),
            ("Seeds", escape(_values(sweep.seeds))),
            ("Runs ended", f"{sweep.ended} of {sweep.total}"),
            *([("Reproduces", figure_link(sweep.figure))] if sweep.figure else []),
            *([("Recorded", "in another lab; each run says where")] if sweep.is_imported else []),
            *([("Drawn", f"{sweep.draw['count']} at random, seed {sweep.draw['seed']}")] if sweep.draw else []),
            *([("Timed", "one at a time, nothing beside it")] if sweep.exclusive else []),
            *(
                [("Stops after", f"{sweep.stop_after} {'failure' if sweep.stop_after == 1 else 'failures'}")]
                if sweep.stop_after
                else []
            ),
        ]
    )


def entry(sweep: Sweep) -> None:
    """Show one sweep in a list."""
    said = ", ".join(
        [*(["paused"] if sweep.paused else []), *(f"{count} {status}" for status, count in sweep.statuses.items())]
    )
    facts = (
        *([escape(_kind(sweep))] if sweep.name else []),
        f"by {escape(sweep.owner)}",
        f"launched {when(sweep.created_at)}",
        escape(said),
    )
    with st.container(border=True, gap="xsmall"):
        st.html(
            f"{sweep_link(f'{sweep.id}: {name_of(sweep)}', sweep.id)}<div "
            f'class="pl-row">{"".join(f"<span>{fact}</span>" for fact in facts)}</div>'
        )


def name_of(sweep: Sweep) -> str:
    """Return what a sweep is called: its name, or what varies of which experiment."""
    return sweep.name or _kind(sweep)


def _kind(sweep: Sweep) -> str:
    known = experiment_of(sweep)
    return f"{known.title if known else sweep.experiment} over {' and '.join(sweep.fields)}"


def share_done(runs: list[RunRow]) -> float:
    """Return the share of a sweep's work that is done, a run that ended early counted whole."""
    return sum(1.0 if run.status in ENDED else run.progress for run in runs) / max(1, len(runs))


def _values(values: tuple[object, ...]) -> str:
    """Return values in words, a row of whole numbers as its ends."""
    first = values[0] if values else None
    if len(values) > 3 and isinstance(first, int) and values == tuple(range(first, first + len(values))):
        return f"{first} to {values[-1]}"
    return ", ".join(value_in_words(value) for value in values)
