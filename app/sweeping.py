"""The fold of the launch form that makes a sweep of one run: what varies over which values, how many seeds, and how many runs that makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.forms import help_of, label_of
from app.markup import as_text
from engine.errors import ConfigError
from engine.registry import Experiment
from engine.store.sweeps import SEED
from engine.sweep import Plan, plan, read_values, usual_values, value_in_words

NOTHING = "nothing else"
WRITTEN = "Values apart by commas, whole numbers also as a range: 1, 2, 4, 8 or 1..10."


@dataclass(frozen=True)
class Draft:
    """What stands in the fold; without a plan something in it breaks a rule, and the fold says what."""

    base: Mapping[str, Any]
    """The form's values of all that does not vary."""
    grid: Mapping[str, tuple[Any, ...]]
    seeds: int
    plan: Plan | None = None


def fold(found: Experiment, values: Mapping[str, Any]) -> Draft | None:
    """Show the switch and, where it is on, what varies; return the draft, or None for a single run."""
    help_text = "Several runs of this experiment, over values of one or two settings, one after the other as the machine has room."
    if not st.toggle("Run a sweep", key=f"sweep.on.{found.name}", help=help_text, persist_state="session"):
        return None
    fields = [name for name in found.config.model_fields if name != SEED]
    first = _field(found, "Vary", "first", fields, found.axis)
    texts = {first: _values(found, first, values)}
    second = _field(found, "And also", "second", [NOTHING, *(name for name in fields if name != first)], NOTHING)
    if second != NOTHING:
        texts[second] = _values(found, second, values)
    seeds = st.number_input(
        "Seeds", step=1, value=1, key=f"sweep.seeds.{found.name}", help="Runs of each combination; seeds count up from the form's own.", persist_state="session"
    )
    draft, problems = _draft(found, values, texts, int(seeds))
    for sentence in problems:
        st.markdown(f":red[{as_text(sentence)}]")
    if draft.plan:
        st.caption(as_text(_told(draft.plan, draft.seeds)))
    return draft


def _field(found: Experiment, label: str, which: str, options: Sequence[str], default: str) -> str:
    key = f"sweep.{which}.{found.name}"
    if st.session_state.get(key, default) not in options:
        st.session_state[key] = default if default in options else options[0]
    st.session_state.setdefault(key, default)
    fields = found.config.model_fields
    return st.selectbox(label, options, key=key, format_func=lambda name: label_of(name, fields[name]) if name in fields else name, persist_state="session")


def _values(found: Experiment, field: str, values: Mapping[str, Any]) -> str:
    key = f"sweep.values.{found.name}.{field}"
    info = found.config.model_fields[field]
    st.session_state.setdefault(key, usual_values(found.config, field, values))
    help_text = f"{as_text(WRITTEN)} {help_of(info)}"
    return st.text_input(f"Values of {label_of(field, info).lower()}", key=key, help=help_text, live="400ms", persist_state="session")


def _draft(found: Experiment, values: Mapping[str, Any], texts: Mapping[str, str], seeds: int) -> tuple[Draft, list[str]]:
    """Return the draft with its plan, or without one and the sentences of what is wrong."""
    base = {name: value for name, value in values.items() if name not in texts}
    grid: dict[str, tuple[Any, ...]] = {}
    problems: list[str] = []
    for field, text in texts.items():
        try:
            grid[field] = read_values(found.config, field, text)
        except ConfigError as error:
            problems += [problem.sentence for problem in error.problems]
    draft = Draft(base, grid, seeds)
    if problems:
        return draft, problems
    try:
        return Draft(base, grid, seeds, plan(found.name, base, grid, seeds)), []
    except ConfigError as error:
        return draft, [problem.sentence for problem in error.problems]


def _told(planned: Plan, seeds: int) -> str:
    """Return what the sweep comes to, in a sentence."""
    fields = [field for field in planned.grid if field != SEED]
    over = " x ".join(f"{field} {', '.join(map(value_in_words, planned.grid[field]))}" for field in fields)
    return f"{count_of(planned)}: {over} x {seeds} {'seed' if seeds == 1 else 'seeds'}, in place of the form's own {' and '.join(fields)}."


def count_of(planned: Plan) -> str:
    """Return how many runs a plan has, in words."""
    return f"{len(planned.cells)} {'run' if len(planned.cells) == 1 else 'runs'}"
