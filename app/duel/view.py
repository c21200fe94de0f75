"""The page of one duel: progress, verdict, curves, paired differences, time to target, tuning and uncontrolled
differences.
"""

import streamlit as st

from app.duel.export import leave, note, note_tables
from app.duel.header import heading, title_of, waits_for_the_runner
from app.duel.results import show_judged, show_runs, show_tuning, show_unlike, show_verdict
from app.report import page_capture
from app.ui import components, widgets
from app.ui.store_access import reading
from app.ui.time_difference import show_not_learned, time_difference
from engine.duel.evidence import by_strategy, gather
from engine.duel.outcome import outcome

EVERY_MS = 2_000


@st.fragment
def page(duel_id: int) -> None:
    """Show the duel; redraw whenever one of its runs changes."""
    with reading(lambda: components.pulse(-1, duel_id=duel_id)) as reader:
        found = outcome(gather(reader, duel_id))
        if found.evidence.active or not found.evidence.runs or waits_for_the_runner(found):
            widgets.runner_banner(reader)
    leaving = heading(found)
    with page_capture.keeping() as shown:
        note(found)
        show_verdict(found)
        with reading() as reader:
            show_not_learned(by_strategy(found.evidence))
            time_difference(by_strategy(found.evidence), reader)
        show_judged(found)
        show_tuning(found)
        note_tables(found)
    with leaving:
        leave(found, title_of(found), shown)
    show_unlike(found.evidence.duel)
    show_runs(found)
    components.pulse(
        found.evidence.token,
        duel_id=duel_id,
        active=found.evidence.active or waits_for_the_runner(found),
        every_ms=EVERY_MS,
    )
