"""The verdict on a published figure in a word and a sentence, and the progress of its sweep."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from app.ui.html import as_text
from app.ui.run_state import NO_RUN
from engine.published import Figure
from engine.published.judgement import Judgement
from engine.published.verdict import Verdict
from engine.store import Sweep

COLOURS: dict[Verdict, Literal["green", "blue", "red", "orange", "gray"]] = {
    "reproduced": "green",
    "set-up assumed": "blue",
    "trend only": "blue",
    "not reproduced": "red",
    "too few seeds": "orange",
    "not comparable": "gray",
}
MEANS: dict[Verdict, str] = {
    "reproduced": "All rules hold.",
    "set-up assumed": "All rules hold, but part of the set-up was chosen because it gives this outcome.",
    "trend only": "The shape matches; the values differ, were not judged, or the workload is reduced.",
    "not reproduced": "At least one rule fails.",
    "too few seeds": "Some rules are undecided. Add seeds with Extend on the sweep's page, or retry failed runs.",
    "not comparable": "The runs don't match the figure, or ran under different conditions.",
}


def badges(found: Figure, judged: Judgement | None, sweeps: Sequence[Sweep]) -> None:
    """Show the verdict, the progress of the newest active one of some sweeps, and whether the set-up is assumed."""
    active = next((sweep for sweep in sweeps if sweep.active), None)
    if active:
        state = "paused" if active.paused else "in progress"
        st.badge(f"{state}, {active.ended} of {active.total} runs ended", color="blue")
    if judged and judged.verdict:
        st.badge(judged.verdict, color=COLOURS[judged.verdict])
    elif not judged:
        st.badge(NO_RUN, color="gray")
    elif not active:
        st.badge("no finished runs", color="gray")
    if found.assumed and not (judged and judged.verdict == "set-up assumed"):
        st.badge("set-up assumed", color="violet", help=f"Not specified by the source: {as_text(found.assumed)}.")


def verdict_sentence(judged: Judgement) -> str:
    """Return the verdict and its meaning, in a sentence."""
    if judged.verdict is None:
        return "The verdict appears when the first run has finished."
    return f"{judged.verdict.capitalize()}{' so far' if judged.sweep.active else ''}: {MEANS[judged.verdict]}"
