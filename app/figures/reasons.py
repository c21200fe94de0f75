"""The reasons for the verdict on a published figure, and what is missing for one."""

from dataclasses import replace

import streamlit as st

from app.figures.status import verdict_sentence
from app.report import page_capture
from app.ui.html import as_text, nowrap, table
from engine.published.judgement import Judgement
from engine.published.rules import Check, level_explained
from engine.transfer.tables import Table

RULES = ("Rule", "Kind", "Outcome", "Values")


def reasons(judged: Judgement) -> None:
    """Show the verdict, and what is missing."""
    sentences = [*judged.evidence.obstacles[:3], *judged.evidence.missing]
    for sentence in sentences:
        st.warning(as_text(sentence))
    st.text(verdict_sentence(judged))
    page_capture.words([verdict_sentence(judged), *sentences])


def rules(judged: Judgement) -> None:
    """Show the outcome of each rule."""
    if judged.verdict is None:
        return
    checks = _shown(judged)
    with st.expander("Rules", expanded=True):
        st.html(table(RULES, [_row(check) for check in checks], caption=f"Rules of {judged.figure.title}"))
        if said := level_explained(checks):
            st.caption(as_text(said))
            page_capture.words([said])
    page_capture.table(
        "Rules", Table(RULES, [(check.rule, check.kind, check.outcome, check.numbers) for check in checks])
    )


def _shown(judged: Judgement) -> list[Check]:
    """Return the checks to list, with those not judged merged into one."""
    unjudged = [check for check in judged.checks if check.outcome == "not judged"]
    rule = f"{len(unjudged)} published values" if len(unjudged) > 1 else None
    return [
        *(check for check in judged.checks if check.outcome != "not judged"),
        *(replace(check, rule=rule or check.rule) for check in unjudged[:1]),
    ]


def _row(check: Check) -> list[str]:
    return [check.rule, check.kind, nowrap(check.outcome), check.numbers]
