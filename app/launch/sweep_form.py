"""The section of the launch form that makes a sweep: varied fields, their values, seeds, and a summary of the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from app.ui.config_form import help_of, label_of
from app.ui.html import as_text
from engine.config_values import read_values, usual_values, value_in_words
from engine.errors import ConfigError
from engine.experiment.definition import Experiment, ReadySweep
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import Plan, plan
from engine.sweep.random_search import Draw, usual_range

NOTHING = "none"
GRID, DRAWN = "Grid search", "Random search"
WRITTEN = "Comma-separated values; whole numbers also as a range: 1, 2, 4, 8 or 1..10."
RANGES = (
    "A range to sample uniformly: 0.001..0.1, or log:0.001..0.1 for log-uniform sampling. Comma-separated values are "
    "equally likely."
)


@dataclass(frozen=True)
class Draft:
    """The content of the section; without a plan it is invalid, and the section shows why."""

    base: Mapping[str, Any]
    """The form's values of the fields that do not vary."""
    grid: Mapping[str, tuple[Any, ...]]
    seeds: int
    plan: Plan | None = None
    draw: Draw | None = None
    exclusive: bool = False
    stop_after: int | None = None


def fold(found: Experiment, values: Mapping[str, Any]) -> Draft | None:
    """Show the switch and, if it is on, the section; return the draft, or None for a single run."""
    help_text = (
        "Launch several runs of this experiment over values of one or two settings. They start as capacity becomes "
        "free."
    )
    if not st.toggle("Run a sweep", key=f"sweep.on.{found.name}", help=help_text, persist_state="session"):
        return None
    kind = st.segmented_control(
        "Search method",
        (GRID, DRAWN),
        key=f"sweep.kind.{found.name}",
        default=GRID,
        required=True,
        persist_state="session",
    )
    fields = [name for name in found.config.model_fields if name != SEED]
    first = _field(found, "Parameter", "first", fields, found.axis)
    texts = {first: _values(found, first, values, kind == DRAWN)}
    second = _field(
        found, "Second parameter", "second", [NOTHING, *(name for name in fields if name != first)], NOTHING
    )
    if second != NOTHING:
        texts[second] = _values(found, second, values, kind == DRAWN)
    draw = Draw(*_drawn(found), texts) if kind == DRAWN else None
    seeds = _count(found, "Seeds", "seeds", 1, "Runs per combination; seeds count up from the form's seed.")
    draft, problems = _draft(found, values, texts, seeds, draw, *_ways(found))
    for sentence in problems:
        st.markdown(f":red[{as_text(sentence)}]")
    if draft.plan:
        st.caption(as_text(_summary(draft.plan, draft.seeds, draw)))
    return draft


def start(found: Experiment, ready: ReadySweep) -> None:
    """Switch the fold on and fill it with a ready-made sweep."""
    fields = list(ready.over)
    filled = {
        f"sweep.on.{found.name}": True,
        f"sweep.kind.{found.name}": GRID,
        f"sweep.first.{found.name}": fields[0],
        f"sweep.second.{found.name}": fields[1] if len(fields) > 1 else NOTHING,
        f"sweep.seeds.{found.name}": ready.seeds,
        f"sweep.exclusive.{found.name}": ready.exclusive,
        **{f"sweep.values.{found.name}.{field}": text for field, text in ready.over.items()},
    }
    for key, value in filled.items():
        st.session_state[key] = value


def _drawn(found: Experiment) -> tuple[int, int]:
    """Show the fields of a random search; return the number of combinations and the sampling seed."""
    with st.container(horizontal=True):
        count = _count(
            found, "Combinations", "draws", 8, "Different combinations to sample; invalid ones are sampled again."
        )
        seed = _count(found, "Sampling seed", "draw_seed", 0, "The same seed and ranges give the same combinations.")
    return count, seed


def _ways(found: Experiment) -> tuple[bool, int | None]:
    """Show the exclusive switch and the failure limit; return their values."""
    help_text = "Each run has the machine to itself, so that timings are comparable. Compared modes alternate."
    exclusive = st.toggle(
        "Exclusive (for timing)", key=f"sweep.exclusive.{found.name}", help=help_text, persist_state="session"
    )
    stop_after = st.number_input(
        "Stop after failures",
        step=1,
        min_value=1,
        value=None,
        placeholder="never",
        key=f"sweep.stop.{found.name}",
        help="Cancels the queued runs once this many runs have failed or were lost.",
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
    """Return the draft with its plan, or without one and the error messages."""
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


def _summary(planned: Plan, seeds: int, draw: Draw | None) -> str:
    """Return a summary of the sweep's runs."""
    fields = [field for field in planned.grid if field != SEED]
    if draw:
        ranges = ", ".join(f"{field} from {text.strip()}" for field, text in draw.over.items())
        return f"{count_of(planned)}: {draw.count} samples of {ranges} x {seeds} {'seed' if seeds == 1 else 'seeds'}."
    over = " x ".join(f"{field} {', '.join(map(value_in_words, planned.grid[field]))}" for field in fields)
    return (
        f"{count_of(planned)}: {over} x {seeds} {'seed' if seeds == 1 else 'seeds'} (overrides "
        f"{' and '.join(fields)} in the form)."
    )


def count_of(planned: Plan) -> str:
    """Return the number of runs of a plan, in words."""
    return f"{len(planned.cells)} {'run' if len(planned.cells) == 1 else 'runs'}"
