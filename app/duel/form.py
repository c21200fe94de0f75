"""The form that launches a duel: strategies, shared settings, budget, learning-rate grid, seeds, an estimate and the
uncontrolled differences.
"""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from app.actions import submit
from app.actions.submit import run_on, start_on_cluster
from app.core.formatting import duration
from app.duel import tables
from app.duel.header import strategy_written
from app.ui.config_form import help_of
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.widgets import show_facts
from engine.analysis.duel import FEWEST, too_few_seeds
from engine.catalogue import choices
from engine.duel.launch import AGAIN, DuelLaunch, DuelOutlay, facts, outlay, untimely
from engine.duel.spec import (
    METRICS,
    TIES,
    Budget,
    Duel,
    Strategy,
    from_json,
    read_shared,
    read_strategy,
    ready,
    shared_fields,
)
from engine.errors import ConfigError, EngineError, NoSuchDuel
from engine.experiment import KINDS, Kind
from engine.launch_options import LaunchOptions
from engine.metrics import metric, unit_of_difference

FIRST = ("hogwild", "parameter_server")
_USUAL: dict[Kind, float] = {"passes": 10.0, "seconds": 30.0, "updates": 2_000.0, "bytes": 100.0}
MEGA = 1e6
GIVEN = "duel.given"
_SHARED = {"dataset": "dataset", "trainers": "trainers", "batch_size": "batch", "momentum": "momentum"}
"""Shared settings of the form, with their fields."""


def form() -> None:
    """Show the form, the estimate, and the launch button; `?clone=ID` fills it with the settings of a duel."""
    _fill(st.query_params.get("clone", ""))
    left, right = st.columns([3, 2], gap="large")
    with left:
        duel, problems = _asked()
    with right:
        st.header("Estimate", anchor=False)
        _offer(duel, problems, run_on(AGAIN))
    if duel:
        with st.expander("Uncontrolled differences", expanded=False):
            st.caption("Initial weights and seeds are identical. The budget cannot equalise these.")
            try:
                st.html(tables.facts_table(facts(duel)))
            except EngineError:
                st.caption("Shown once all settings are valid.")


def _fill(clone: str) -> None:
    """Begin the form with the settings of a duel; say what the form does not have."""
    st.session_state[GIVEN] = {}
    if not (clone.isdecimal() and len(clone) < 18):
        return
    try:
        with reading() as reader:
            stored = reader.duels.one(int(clone))
    except NoSuchDuel as error:
        st.warning(as_text(str(error)))
        return
    duel, offered = from_json(stored.plan), ready()
    known = {key: one for one in duel.strategies for key, each in offered.items() if each == one}
    values: dict[str, Any] = {
        "strategies": list(known),
        "own": "\n".join(strategy_written(one) for one in duel.strategies if one not in known.values()),
        "kind": duel.budget.kind,
        f"amount.{duel.budget.kind}": duel.budget.amount / (MEGA if duel.budget.kind == "bytes" else 1.0),
        "rates": ", ".join(f"{rate:g}" for rate in duel.rates),
        "tuning": duel.tuning_seeds,
        "seeds": duel.seeds,
        "first": duel.first_seed,
        "metric": duel.metric,
        f"target.{duel.metric}": duel.target,
        f"tie.{duel.metric}": duel.margin,
        "alone": duel.alone,
        "name": stored.name,
    }
    values |= {key: duel.shared[name] for name, key in _SHARED.items() if duel.shared.get(name) is not None}
    st.session_state[GIVEN] = values
    others = [f"{name} {value}" for name, value in duel.shared.items() if name not in _SHARED and value is not None]
    lost = f" Not in this form: {', '.join(others)}." if others else ""
    st.caption(as_text(f"Settings of duel {clone}.{lost}"))


def _usual(key: str, value: Any) -> Any:
    """Return the first value of a field: that of the cloned duel, else `value`."""
    return st.session_state[GIVEN].get(key, value)


def _asked() -> tuple[Duel | None, list[str]]:
    """Draw the fields; return the duel, or its error messages."""
    offered = ready()
    names = st.multiselect(
        "Strategies",
        list(offered),
        _usual("strategies", FIRST),
        key="duel.strategies",
        format_func=lambda name: offered[name].name,
        max_selections=6,
    )
    with st.expander("Custom variants"):
        st.caption(
            "One per line: `name=strategy: setting=value; setting=value`. Strategies: "
            + as_text(", ".join(offered))
            + "."
        )
        own = st.text_area(
            "Variants",
            value=_usual("own", ""),
            key="duel.own",
            placeholder="Bounded staleness=async_sgd: staleness_bound=4",
            label_visibility="collapsed",
            height=90,
        )
    kind, amount = _budget()
    shared = _shared()
    rates, tuning_seeds, seeds, first_seed = _seeds()
    name, target, tie, alone = _judged(kind)
    st.session_state["duel.title"] = st.text_input(
        "Name", value=_usual("name", ""), placeholder="optional", key="duel.name"
    )
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
        kind: Kind = st.segmented_control(
            "Budget per run", KINDS, default=_usual("kind", "passes"), key="duel.kind", required=True
        )
        unit = "MB exchanged" if kind == "bytes" else kind
        amount = st.number_input(
            f"Amount ({unit})",
            min_value=0.0,
            value=_usual(f"amount.{kind}", _USUAL[kind]),
            key=f"duel.amount.{kind}",
            format="%g",
            width=220,
        )
    return kind, amount * (MEGA if kind == "bytes" else 1.0)


def _shared() -> dict[str, Any]:
    """Draw the shared settings, with the help texts of the experiments' forms."""
    fields = shared_fields()
    first, second = st.columns(2, gap="medium"), st.columns(2, gap="medium")
    with first[0]:
        dataset = st.selectbox(
            "Dataset",
            sets := choices("datasets"),
            index=sets.index(given) if (given := _usual("dataset", "")) in sets else 2,
            key="duel.dataset",
            help=help_of(fields["dataset"]),
        )
    with first[1]:
        trainers = st.number_input(
            "Trainers",
            value=_usual("trainers", 2),
            step=1,
            key="duel.trainers",
            help="Number of trainer processes per method. The reference always has one.",
        )
    with second[0]:
        batch = st.number_input(
            "Batch size (samples)",
            value=_usual("batch", 32),
            step=1,
            key="duel.batch",
            help=help_of(fields["batch_size"]),
        )
    with second[1]:
        momentum = st.number_input(
            "Momentum",
            value=_usual("momentum", 0.5),
            step=0.1,
            format="%g",
            key="duel.momentum",
            help="SGD momentum of every strategy.",
        )
    return {"dataset": dataset, "trainers": trainers, "batch_size": batch, "momentum": momentum}


def _seeds() -> tuple[str, int, int, int]:
    first, second = st.columns(2, gap="medium"), st.columns(2, gap="medium")
    with first[0]:
        rates = st.text_input(
            "Learning rates",
            _usual("rates", "0.01, 0.03, 0.1"),
            key="duel.rates",
            help="Tuning grid for every strategy: comma-separated, in ascending order.",
        )
    with first[1]:
        seeds = st.number_input(
            "Evaluation seeds",
            value=_usual("seeds", 5),
            step=1,
            key="duel.seeds",
            help=f"Evaluation runs per strategy, paired by seed. A verdict needs at least {FEWEST}.",
        )
    with second[0]:
        tuning = st.number_input(
            "Tuning seeds",
            value=_usual("tuning", 2),
            step=1,
            key="duel.tuning",
            help="Tuning runs per learning rate. Their seeds are not used for evaluation.",
        )
    with second[1]:
        start = st.number_input(
            "First seed", value=_usual("first", 0), step=100, key="duel.first", help="Seeds are spaced 100 apart."
        )
    return rates, tuning, seeds, start


def _judged(kind: Kind) -> tuple[str, float | None, float | None, bool]:
    with st.expander("Evaluation"):
        name = st.segmented_control(
            "Metric",
            METRICS,
            default=_usual("metric", METRICS[0]),
            format_func=lambda name: metric(name).label,
            key="duel.metric",
            required=True,
        )
        name = name or METRICS[0]
        target = st.number_input(
            "Target",
            value=_usual(f"target.{name}", None),
            key=f"duel.target.{name}",
            placeholder="hardest value reached by all",
            help="The duel reports the time to reach this value.",
        )
        unit = unit_of_difference(name).strip() or "loss"
        tie = st.number_input(
            f"Tie margin ({unit})", value=_usual(f"tie.{name}", TIES[name]), format="%g", key=f"duel.tie.{name}"
        )
        alone = st.toggle(
            "Exclusive (for timing)",
            value=_usual("alone", True),
            disabled=kind == "seconds",
            key="duel.alone",
            help="One run at a time on this machine; whole nodes on a cluster. Always on with a budget of seconds.",
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
        raise ConfigError.of(
            "rates", f"Learning rates must be comma-separated numbers, such as 0.01, 0.03; got '{text}'."
        ) from None


def _offer(duel: Duel | None, problems: list[str], terms: LaunchOptions) -> None:
    """Show the estimate or the errors, and the launch button."""
    found: DuelOutlay | None = None
    if duel:
        with reading() as reader:
            try:
                found = outlay(reader, duel, terms)
            except ConfigError as error:
                problems = [problem.sentence for problem in error.problems]
            except EngineError as error:
                problems = [str(error)]
    for sentence in dict.fromkeys(problems):
        st.error(as_text(sentence))
    if duel and found:
        _takes(duel, found, terms)
    if submit.button("Launch", "duel.launch", type="primary", disabled=found is None) and duel:
        submit.submit(DuelLaunch(duel, name=st.session_state.get("duel.title", ""), terms=terms))


def _takes(duel: Duel, found: DuelOutlay, terms: LaunchOptions) -> None:
    together = "Total run time" if duel.exclusive else "Total run time, at most"
    took = "no estimate yet" if found.seconds is None else f"about {duration(found.seconds)}"
    show_facts(
        [
            ("Tuning runs", f"{found.tuning}"),
            ("Evaluation runs", f"{found.judging}"),
            *([] if terms.target else [(together, took)]),
        ]
    )
    if terms.target:
        start_on_cluster(terms, found.tuning)
    elif found.unknown:
        st.caption(
            as_text(f"No estimate for {', '.join(found.unknown)}: no comparable run has finished on this machine yet.")
        )
    st.caption(
        "Tuning runs come first. When all have ended, the runner selects each strategy's learning rate "
        "and queues the evaluation runs."
    )
    if found.cut:
        st.warning(
            as_text(
                f"The time limit ends runs of {', '.join(found.cut)} before the budget is spent; they get no result. "
                "Raise the time limit, or lower the budget."
            )
        )
    for sentence in filter(None, (too_few_seeds(duel.seeds), *untimely(duel))):
        st.warning(as_text(sentence))
