"""What the page of a run of a lab's own command has more: what ran, interpreter, code, and what ranks its runs."""

from collections.abc import Mapping

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text, fact_row, titled
from app.ui.store_access import command as store_command
from app.ui.widgets import PAGES
from engine.analysis.comparability import code_in_words
from engine.errors import counted
from engine.home import Home
from engine.metrics import DIRECTIONS, MetricSetting
from engine.runtime.command.snapshot import diff_of
from engine.script.command import Rendered
from engine.store import Reader, Store
from engine.store.records import Run, RunRow
from engine.store.scripts import rendered

MOST_LINES = 2_000
"""Lines of a difference that the page shows."""
_LATER = "run.rank.later"
PHASES = """from parallab_log import phase

with phase("data"):
    batch = next(batches)"""
"""What records phases: a run finds the module without an install."""


def ran(run: Run) -> Rendered:
    """Return the command as it ran, or as it will run."""
    assert run.command is not None
    found = rendered(run.command, run.config)
    started = run.environment.get("command")
    if isinstance(started, Mapping) and isinstance(argv := started.get("argv"), list):
        return Rendered([*map(str, argv)], found.environment)
    return found


def about_command(run: Run, reader: Reader) -> None:
    """Show the command of a run, where it ran, with which interpreter and which code; nothing for an experiment's."""
    if run.command is None:
        return
    with st.container(key="run-command", gap="small"):
        st.code(ran(run).text, language="bash", wrap_lines=True)
        st.html(fact_row(_facts(run, reader)))
        diff = diff_of(Home.find().run_folder(run.id)) if run.started_at else ""
        if diff:
            lines = diff.splitlines()
            cut = f", the first {MOST_LINES:,}" if len(lines) > MOST_LINES else ""
            with st.expander(f"Changes since the commit ({counted(len(lines), 'line')}{cut})", type="compact"):
                st.code("\n".join(lines[:MOST_LINES]), language="diff", height=400 if len(lines) > 20 else "content")
        _ask_ranking(run, reader)


def _facts(run: Run, reader: Reader) -> list[str]:
    assert run.command is not None
    about = run.environment
    found = [f"In {run.command.folder}"] if run.command.folder else []
    if version := reader.recipes.version_of(run.experiment, run.command_id):
        found.append(f"recipe {run.experiment}, version {version}")
    if interpreter := about.get("interpreter") or run.command.python:
        packages = about.get("packages")
        torch = packages.get("torch") if isinstance(packages, Mapping) and about.get("interpreter") else None
        python = f"Python {about['python']}" if about.get("interpreter") and about.get("python") else "Interpreter"
        found.append(titled(f"{python}{f', torch {torch}' if torch else ''}: {interpreter}", "As the run recorded it"))
    if words := code_in_words(about):
        found.append(words)
    if ranking := _ranking(reader.runs.entry(run.id)):
        found.append(ranking)
    return found


def _ranking(entry: RunRow) -> str:
    if not entry.ranked_by:
        return ""
    return f"ranked by {entry.ranked_by}, {DIRECTIONS[entry.better or 'max']}"


# ---- The metric that ranks the runs of a script: asked once, after a run that finished -------------------------------


def _ask_ranking(run: Run, reader: Reader) -> None:
    """Ask which metric ranks the script's runs, unless that is known; a person can put it off for this visit."""
    entry = reader.runs.entry(run.id)
    names, settings = own_metrics(entry), reader.recipes.metric_settings(run.script_key)
    if run.status != "finished" or entry.ranked_by or not names or run.script_key in st.session_state.get(_LATER, ()):
        return
    with st.container(border=True, key="run-rank"):
        st.write(as_text(f"Which metric ranks the runs of {run.experiment}?"))
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = st.selectbox("Metric", names, key=f"rank-metric-{run.id}", width=260)
            better = st.segmented_control(
                *("Direction", list(DIRECTIONS)),
                key=f"rank-better-{run.id}-{name}",
                default=settings.get(name, MetricSetting.usual(name)).better or None,
                format_func=DIRECTIONS.__getitem__,
                required=True,
            )
            allowed = current_user.control("rank by", [run.owner], what=f"Run {run.id}", disabled=better is None)
            if st.button("Rank by it", type="primary", key=f"rank-{run.id}", **allowed) and store_command(
                lambda store: _rank(store, run.id, name, "min" if better == "min" else "max")
            ):
                st.rerun()
            if st.button("Not now", type="tertiary", key=f"rank-later-{run.id}"):
                st.session_state[_LATER] = (*st.session_state.get(_LATER, ()), run.script_key)
                st.rerun()


def _rank(store: Store, run_id: int, name: str, better: str) -> bool:
    store.recipes.rank_by(run_id, name, "min" if better == "min" else "max", by=current_user.whoever())
    return True


def own_metrics(entry: RunRow) -> list[str]:
    """Return the metrics that the script itself recorded, those that usually rank runs first."""
    found = [name for name in entry.last if not name.startswith("perf/")]
    return sorted(found, key=lambda name: (_place(name), name))


def _place(name: str) -> int:
    """Return how likely a metric ranks runs by its name: validation before training, quality before loss."""
    low = name.lower()
    is_validation = any(word in low for word in ("val", "test", "eval"))
    is_quality = any(word in low for word in ("acc", "f1", "auc", "reward", "return", "score", "bleu"))
    return (0 if is_validation else 2) + (0 if is_quality else 1) + (4 if not is_quality and "loss" not in low else 0)


# ---- What a script does not record ----------------------------------------------------------------------------------


def not_recorded(run: Run, reader: Reader) -> None:
    """Say once what a script does not record, with the lines that would record it."""
    if run.command is None or run.status == "queued" or any(reader.details.phases(run.id).values()):
        return
    with st.expander("Not recorded by this script: phases, such as data, compute and communication", type="compact"):
        st.caption("They show what each rank waits for. Two lines for each phase record it:")
        st.code(PHASES, language="python")
        st.page_link(PAGES["docs"], label="Guide: your own script", query_params={"page": "own-script"})
