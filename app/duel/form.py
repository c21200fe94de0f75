"""The form that launches a duel: strategies, what they share, the budget, the grid and the seeds; beside it what that
takes and what is unlike.
"""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from app.actions import submit
from app.core.formatting import duration
from app.duel import tables
from app.ui.config_form import help_of
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.widgets import show_facts
from engine.catalogue import choices
from engine.duel.catalogue import read_shared, read_strategy, ready, shared_fields
from engine.duel.confounders import facts, untimely
from engine.duel.estimate import DuelOutlay, outlay
from engine.duel.outcome import unit_of
from engine.duel.spec import METRICS, TIES, Budget, Duel, Strategy
from engine.errors import ConfigError, EngineError, Problem
from engine.experiment.contender import KINDS, Kind
from engine.metrics import metric

FIRST = ("hogwild", "parameter_server")
_USUAL: dict[Kind, float] = {"passes": 10.0, "seconds": 30.0, "updates": 2_000.0, "bytes": 100.0}
MEGA = 1e6


def form() -> None:
    """Show the form, what the duel takes, and the button that launches it."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        duel, problems = _asked()
    with right:
        st.header("What it takes", anchor=False)
        _offer(duel, problems)
    if duel:
        with st.expander("What is unlike", expanded=False):
            st.caption("First weights and seeds are the same. This is what no budget evens out.")
            try:
                st.html(tables.facts_table(facts(duel)))
            except EngineError:
                st.caption("It is shown once nothing breaks a rule.")


def _asked() -> tuple[Duel | None, list[str]]:
    """Draw the fields; return the duel that they make, or the sentences of what is wrong."""
    offered = ready()
    names = st.multiselect(
        "Strategies",
        list(offered),
        FIRST,
        key="duel.strategies",
        format_func=lambda name: offered[name].name,
        max_selections=6,
    )
    with st.expander("Variants of your own"):
        st.caption(
            "One a line: a name, `=`, a strategy, `:`, its settings apart by `;`. Strategies: "
            + as_text(", ".join(offered))
            + "."
        )
        own = st.text_area(
            "Variants",
            key="duel.own",
            placeholder="Bounded staleness=async_sgd: staleness_bound=4",
            label_visibility="collapsed",
            height=90,
        )
    kind, amount = _budget()
    shared = _shared()
    rates, tuning_seeds, seeds, first_seed = _seeds()
    name, target, tie, alone = _judged(kind)
    st.session_state["duel.title"] = st.text_input("Name", placeholder="may be empty", key="duel.name")
    try:
        strategies = tuple([offered[name] for name in names] + list(_own(own)))
        duel = Duel(
            strategies,
            Budget(kind, amount),
            read_shared(shared),
            _numbers(rates),
            tuning_seeds,
            seeds,
            first_seed,
            name,
            target,
            tie,
            alone,
        )
        return duel.checked(), []
    except ConfigError as error:
        return None, [problem.sentence for problem in error.problems]


def _budget() -> tuple[Kind, float]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind: Kind = st.segmented_control("Budget of each run", KINDS, default="passes", key="duel.kind", required=True)
        unit = "MB between processes" if kind == "bytes" else kind
        amount = st.number_input(
            f"Amount ({unit})", min_value=0.0, value=_USUAL[kind], key=f"duel.amount.{kind}", format="%g", width=220
        )
    return kind, amount * (MEGA if kind == "bytes" else 1.0)


def _shared() -> dict[str, Any]:
    """Draw what all share, with the words of the experiments' own forms."""
    fields = shared_fields()
    first, second = st.columns(2, gap="medium"), st.columns(2, gap="medium")
    with first[0]:
        dataset = st.selectbox(
            "Dataset", choices("datasets"), index=2, key="duel.dataset", help=help_of(fields["dataset"])
        )
    with first[1]:
        trainers = st.number_input(
            "Trainers",
            value=2,
            step=1,
            key="duel.trainers",
            help="Trainer processes of each method; the reference has one.",
        )
    with second[0]:
        batch = st.number_input(
            "Batch size (samples)", value=32, step=1, key="duel.batch", help=help_of(fields["batch_size"])
        )
    with second[1]:
        momentum = st.number_input(
            "Momentum", value=0.5, step=0.1, format="%g", key="duel.momentum", help="Of whichever optimizer steps."
        )
    return {"dataset": dataset, "trainers": trainers, "batch_size": batch, "momentum": momentum}


def _seeds() -> tuple[str, int, int, int]:
    first, second = st.columns(2, gap="medium"), st.columns(2, gap="medium")
    with first[0]:
        rates = st.text_input(
            "Learning rates",
            "0.01, 0.03, 0.1",
            key="duel.rates",
            help="The grid by which each strategy is tuned, rising, apart by commas.",
        )
    with first[1]:
        seeds = st.number_input(
            "Judged seeds",
            value=5,
            step=1,
            key="duel.seeds",
            help="Runs of each strategy that are judged, paired by seed; a verdict needs 5.",
        )
    with second[0]:
        tuning = st.number_input(
            "Tuning seeds",
            value=2,
            step=1,
            key="duel.tuning",
            help="Runs of each learning rate; none of their seeds is judged.",
        )
    with second[1]:
        start = st.number_input("First seed", value=0, step=100, key="duel.first", help="Seeds lie 100 apart.")
    return rates, tuning, seeds, start


def _judged(kind: Kind) -> tuple[str, float | None, float | None, bool]:
    with st.expander("How it is judged"):
        name = st.segmented_control(
            "Judged by",
            METRICS,
            default=METRICS[0],
            format_func=lambda name: metric(name).label,
            key="duel.metric",
            required=True,
        )
        name = name or METRICS[0]
        target = st.number_input(
            "Target",
            value=None,
            key=f"duel.target.{name}",
            placeholder="the hardest that all reach",
            help="A value whose time is told.",
        )
        unit = unit_of(name).strip() or "of the loss"
        tie = st.number_input(
            f"Counts as no difference ({unit})", value=TIES[name], format="%g", key=f"duel.tie.{name}"
        )
        alone = st.toggle(
            "One run at a time",
            value=True,
            disabled=kind == "seconds",
            key="duel.alone",
            help="Times need it; a budget of seconds always has it.",
        )
    return name, target, tie, alone


def _own(text: str) -> Iterator[Strategy]:
    for line in text.splitlines():
        if line.strip():
            yield read_strategy(line)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            [Problem("rates", f"Learning rates are numbers apart by commas, such as 0.01, 0.03, got '{text}'.")]
        ) from None


def _offer(duel: Duel | None, problems: list[str]) -> None:
    """Say what the duel takes, or what is wrong with it, and offer the launch."""
    found: DuelOutlay | None = None
    if duel:
        with reading() as reader:
            try:
                found = outlay(reader, duel)
            except ConfigError as error:
                problems = [problem.sentence for problem in error.problems]
            except EngineError as error:
                problems = [str(error)]
    for sentence in dict.fromkeys(problems):
        st.error(as_text(sentence))
    if duel and found:
        _takes(duel, found)
    if st.button("Launch", type="primary", key="duel.launch", disabled=found is None) and duel:
        submit.order(submit.DuelOrder(duel, st.session_state.get("duel.title", "")))


def _takes(duel: Duel, found: DuelOutlay) -> None:
    together = "One after another" if duel.exclusive else "One after another, at most"
    show_facts(
        [
            ("Runs that tune", f"{found.tuning}"),
            ("Runs that are judged", f"{found.judging}"),
            (together, "not known" if found.seconds is None else f"about {duration(found.seconds)}"),
        ]
    )
    if found.unknown:
        st.caption(
            as_text(
                f"No like run of {', '.join(found.unknown)} has finished on this machine yet, so nothing tells "
                "how long these take."
            )
        )
    st.caption(
        "The runs that tune come first. Once all have ended the runner chooses each strategy's learning rate "
        "and queues those that are judged."
    )
    for sentence in untimely(duel):
        st.warning(as_text(sentence))
