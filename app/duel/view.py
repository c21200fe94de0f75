"""The page of one duel: progress, verdict, curves, paired differences, time to target, tuning and uncontrolled
differences.
"""

import streamlit as st

from app.charts.curve_charts import extents, groups_frame
from app.duel import charts, tables
from app.duel.header import heading, leave, note, note_tables, title_of, waits_for_the_runner
from app.links import addresses
from app.report import page_capture
from app.ui import components, widgets
from app.ui.html import as_text
from app.ui.store_access import message_of, reading
from app.ui.time_difference import show_not_learned, time_difference
from engine.analysis.duel import ERROR
from engine.analysis.statistics.intervals import LIMIT
from engine.duel.evidence import DuelEvidence, by_strategy, gather
from engine.duel.launch import facts
from engine.duel.outcome import DuelOutcome, amount_in_words, outcome
from engine.duel.spec import Duel
from engine.errors import EngineError
from engine.metrics import metric

EVERY_MS = 2_000


@addresses.fragment
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


# ------------------------------------------------------------------------------------------------------------------
# Results of a duel: verdict, curves, paired differences, time to target, tuning, uncontrolled differences, runs.


def show_verdict(found: DuelOutcome) -> None:
    """Show the verdict, or the obstacles to it."""
    for sentence in found.tuned.obstacles:
        st.warning(as_text(sentence))
    if found.verdict:
        so_far = "So far: " if any(each.on for each in found.evidence.of("judging")) else ""
        st.markdown(f"**{as_text(so_far + found.verdict)}**")
        explained = (
            f"Brackets and error bars: 95 % confidence interval of the mean over paired seeds. {LIMIT} "
            f"A lead requires p ≤ {ERROR:g} after Holm correction. "
            f"Tie margin: {found.evidence.duel.margin:g}{found.unit}."
        )
        st.caption(as_text(explained))
        page_capture.words([explained])
    elif not found.tuned.obstacles:
        st.caption("The verdict appears when an evaluation run of each strategy has ended.")
    for sentence in found.cautions:
        st.markdown(f":orange-badge[Caution] {as_text(sentence)}")


def show_judged(found: DuelOutcome) -> None:
    """Show the curves of the evaluation runs, the time to target and the paired differences."""
    evidence, kind = found.evidence, found.evidence.duel.budget.kind
    if not any(each.at for each in evidence.of("judging")):
        return
    st.header("Within the budget", anchor=False)
    against: str = kind
    if kind != charts.SECONDS:
        choices = (kind, charts.SECONDS)
        against = (
            st.segmented_control(
                "X-axis",
                choices,
                required=True,
                label_visibility="collapsed",
                **addresses.kept("against", kind, choices),
            )
            or kind
        )
    every = charts.lines(evidence, against)
    drawn = [each for each in every if each]
    picture = charts.curves(evidence, every, against)
    label = metric(evidence.duel.metric).label
    components.figure(
        f"duel-curves-{against}",
        picture.figure,
        alt=f"{label} against {against}",
        height=charts.CURVES_PX,
        colours=picture.colours,
    )
    beyond = [
        each
        for each in evidence.of("judging")
        if any(test.spent > evidence.duel.budget.amount * (1 + 1e-9) for test in each.tests)
    ]
    limit = [] if found.verdict else [LIMIT]
    said = " ".join([_what_was_cut(evidence, len(beyond)), *extents(drawn), *limit])
    st.caption(as_text(said))
    page_capture.words([said])
    with st.expander("Table", key="duel-curves-table", on_change="rerun") as fold:
        if fold.open:
            st.dataframe(
                groups_frame(drawn, against),
                hide_index=True,
                height=320,
                alt=f"Values of {label} against {against}",
            )
    st.html(tables.reached_table(found))
    if any(each.found for each in found.found):
        st.header("Paired differences", anchor=False)
        figure, colours, height = charts.pairs(found)
        components.figure(
            "duel-pairs", figure, alt="Paired differences with their intervals", height=height, colours=colours
        )
        margin = " Grey band: tie margin." if evidence.duel.margin else ""
        st.caption(as_text(f"Above 0, the first strategy of the pair has the higher {label.lower()}.{margin}"))
        st.html(tables.pairs_table(found))


def _what_was_cut(evidence: DuelEvidence, beyond: int) -> str:
    whole = amount_in_words(evidence.duel.budget.kind, evidence.duel.budget.amount)
    cut = f"Tests past {whole} are excluded ({beyond} {'run' if beyond == 1 else 'runs'}). " if beyond else ""
    band = (
        "Mean over seeds with 95 % confidence interval (min to max below 3 seeds), where every run has values: on "
        "the straight line between two tests, and from the last one until the end of the budget its result"
    )
    return f"{cut}{band}."


def show_tuning(found: DuelOutcome) -> None:
    """Show the results per learning rate."""
    if not found.evidence.of("tuning"):
        return
    st.header("Tuning", anchor=False)
    if any(each.value is not None for each in found.evidence.of("tuning")):
        figure, colours, height = charts.tuning(found)
        components.figure("duel-tuning", figure, alt="Result per learning rate", height=height, colours=colours)
        st.caption(
            "One row per strategy and learning rate, with its mean over the tuning seeds. The best mean is selected. "
            "Tuning seeds are not used for evaluation."
        )
    st.html(tables.tuning_table(found))


def show_unlike(duel: Duel) -> None:
    """Show the differences between strategies that the budget cannot equalise."""
    st.header("Uncontrolled differences", anchor=False)
    st.caption("Initial weights and seeds are identical. The budget cannot equalise these.")
    try:
        st.html(tables.facts_table(facts(duel)))
    except EngineError as error:
        st.caption(as_text(message_of(error)))


def show_runs(found: DuelOutcome) -> None:
    """Show the evaluation and tuning runs."""
    st.header("Runs", anchor=False)
    if found.evidence.of("judging"):
        st.html(tables.runs_table(found, "judging"))
    with st.expander("Tuning runs", expanded=not found.evidence.of("judging")):
        st.html(tables.runs_table(found, "tuning"))
