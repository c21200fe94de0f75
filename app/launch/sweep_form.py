"""The fold of the launch form that makes a sweep of one run: what varies over which values, how many seeds, and what
that comes to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from app.ui.config_form import help_of, label_of
from app.ui.html import as_text
from engine.config_values import read_values, usual_values, value_in_words
from engine.errors import ConfigError
from engine.experiment.definition import Experiment
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import Plan, plan
from engine.sweep.random_search import Draw, usual_range

NOTHING = "nothing else"
GRID, DRAWN = "every combination", "random draw"
WRITTEN = "Values apart by commas, whole numbers also as a range: 1, 2, 4, 8 or 1..10."
RANGES = (
    "A range to draw from: 0.001..0.1, or log:0.001..0.1 for factors alike; or values apart by commas, of which "
    "each is as likely."
)


@dataclass(frozen=True)
class Draft:
    """What stands in the fold; without a plan something in it breaks a rule, and the fold says what."""

    base: Mapping[str, Any]
    """The form's values of all that does not vary."""
    grid: Mapping[str, tuple[Any, ...]]
    seeds: int
    plan: Plan | None = None
    draw: Draw | None = None
    exclusive: bool = False
    stop_after: int | None = None


def fold(found: Experiment, values: Mapping[str, Any]) -> Draft | None:
    """Show the switch and, where it is on, what varies; return the draft, or None for a single run."""
    help_text = (
        "Several runs of this experiment, over values of one or two settings, one after the other as the machine "
        "has room."
    )
    if not st.toggle("Run a sweep", key=f"sweep.on.{found.name}", help=help_text, persist_state="session"):
        return None
    kind = st.segmented_control(
        "Values", (GRID, DRAWN), key=f"sweep.kind.{found.name}", default=GRID, required=True, persist_state="session"
    )
    fields = [name for name in found.config.model_fields if name != SEED]
    first = _field(found, "Vary", "first", fields, found.axis)
    texts = {first: _values(found, first, values, kind == DRAWN)}
    second = _field(found, "And also", "second", [NOTHING, *(name for name in fields if name != first)], NOTHING)
    if second != NOTHING:
        texts[second] = _values(found, second, values, kind == DRAWN)
    draw = Draw(*_drawn(found), texts) if kind == DRAWN else None
    seeds = _count(found, "Seeds", "seeds", 1, "Runs of each combination; seeds count up from the form's own.")
    draft, problems = _draft(found, values, texts, seeds, draw, *_ways(found))
    for sentence in problems:
        st.markdown(f":red[{as_text(sentence)}]")
    if draft.plan:
        st.caption(as_text(_told(draft.plan, draft.seeds, draw)))
    return draft


def _drawn(found: Experiment) -> tuple[int, int]:
    """Ask how many combinations are drawn, and from which seed."""
    with st.container(horizontal=True):
        count = _count(
            found, "Combinations drawn", "draws", 8, "Different ones; those that break a rule are drawn again."
        )
        seed = _count(found, "Seed of the draw", "draw_seed", 0, "The same seed and ranges give the same combinations.")
    return count, seed


def _ways(found: Experiment) -> tuple[bool, int | None]:
    """Ask whether the runs are timed one by one, and when to give up."""
    help_text = (
        "For comparing times: a run starts only when no other one is on, and none starts beside it; modes that are "
        "compared take turns."
    )
    exclusive = st.toggle(
        "One at a time, nothing beside it", key=f"sweep.exclusive.{found.name}", help=help_text, persist_state="session"
    )
    stop_after = st.number_input(
        "Stop after failures",
        step=1,
        min_value=1,
        value=None,
        placeholder="never",
        key=f"sweep.stop.{found.name}",
        help="Once so many of its runs have failed or were lost, those that still wait are cancelled.",
        persist_state="session",
    )
    return exclusive, None if stop_after is None else int(stop_after)


def _count(found: Experiment, label: str, which: str, value: int, help_text: str) -> int:
    return int(
        st.number_input(
            label, step=1, value=value, key=f"sweep.{which}.{found.name}", help=help_text, persist_state="session"
        )
    )


def _field(found: Experiment, label: str, which: str, options: Sequence[str], default: str) -> str:
    key = f"sweep.{which}.{found.name}"
    if st.session_state.get(key, default) not in options:
        st.session_state[key] = default if default in options else options[0]
    st.session_state.setdefault(key, default)
    fields = found.config.model_fields
    return st.selectbox(
        label,
        options,
        key=key,
        format_func=lambda name: label_of(name, fields[name]) if name in fields else name,
        persist_state="session",
    )


def _values(found: Experiment, field: str, values: Mapping[str, Any], is_drawn: bool) -> str:
    key = f"sweep.{'ranges' if is_drawn else 'values'}.{found.name}.{field}"
    info = found.config.model_fields[field]
    usual = usual_values(found.config, field, values)
    st.session_state.setdefault(
        key, (usual_range(found.config, field, values.get(field)) or usual) if is_drawn else usual
    )
    help_text = f"{as_text(RANGES if is_drawn else WRITTEN)} {help_of(info)}"
    return st.text_input(
        f"Values of {label_of(field, info).lower()}", key=key, help=help_text, live="400ms", persist_state="session"
    )


def _draft(
    found: Experiment,
    values: Mapping[str, Any],
    texts: Mapping[str, str],
    seeds: int,
    draw: Draw | None,
    exclusive: bool,
    stop_after: int | None,
) -> tuple[Draft, list[str]]:
    """Return the draft with its plan, or without one and the sentences of what is wrong."""
    base = {name: value for name, value in values.items() if name not in texts}
    grid: dict[str, tuple[Any, ...]] = {}
    problems: list[str] = []
    for field, text in {} if draw else texts.items():
        try:
            grid[field] = read_values(found.config, field, text)
        except ConfigError as error:
            problems += [problem.sentence for problem in error.problems]
    draft = Draft(base, grid, seeds, None, draw, exclusive, stop_after)
    if problems:
        return draft, problems
    try:
        return replace(draft, plan=plan(found.name, base, grid, seeds, draw=draw, exclusive=exclusive)), []
    except ConfigError as error:
        return draft, [problem.sentence for problem in error.problems]


def _told(planned: Plan, seeds: int, draw: Draw | None) -> str:
    """Return what the sweep comes to, in a sentence."""
    fields = [field for field in planned.grid if field != SEED]
    if draw:
        ranges = ", ".join(f"{field} from {text.strip()}" for field, text in draw.over.items())
        return (
            f"{count_of(planned)}: {draw.count} drawn of {ranges}, times {seeds} {'seed' if seeds == 1 else 'seeds'}."
        )
    over = " x ".join(f"{field} {', '.join(map(value_in_words, planned.grid[field]))}" for field in fields)
    return (
        f"{count_of(planned)}: {over} x {seeds} {'seed' if seeds == 1 else 'seeds'}, in place of the form's own "
        f"{' and '.join(fields)}."
    )


def count_of(planned: Plan) -> str:
    """Return how many runs a plan has, in words."""
    return f"{len(planned.cells)} {'run' if len(planned.cells) == 1 else 'runs'}"
