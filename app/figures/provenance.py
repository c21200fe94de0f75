"""Where a published figure comes from: its source, assumptions and caveats, and the sweep that measured it."""

import streamlit as st

from app.ui.html import joined, labelled, sweep_link, when
from engine.published import Figure
from engine.published.judgement import Judgement


def provenance(found: Figure, judged: Judgement | None) -> None:
    """Show them as labelled paragraphs."""
    pairs = [("Source", found.source)]
    if found.assumed:
        pairs.append(("Assumed set-up", f"{found.assumed[0].upper() + found.assumed[1:]}."))
    if found.chosen:
        pairs.append(("Chosen by outcome", f"{found.chosen[0].upper() + found.chosen[1:]}."))
    if found.note:
        pairs.append(("Caveat", found.note))
    if judged:
        sweep, reduced = judged.sweep, found.versions[judged.size].reduced
        runs = f"{len(judged.evidence.finished)} of {judged.evidence.planned} runs finished"
        measured = sweep_link(f"sweep {sweep.id}", sweep.id) + f", {judged.size}, launched "
        pairs.append(("Measured in", measured + when(sweep.created_at) + f": {runs}."))
        if reduced:
            pairs.append(("Reductions", " ".join(reduced)))
    st.html(joined((labelled(label, words) for label, words in pairs), ""))
