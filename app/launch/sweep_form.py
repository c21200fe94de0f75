"""The section of the launch form that makes a sweep: varied fields, their values, seeds, and a summary of the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.actions.sweep_forecast import count_of
from app.ui.config_form import fields_of, help_of, key_now, label_of, renew
from app.ui.html import as_text
from engine.analysis.run_values import lower_title
from engine.config_values import read_values, usual_values, value_in_words
from engine.errors import ConfigError, UnknownName, counted
from engine.experiment import Experiment
from engine.script.command import Command
from engine.store import Launch, SweepLaunch
from engine.store.launches import FEWEST_TIMED, Draw, Timing
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import Plan, plan
from engine.sweep.random_search import usual_range

NOTHING = "none"
GRID, DRAWN = "Grid", "Random"
USUAL_DRAWS = 8
USUAL_REPEATS = 3
"""Seeds of a sweep that varies nothing else."""
LEARNING, TIMING = "Learning", "Timing"
WRITTEN = "Comma-separated values; whole numbers also as a range: 1, 2, 4, 8 or 1..10."
_NO_FIELD = f"With {NOTHING}, the sweep repeats the settings of the form over its seeds."
RANGES = (
    "A range to sample uniformly: 0.001..0.1, or log:0.001..0.1 for log-uniform sampling. Comma-separated values are "
    "equally likely."
)


@dataclass(frozen=True)
class Draft:
    """The content of the section; without a plan it is invalid, and the section shows why."""

    sweep: SweepLaunch
    """Its shared settings are the form's that do not vary, or all of the form's with equal work."""
    plan: Plan | None = None


def fold(found: Experiment, values: Mapping[str, Any], command: Command | None) -> Draft | None:
    """Show the switch and, if it is on, the section; return the draft, or None for a single run."""
    what = "command" if command else "experiment"
    help_text = (
        f"Launch several runs of this {what} over values of one or two settings, or over seeds alone. They start as "
        "capacity frees."
    )
    if not st.toggle("Run a sweep", key=_key(found, "on"), help=help_text, persist_state="session"):
        return None
    with st.container(horizontal=True):
        purpose = _choice(
            found,
            *("Purpose", "purpose", (LEARNING, TIMING)),
            help_text=(
                "Learning: runs start side by side as capacity becomes free. Timing: one run at a time on an idle "
                "machine, after a warm-up run; combinations alternate and repeat until their median times are known."
            ),
        )
        kind = _choice(found, "Search", "kind", (GRID, DRAWN))
    seed_field = _seed_field(found, command) if command else SEED
    lists = {name for name, types in found.config.value_types().items() if list in types}
    fields = [name for name in fields_of(found) if name != seed_field and name not in lists]
    if not fields:
        st.caption(
            "The command has no setting that could vary, so the sweep repeats it. To vary something, add an option to "
            "its text, or, for a script that reads its environment, a variable in front: LR=0.1 python train.py."
        )
    texts: dict[str, str] = {}
    for title, which in (("Parameter", "first"), ("Second parameter", "second")):
        free = [name for name in fields if name not in texts]
        usual = (found.axis if found.axis in free else free[0]) if free and not texts else NOTHING
        with st.container(horizontal=True):
            chosen = _field(found, title, which, [NOTHING, *free], usual, _NO_FIELD if which == "first" else None)
            if chosen == NOTHING:
                break
            texts[chosen] = _values(found, chosen, values, kind == DRAWN)
    draw = Draw(*_drawn(found), texts) if kind == DRAWN else None
    with st.container(horizontal=True):
        repeats = 1 if texts else USUAL_REPEATS
        seeds, timing = _timing(found) if purpose == TIMING else (_seeds(found, seed_field, repeats), None)
        stop_after = _stop_after(found)
    equal = found.work is not None and _equal_work(found)
    config = {name: value for name, value in values.items() if equal or name not in texts}
    shared = Launch(found.name, config, command=command)
    draft, problems = _draft(
        found, shared, texts, seeds, draw, timing, stop_after, equal, seed_field if command else ""
    )
    for sentence in problems:
        st.markdown(f":red[{as_text(sentence)}]")
    if draft.plan:
        st.caption(as_text(_summary(found, draft.plan, seeds, draw, timing, with_seeds=bool(seed_field))))
        if said := lengths_in_words(found, draft.plan):
            st.caption(as_text(said))
    return draft


def start(found: Experiment, over: Mapping[str, str], *, equal_work: bool = False, draws: int = 0) -> None:
    """Switch the fold on and fill it: with values, or with the ranges of a random search of so many `draws`; without
    any, it repeats the run.
    """
    renew(found.name)
    first, second = [*over, NOTHING, NOTHING][:2]
    _set(
        found,
        on=True,
        kind=DRAWN if draws else GRID,
        draws=draws or USUAL_DRAWS,
        first=first,
        second=second,
        equal=equal_work,
    )
    for field, text in over.items():
        st.session_state[_key(found, "ranges" if draws else "values", field)] = text
    resize(found, 3)


def stop(found: Experiment) -> None:
    """Switch the fold off: what fills the form is a single run."""
    renew(found.name)
    _set(found, on=False)


def resize(found: Experiment, seeds: int, *, is_timed: bool = False) -> None:
    """Set the number of seeds and the purpose."""
    renew(found.name)
    _set(found, seeds=seeds, purpose=TIMING if is_timed else LEARNING)


def _key(found: Experiment, which: str, *field: str) -> str:
    return key_now(found.name, ".".join(("sweep", which, found.name, *field)))


def _set(found: Experiment, **values: object) -> None:
    for which, value in values.items():
        st.session_state[_key(found, which)] = value


def _drawn(found: Experiment) -> tuple[int, int]:
    """Show the fields of a random search; return the number of combinations and the sampling seed."""
    with st.container(horizontal=True):
        count = _count(
            found,
            "Combinations",
            "draws",
            USUAL_DRAWS,
            "Different combinations to sample; invalid ones are sampled again.",
        )
        seed = _count(found, "Sampling seed", "draw_seed", 0, "The same seed and ranges give the same combinations.")
    return count, seed


def _seed_field(found: Experiment, command: Command) -> str:
    """Show which setting of a command takes the seeds; return it, "" if none does."""
    numbers = [each.name for each in command.fields if each.type in ("int", "float")]
    options = [*numbers, NOTHING] if not command.seed_field else numbers
    chosen = _field(
        *(found, "Seed setting", "seed_field", options, command.seed_field or NOTHING),
        help_text="The setting that takes the seeds. With none, runs of a combination are equal repeats.",
    )
    return "" if chosen == NOTHING else chosen


def _seeds(found: Experiment, seed_field: str, usual: int) -> int:
    title = "Seeds" if seed_field else "Repeats"
    counted = f"seeds count up from the form's {seed_field}." if seed_field else "they are equal repeats."
    return _count(found, title, "seeds", usual, as_text(f"Runs per combination; {counted}"))


def _timing(found: Experiment) -> tuple[int, Timing]:
    """Show how often combinations are repeated; return the fewest runs of each, and when they are enough."""
    usual = Timing()
    fewest = _count(
        found,
        *("Repeats, at least", "repeats", FEWEST_TIMED),
        f"Runs per combination, each with the next seed. A median has an interval from {FEWEST_TIMED} runs on.",
    )
    most = _count(
        found, "Repeats, at most", "most", usual.most, "Runs per combination after which it is left as it is."
    )
    st.session_state.setdefault(_key(found, "within"), 100 * usual.within)
    within = st.number_input(
        "Precision (± %)",
        key=_key(found, "within"),
        help="A combination is done when the 95 % interval of its median time lies within this distance of the median.",
        persist_state="session",
    )
    return fewest, Timing(within / 100, most)


def _equal_work(found: Experiment) -> bool:
    return st.toggle(
        "Equal total work",
        key=_key(found, "equal"),
        help=(
            "Adjusts the length (epochs, rounds, episodes) per value, so that each run does the total work of the form "
            "above. Otherwise the length is the same in all runs."
        ),
        persist_state="session",
    )


def lengths_in_words(found: Experiment, planned: Plan) -> str:
    """Return the total work of the runs of a sweep, and their lengths where these differ; empty if none is counted."""
    if found.work is None:
        return ""
    cells = [cell for cell in planned.cells if cell.values[SEED] == planned.grid[SEED][0]]
    works = [found.work(cell.config) for cell in cells]
    totals = list(dict.fromkeys(work.shortly() for work in sorted(works, key=lambda work: work.amount)))
    length = works[0].length
    if len(totals) > 1:
        cure = "" if length in planned.grid else " Turn on Equal total work to compare the values."
        return f"Unequal total work: {totals[0]} to {totals[-1]}.{cure}"
    lengths = dict.fromkeys(getattr(cell.config, length) for cell in cells)
    varied = f", with {length} {', '.join(map(str, lengths))}" if len(lengths) > 1 else ""
    return f"Total work of each run: {totals[0]}{varied}."


def _stop_after(found: Experiment) -> int | None:
    stop_after = st.number_input(
        "Stop after failures",
        step=1,
        min_value=1,
        value=None,
        placeholder="never",
        key=_key(found, "stop"),
        help="Cancels the queued runs once this many runs have failed or were lost.",
        persist_state="session",
    )
    return None if stop_after is None else int(stop_after)


def _choice(
    found: Experiment, label: str, which: str, options: tuple[str, ...], help_text: str | None = None
) -> str | None:
    key = _key(found, which)
    st.session_state.setdefault(key, options[0])
    return st.segmented_control(label, options, key=key, required=True, help=help_text, persist_state="session")


def _count(found: Experiment, label: str, which: str, value: int, help_text: str) -> int:
    key = _key(found, which)
    st.session_state.setdefault(key, value)
    return int(st.number_input(label, step=1, key=key, help=help_text, persist_state="session"))


def _field(
    found: Experiment, label: str, which: str, options: Sequence[str], default: str, help_text: str | None = None
) -> str:
    key = _key(found, which)
    if st.session_state.get(key, default) not in options:
        st.session_state[key] = default if default in options else options[0]
    st.session_state.setdefault(key, default)
    fields = found.config.model_fields
    return st.selectbox(
        label,
        options,
        key=key,
        format_func=lambda name: label_of(name, fields[name]) if name in fields else name,
        help=help_text,
        persist_state="session",
    )


def _values(found: Experiment, field: str, values: Mapping[str, Any], is_drawn: bool) -> str:
    key = _key(found, "ranges" if is_drawn else "values", field)
    info = found.config.model_fields[field]
    usual = usual_values(found.config, field, values)
    st.session_state.setdefault(
        key, (usual_range(found.config, field, values.get(field)) or usual) if is_drawn else usual
    )
    help_text = f"{as_text(RANGES if is_drawn else WRITTEN)} {help_of(info)}"
    label = as_text(info.title) if info.title else label_of(field, info).lower()
    return st.text_input(f"Values of {label}", key=key, help=help_text, live="400ms", persist_state="session")


def _draft(
    found: Experiment,
    shared: Launch,
    texts: Mapping[str, str],
    seeds: int,
    draw: Draw | None,
    timing: Timing | None,
    stop_after: int | None,
    equal_work: bool,
    seed_field: str,
) -> tuple[Draft, list[str]]:
    """Return the draft with its plan, or without one and the error messages."""
    grid: dict[str, tuple[Any, ...]] = {}
    problems: list[str] = []
    for field, text in {} if draw else texts.items():
        try:
            grid[field] = read_values(found.config, field, text)
        except ConfigError as error:
            problems += [problem.sentence for problem in error.problems]
    sweep = SweepLaunch(
        *(shared, grid, seeds, draw),
        stop_after=stop_after,
        timing=timing,
        equal_work=equal_work,
        seed_field=seed_field,
    )
    if problems:
        return Draft(sweep), problems
    try:
        if timing:
            timing.checked(fewest=seeds)
        return Draft(sweep, plan(sweep)), []
    except ConfigError as error:
        return Draft(sweep), [problem.sentence for problem in error.problems]
    except UnknownName as error:
        return Draft(sweep), [str(error)]


def _summary(
    found: Experiment, planned: Plan, seeds: int, draw: Draw | None, timing: Timing | None, *, with_seeds: bool
) -> str:
    """Return a summary of the sweep's runs."""
    each = counted(seeds, "seed" if with_seeds else "repeat")
    if timing:
        cells = len(planned.cells) // seeds
        return (
            f"{count_of(planned, timing)}: {seeds} of each of {counted(cells, 'combination')}, and up to "
            f"{timing.most} until its median time is known to ± {100 * timing.within:g} %."
        )
    fields = [field for field in planned.grid if field != SEED]
    if draw:
        ranges = ", ".join(f"{_named(found, field)} from {text.strip()}" for field, text in draw.over.items())
        return f"{count_of(planned)}: {counted(draw.count, 'sample')} of {ranges} × {each}."
    if not fields:
        return f"{count_of(planned)} with the settings in the form."
    over = " × ".join(
        f"{_named(found, field)} {', '.join(map(value_in_words, planned.grid[field]))}" for field in fields
    )
    return (
        f"{count_of(planned)}: {over} × {each} (overrides "
        f"{' and '.join(_named(found, field) for field in fields)} in the form)."
    )


def _named(found: Experiment, field: str) -> str:
    """Return a setting as it is labelled in the form, within a sentence."""
    info = found.config.model_fields[field]
    return info.title or lower_title(field)
