"""The header of a duel's page: title, progress, settings and actions; and a duel's entry in a list."""

import shlex
from collections.abc import Iterator
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.core.assets import at
from app.core.formatting import absolute
from app.duel import tables
from app.export.rerun_commands import checkout, written
from app.export.view_report import Environments, view_downloads
from app.report import page_capture
from app.report.page_capture import Noted
from app.ui import current_user, dialogs, widgets
from app.ui.html import as_text, bar, breadcrumb, duel_link, fact_row, link, when
from app.ui.store_access import message_of, reading
from engine.analysis.run_values import lower_title
from engine.duel.evidence import DuelEvidence, about_runs, is_missing
from engine.duel.launch import cancel_duel, retry_missing
from engine.duel.outcome import DuelOutcome, amount_in_words
from engine.duel.spec import Duel, Strategy, from_json, ready
from engine.errors import EngineError
from engine.home import Home
from engine.metrics import metric
from engine.store import StoredDuel
from engine.store.records import ENDED


def waits_for_the_runner(found: DuelOutcome) -> bool:
    """Say whether the evaluation runs are due but not queued by the runner yet."""
    return found.evidence.stored.stage == "tuning" and found.tuned.rates is not None


def name_of(stored: StoredDuel, duel: Duel) -> str:
    """Return a duel's name, or its strategies where it has none."""
    return stored.name or " vs. ".join(one.name for one in duel.strategies)


def title_of(found: DuelOutcome) -> str:
    """Return the title of a duel's page."""
    return f"Duel {found.evidence.stored.id}: {name_of(found.evidence.stored, found.evidence.duel)}"


def heading(found: DuelOutcome) -> DeltaGenerator:
    """Show the header and the actions; return the container for the downloads."""
    evidence, stored, duel = found.evidence, found.evidence.stored, found.evidence.duel
    st.set_page_config(page_title=title_of(found))
    st.html(breadcrumb([link("Runs", at("/runs")), link("Duels", at("/duel"))], f"Duel {stored.id}"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(title_of(found)), anchor=False, width="stretch")
        widgets.permalink(f"/duel?duel={stored.id}")
        leaving = st.container(width="content")
        _actions(found)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        word, colour = _state(found)
        st.badge(word, color=colour)
    current_user.say_whose(f"Duel {stored.id}", stored.owner)
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
    widgets.show_facts(
        [
            *_facts(found),
            ("Launched", when(stored.created_at)),
            ("Runs ended", f"{done} of {planned}"),
            *([("Timing", "exclusive: one run at a time")] if duel.exclusive else []),
        ]
    )
    return leaving


def _facts(found: DuelOutcome) -> list[tuple[str, str]]:
    """Return the duel's settings, by label."""
    duel = found.evidence.duel
    shared = ", ".join(f"{lower_title(name)} {value}" for name, value in duel.shared.items() if value is not None)
    return [
        ("Budget per run", amount_in_words(duel.budget.kind, duel.budget.amount)),
        ("Metric", f"{metric(duel.metric).label}, last test within the budget"),
        ("Shared settings", shared or "method defaults"),
        ("Learning rates", ", ".join(f"{rate:g}" for rate in duel.rates)),
        ("Seeds", f"{duel.seeds} for evaluation, {duel.tuning_seeds} for tuning"),
        ("Owner", found.evidence.stored.owner),
    ]


def _share(found: DuelOutcome, place: int) -> float:
    each = found.evidence.cells[place]
    return 1.0 if each.complete or not each.on else min(1.0, each.spent / found.evidence.duel.budget.amount)


def _state(found: DuelOutcome) -> tuple[str, widgets.Colour]:
    if found.evidence.stored.stage == "tuning":
        if found.tuned.obstacles:
            return "blocked", "red"
        return (
            ("tuned, queueing evaluation runs", "blue")
            if waits_for_the_runner(found)
            else (f"tuning, {found.tuned.on} {'run' if found.tuned.on == 1 else 'runs'} left", "blue")
        )
    left = sum(each.on for each in found.evidence.of("judging"))
    return (f"evaluation, {left} {'run' if left == 1 else 'runs'} left", "blue") if left else ("ended", "green")


def _actions(found: DuelOutcome) -> None:
    evidence = found.evidence
    again = [each for each in evidence.cells if is_missing(each) and each.run]
    owners, named = [evidence.stored.owner], f"Duel {evidence.stored.id}"
    tries = current_user.control(
        "retry", owners, what=named, help="Retry runs that were lost or cancelled before they spent the budget."
    )
    if again and st.button(f"Retry {len(again)} {'run' if len(again) == 1 else 'runs'}", key="duel-retry", **tries):
        _retry(evidence)
    if current_user.may("launch duel"):
        query = {"clone": str(evidence.stored.id)}
        st.page_link(widgets.PAGES["duel"], label="Clone", icon=":material/content_copy:", query_params=query)
    if evidence.active and st.button(
        "Cancel", key="duel-cancel", **current_user.control("cancel sweep", owners, what=named)
    ):
        dialogs.open_soon(ask_cancel, evidence.stored.id)


def _retry(evidence: DuelEvidence) -> None:
    current_user.require_name(partial(_retry, evidence))
    try:
        retry_missing(Home.find(), evidence.stored.id, owner=current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        st.rerun()


@st.dialog("Cancel this duel?")
def ask_cancel(duel_id: int) -> None:
    """Confirm, then cancel all runs of the duel."""
    with reading() as reader:
        parts = reader.sweeps.some([part.sweep_id for part in reader.duels.one(duel_id).parts])
    if not any(part.active for part in parts):
        widgets.close_dialog(f"All runs of duel {duel_id} have ended. There is nothing to cancel.")
        return
    st.write(f"All queued and running runs of duel {duel_id} will be cancelled. Recorded data is kept.")
    with st.container(horizontal=True):
        if st.button("Cancel duel", type="primary"):
            _cancel(duel_id)
        if st.button(widgets.keep_label(status for part in parts for status in part.statuses)):
            st.rerun()


def _cancel(duel_id: int) -> None:
    current_user.require_name(partial(_cancel, duel_id))
    try:
        cancel_duel(Home.find(), duel_id, owner=current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        st.rerun()


def entry(stored: StoredDuel) -> None:
    """Show one duel: its name as a link, strategies, budget, owner and status."""
    duel = from_json(stored.plan)
    who = " vs. ".join(one.name for one in duel.strategies)
    left = sum(count for status, count in stored.statuses.items() if status not in ENDED)
    stage = (
        f"{'tuning' if stored.stage == 'tuning' else 'evaluation'}, {left} {'run' if left == 1 else 'runs'} left"
        if left
        else "tuning ended"
        if stored.stage == "tuning"
        else "ended"
    )
    facts = (
        *([who] if stored.name else []),
        amount_in_words(duel.budget.kind, duel.budget.amount),
        f"by {stored.owner}",
        "launched " + when(stored.created_at),
        stage,
    )
    with st.container(border=True, gap="xsmall"):
        st.html(duel_link(f"{stored.id}: {name_of(stored, duel)}", stored.id) + fact_row(facts))


# ---- Downloads of a duel's page: verdict, charts, tables, runs, and the command that launches it again -------------


def note(found: DuelOutcome) -> None:
    """Record the header of a duel's page, its verdict and its cautions for the report."""
    header = [
        ("Verdict", found.verdict or "none yet"),
        ("Strategies", ", ".join(one.name for one in found.evidence.duel.strategies)),
        *_facts(found),
        ("Launched", absolute(found.evidence.stored.created_at)),
    ]
    page_capture.facts("Duel", header)
    page_capture.words([*found.tuned.obstacles, *found.cautions])


def leave(found: DuelOutcome, title: str, shown: Noted) -> None:
    """Show the download button."""
    stored = found.evidence.stored
    runs = [each.run for each in found.evidence.cells if each.run]

    def again(environments: Environments) -> Iterator[str]:
        if runs:
            yield from checkout(environments.get(runs[-1].id, {}))
        yield duel_again(found.evidence.duel, stored.name)

    view_downloads(
        f"duel-{stored.id}",
        title,
        f"/duel?duel={stored.id}",
        shown,
        runs,
        key="duel",
        again=again,
        about=about_runs(found.evidence),
    )


def note_tables(found: DuelOutcome) -> None:
    """Record the paired differences, as plain values; the runs are in every download."""
    if found.found:
        page_capture.table("Paired differences", lambda: tables.pairs_to_save(found))


def duel_again(duel: Duel, name: str) -> str:
    """Return the shell command that launches a duel again."""
    words = [
        *(shlex.quote(strategy_written(one)) for one in duel.strategies),
        f"--budget {duel.budget.kind}={duel.budget.amount:g}",
        *(f"--set {shlex.quote(written(key, value))}" for key, value in duel.shared.items() if value is not None),
        f"--rates {','.join(f'{rate:g}' for rate in duel.rates)}",
        f"--tuning-seeds {duel.tuning_seeds}",
        f"--seeds {duel.seeds}",
        f"--metric {duel.metric}",
        *([f"--target {duel.target:g}"] if duel.target is not None else []),
        *([] if duel.alone else ["--beside-others"]),
        *([f"--name {shlex.quote(name)}"] if name else []),
    ]
    return " ".join(["python -m engine duel launch", *words])


def strategy_written(one: Strategy) -> str:
    """Return a strategy as `read_strategy` reads it: the preset that shares most settings with it, and the remaining
    settings.
    """
    alike = {
        name: each
        for name, each in ready().items()
        if each.experiment == one.experiment
        and all(one.settings.get(key) == value for key, value in each.settings.items())
    } or {one.experiment: Strategy(one.experiment, one.experiment)}  # of the lab's own, and not there any more
    name = max(alike, key=lambda each: len(alike[each].settings))
    own = "; ".join(written(key, value) for key, value in one.settings.items() if key not in alike[name].settings)
    text = f"{name}:{own}" if own else name
    return text if one.name == alike[name].name or set(one.name) & set(":=") else f"{one.name}={text}"
