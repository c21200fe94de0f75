"""What led to the verdict on a published figure, and what is missing for one."""

from dataclasses import replace
from html import escape

import streamlit as st

from app.report import page_capture
from app.ui.html import as_text, table
from engine.published.judgement import Judgement
from engine.published.rules import Check
from engine.published.verdict import Verdict
from engine.transfer.tables import Table

RULES = ("Rule", "Of", "Outcome", "Numbers")
MEANS: dict[Verdict, str] = {
    "reproduced": "Every rule holds.",
    "set-up assumed": "Every rule holds, but some of the set-up was chosen because it gives this outcome.",
    "trend only": "The shape is as published; the values are not, were not judged, or the work is less than published.",
    "not reproduced": "A rule was clearly broken.",
    "too few seeds": "Some rules are still open. Add seeds by Extend on the sweep's page, or try again what failed.",
    "not comparable": "What was run is not what the figure is about, or not under one set of conditions.",
}


def reasons(judged: Judgement) -> None:
    """Say what led to the verdict, and what is missing."""
    sentences = [*judged.evidence.obstacles[:3], *judged.evidence.missing]
    for sentence in sentences:
        st.warning(as_text(sentence))
    st.caption(as_text(_verdict(judged)))
    page_capture.words([_verdict(judged), *sentences])
    if judged.verdict is None:
        return
    checks = _shown(judged)
    st.html(table(RULES, [_row(check) for check in checks], caption=f"Rules of {judged.figure.title}"))
    page_capture.table(
        "Rules", Table(RULES, [(check.rule, check.kind, check.outcome, check.numbers) for check in checks])
    )


def _verdict(judged: Judgement) -> str:
    if judged.verdict is None:
        return "There is no verdict before a run has finished."
    return f"{judged.verdict.capitalize()}{' so far' if judged.sweep.active else ''}: {MEANS[judged.verdict]}"


def _shown(judged: Judgement) -> list[Check]:
    """Return the checks as they are listed: those that were not judged as one."""
    unjudged = [check for check in judged.checks if check.outcome == "not judged"]
    rule = f"The {len(unjudged)} published values" if len(unjudged) > 1 else None
    return [
        *(check for check in judged.checks if check.outcome != "not judged"),
        *(replace(check, rule=rule or check.rule) for check in unjudged[:1]),
    ]


def _row(check: Check) -> list[str]:
    return [escape(check.rule), check.kind, f'<span class="pl-nowrap">{check.outcome}</span>', escape(check.numbers)]
