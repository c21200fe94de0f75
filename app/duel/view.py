"""One duel on its page: how far it is, who won and by how much, curves, differences, time to the target, the tuning,
and what is unlike.
"""

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.charts.curve_tables import groups_frame
from app.duel import charts, tables
from app.duel.export import leave, note, note_tables
from app.report import page_capture
from app.ui import components, current_user, dialogs, permissions, widgets
from app.ui.html import as_text, bar, when
from app.ui.store_access import reading, told
from engine.analysis.duel import ERROR
from engine.duel.confounders import facts
from engine.duel.evidence import DuelEvidence, gather
from engine.duel.launch import cancel_duel, retry_missing
from engine.duel.outcome import DuelOutcome, amount_in_words, outcome
from engine.duel.spec import Duel
from engine.duel.tuning import is_missing
from engine.errors import EngineError
from engine.home import Home
from engine.metrics import metric
from engine.store import StoredDuel

EVERY_MS = 2_000


@st.fragment
def page(duel_id: int) -> None:
    """Show the duel, and again whenever one of its runs has news."""
    with reading(lambda: components.pulse(-1, duel_id=duel_id)) as reader:
        found = outcome(gather(reader, duel_id))
        if found.evidence.active or not found.evidence.runs or waits_for_the_runner(found):
            widgets.runner_banner(reader)
    leaving = _heading(found)
    with page_capture.keeping() as shown:
        note(found)
        _verdict(found)
        _judged(found)
        _tuning(found)
        note_tables(found)
    with leaving:
        leave(found, _title(found), shown)
    _unlike(found.evidence.duel)
    _runs(found)
    components.pulse(
        found.evidence.token,
        duel_id=duel_id,
        active=found.evidence.active or waits_for_the_runner(found),
        every_ms=EVERY_MS,
    )


def waits_for_the_runner(found: DuelOutcome) -> bool:
    """Say whether the runs that are judged are due, and only the runner has not queued them yet."""
    return found.evidence.stored.stage == "tuning" and found.tuned.rates is not None


def name_of(stored: StoredDuel, duel: Duel) -> str:
    """Return what a duel is called: its name, or who is in it."""
    return stored.name or " against ".join(one.name for one in duel.strategies)


def _title(found: DuelOutcome) -> str:
    return f"Duel {found.evidence.stored.id}: {name_of(found.evidence.stored, found.evidence.duel)}"


def _heading(found: DuelOutcome) -> DeltaGenerator:
    """Show what the duel is and what can be done; return the place for its downloads."""
    evidence, stored, duel = found.evidence, found.evidence.stored, found.evidence.duel
    st.page_link(widgets.PAGES["duel"], label="All duels")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(_title(found)), anchor=False, width="stretch")
        with st.popover("Link", help="The address of this page, to keep or to send."):
            st.code(widgets.page_address(f"/duel?duel={stored.id}"), language=None, wrap_lines=True)
        leaving = st.container(width="content")
        _actions(found)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        word, colour = _state(found)
        st.badge(word, color=colour)
    permissions.say_whose(f"Duel {stored.id}", stored.owner)
    done, planned = (
        sum(each.done for each in evidence.cells),
        len(duel.strategies) * (len(duel.rates) * duel.tuning_seeds + duel.seeds),
    )
    if evidence.active:
        st.html(
            bar(
                sum(_share(found, place) for place in range(len(evidence.cells))) / planned,
                f"Progress of duel {stored.id}",
            )
        )
    shared = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in duel.shared.items() if value is not None)
    widgets.show_facts(
        [
            ("Budget of each run", escape(amount_in_words(duel.budget.kind, duel.budget.amount))),
            ("Judged by", escape(f"{metric(duel.metric).label}, last test within the budget")),
            ("Shared", escape(shared or "each method's defaults")),
            ("Learning rates", escape(", ".join(f"{rate:g}" for rate in duel.rates))),
            (
                "Seeds",
                (
                    f"{duel.seeds} judged, {duel.tuning_seeds} {'other' if duel.tuning_seeds == 1 else 'others'} "
                    "for tuning"
                ),
            ),
            ("Owner", escape(stored.owner)),
            ("Launched", when(stored.created_at)),
            ("Runs ended", f"{done} of {planned}"),
            *([("Timed", "one at a time, nothing beside it")] if duel.exclusive else []),
        ]
    )
    return leaving


def _share(found: DuelOutcome, place: int) -> float:
    each = found.evidence.cells[place]
    return 1.0 if each.complete or not each.on else min(1.0, each.spent / found.evidence.duel.budget.amount)


def _state(found: DuelOutcome) -> tuple[str, widgets.Colour]:
    if found.evidence.stored.stage == "tuning":
        if found.tuned.obstacles:
            return "can't go on", "red"
        return (
            ("tuned, the runner queues what is judged", "blue")
            if waits_for_the_runner(found)
            else (f"tuning, {found.tuned.on} runs left", "blue")
        )
    left = sum(each.on for each in found.evidence.of("judging"))
    return (f"judging, {left} {'run' if left == 1 else 'runs'} left", "blue") if left else ("ended", "green")


def _actions(found: DuelOutcome) -> None:
    evidence = found.evidence
    again = [each for each in evidence.cells if is_missing(each) and each.run]
    owners, named = [evidence.stored.owner], f"Duel {evidence.stored.id}"
    tries = permissions.control(
        "retry", owners, what=named, help="Runs that were lost or cancelled before they had spent the budget."
    )
    if again and st.button(f"Try {len(again)} again", key="duel-retry", **tries):
        _retry(evidence)
    if evidence.active and st.button(
        "Cancel", key="duel-cancel", **permissions.control("cancel sweep", owners, what=named)
    ):
        dialogs.open_soon(ask_cancel, evidence.stored.id)


def _retry(evidence: DuelEvidence) -> None:
    try:
        retry_missing(Home.find(), evidence.stored.id, owner=current_user.whoever())
    except EngineError as error:
        st.error(as_text(told(error)))
    else:
        st.rerun()


@st.dialog("Cancel this duel?")
def ask_cancel(duel_id: int) -> None:
    """Ask once more, then order the end of all its runs."""
    st.write(
        f"All runs of duel {duel_id} that wait or are on are ended, and it goes no further. What was recorded is kept."
    )
    with st.container(horizontal=True):
        if st.button("Cancel the duel", type="primary"):
            try:
                cancel_duel(Home.find(), duel_id, owner=current_user.whoever())
            except EngineError as error:
                st.error(as_text(told(error)))
            else:
                st.rerun()
        if st.button("Let it go on"):
            st.rerun()


def _verdict(found: DuelOutcome) -> None:
    for sentence in found.tuned.obstacles:
        st.warning(as_text(sentence))
    if found.verdict:
        so_far = "So far: " if any(each.on for each in found.evidence.of("judging")) else ""
        st.markdown(f"**{as_text(so_far + found.verdict)}**")
        st.caption(
            as_text(
                "In brackets and on the charts: the 95 % confidence interval of the mean over paired seeds. "
                f"A lead takes p of at most {ERROR:g} after Holm's correction for the number of pairs. "
                f"Differences up to {found.evidence.duel.margin:g}{found.unit} count as none."
            )
        )
    elif not found.tuned.obstacles:
        st.caption("There is no verdict before a judged run of each strategy has ended.")
    for sentence in found.cautions:
        st.markdown(f":orange-badge[Mind] {as_text(sentence)}")


def _judged(found: DuelOutcome) -> None:
    evidence, kind = found.evidence, found.evidence.duel.budget.kind
    if not any(each.at for each in evidence.of("judging")):
        return
    st.header("Within the budget", anchor=False)
    against: str = kind
    if kind != charts.SECONDS:
        choices = (kind, charts.SECONDS)
        against = (
            st.segmented_control(
                "Against",
                choices,
                key="against",
                default=kind,
                required=True,
                bind="query-params",
                label_visibility="collapsed",
            )
            or kind
        )
    drawn = charts.lines(evidence, against)
    picture = charts.curves(evidence, drawn, against)
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
    st.caption(as_text(_what_was_cut(evidence, len(beyond))))
    with st.expander("Table", key="duel-curves-table", on_change="rerun") as fold:
        if fold.open:
            st.dataframe(
                groups_frame([each for each in drawn if each.members], against),
                hide_index=True,
                height=320,
                alt=f"The numbers of {label} against {against}",
            )
    st.html(tables.reached_table(found))
    if any(each.found for each in found.found):
        st.header("Differences, seed by seed", anchor=False)
        figure, colours, height = charts.pairs(found)
        components.figure(
            "duel-pairs", figure, alt="Paired differences with their intervals", height=height, colours=colours
        )
        st.caption(
            as_text(
                f"Above 0 the first of a pair has the higher {label.lower()}. The grey stretch counts as no difference."
            )
        )
        st.html(tables.pairs_table(found))


def _what_was_cut(evidence: DuelEvidence, beyond: int) -> str:
    whole = amount_in_words(evidence.duel.budget.kind, evidence.duel.budget.amount)
    cut = (
        (
            f"{beyond} {'run was' if beyond == 1 else 'runs were'} tested past {whole} too; that is cut off and "
            "counts nowhere. "
        )
        if beyond
        else ""
    )
    band = (
        "Mean over seeds with its 95 % confidence interval (lowest to highest below 3 seeds), from where every run "
        "has been tested"
    )
    return f"{cut}{band}; a value holds until the next test, and the last one to the budget's end."


def _tuning(found: DuelOutcome) -> None:
    if not found.evidence.of("tuning"):
        return
    st.header("Tuning", anchor=False)
    if any(each.value is not None for each in found.evidence.of("tuning")):
        figure, colours = charts.tuning(found)
        components.figure(
            "duel-tuning",
            figure,
            alt="What was reached at each learning rate",
            height=charts.TUNING_PX,
            colours=colours,
        )
        st.caption(
            "A star is the learning rate that a strategy is judged with: the best mean over tuning seeds, none "
            "of which is judged."
        )
    st.html(tables.tuning_table(found))


def _unlike(duel: Duel) -> None:
    st.header("What is unlike", anchor=False)
    st.caption("First weights and seeds are the same. This is what no budget evens out.")
    try:
        st.html(tables.facts_table(facts(duel)))
    except EngineError as error:
        st.caption(as_text(told(error)))


def _runs(found: DuelOutcome) -> None:
    st.header("Runs", anchor=False)
    if found.evidence.of("judging"):
        st.html(tables.runs_table(found, "judging"))
    with st.expander("Runs that tune", expanded=not found.evidence.of("judging")):
        st.html(tables.runs_table(found, "tuning"))
