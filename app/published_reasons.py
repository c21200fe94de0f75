"""What led to the verdict on a published figure, and what is missing for one."""

from dataclasses import replace
from html import escape

import streamlit as st

from app.markup import as_text, table
from engine.published.judging import Judgement
from engine.published.rules import Check
from engine.published.verdict import Verdict

MEANS: dict[Verdict, str] = {
    "reproduced": "Every rule holds.",
    "trend only": "The shape is as published; the values are not, or could not be held against the published ones.",
    "not reproduced": "A rule was clearly broken.",
    "too few seeds": "Some rules are still open. Add seeds by Extend on the sweep's page, or try again what failed.",
    "not comparable": "What was run is not what the figure is about, or not under one set of conditions.",
}


def reasons(judged: Judgement) -> None:
    """Say what led to the verdict, and what is missing."""
    for sentence in judged.evidence.obstacles[:3]:
        st.warning(as_text(sentence))
    for sentence in judged.evidence.missing:
        st.warning(as_text(sentence))
    if judged.verdict is None:
        st.caption("There is no verdict before a run has finished.")
        return
    st.caption(as_text(f"{judged.verdict.capitalize()}{' so far' if judged.sweep.active else ''}: {MEANS[judged.verdict]}"))
    unjudged = [check for check in judged.checks if check.outcome == "not judged"]
    rows = [_row(check) for check in judged.checks if check.outcome != "not judged"]
    if unjudged:
        told = unjudged[0].rule if len(unjudged) == 1 else f"The {len(unjudged)} published values"
        rows.append(_row(replace(unjudged[0], rule=told)))
    st.html(table(["Rule", "Of", "Outcome", "Numbers"], rows, caption=f"Rules of {judged.figure.title}"))


def _row(check: Check) -> list[str]:
    return [escape(check.rule), check.kind, f'<span class="pl-nowrap">{check.outcome}</span>', escape(check.numbers)]
