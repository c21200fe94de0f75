"""What to do after a run has finished: links to the filled launch form, to a sweep and to a comparison."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.links.compare import CompareView, query_of
from app.links.launch import launch_query
from app.ui import current_user
from app.ui.html import as_text
from app.ui.widgets import PAGES
from engine.errors import ConfigError
from engine.experiment.definition import Experiment
from engine.registry import experiment, known_experiment
from engine.store import Reader
from engine.store.records import Run, RunRow

REFERENCE = "reference"
MOST_REFERENCES = 200


@dataclass(frozen=True)
class NextStep:
    """One link: its label, its help, and the page with its query."""

    label: str
    help: str
    page: str
    query: Mapping[str, str | list[str]]


def next_steps(run: Run, reader: Reader) -> None:
    """Show what to do next, in a row; nothing before the run has finished."""
    if run.status != "finished" or not (found := list(steps(run, reader))):
        return
    with st.container(key="run-next", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Next steps", width="content")
        for step in found:
            st.page_link(PAGES[step.page], label=step.label, help=as_text(step.help), query_params=step.query)


def steps(run: Run, reader: Reader) -> Iterator[NextStep]:
    """Yield the next steps of a finished run that this person may take."""
    known = known_experiment(run.experiment)
    if known is None or known.config.model_fields.keys() - run.config.keys():
        return
    launches = current_user.may("launch")
    count = next(iter(known.counts), None)
    if count and launches:
        yield from _with_fewer(known, run, count)
    yield from _reference(known, run, reader, launches)
    if launches and (axis := count or known.axis):
        query = launch_query(known, run.preset, run.config) | {"sweep": axis}
        name = axis.replace("_", " ")
        yield NextStep(f"Sweep {name}", f"Open the sweep form with this run's settings over {name}.", "launch", query)


def _with_fewer(known: Experiment, run: Run, count: str) -> Iterator[NextStep]:
    """Yield the same run with a single trainer, or with two if it had one, if the experiment allows that."""
    number = 2 if run.config[count] == 1 else 1
    noun = known.counts[count] + ("s" if number > 1 else "")
    for changes in ({count: number}, {count: number, known.axis: number}):
        try:
            config = known.config.check({**run.config, **changes})
        except (ConfigError, TypeError):
            continue
        query = launch_query(known, run.preset, config.model_dump(mode="json"))
        return (yield NextStep(f"Same with {number} {noun}", "Fill the launch form.", "launch", query))


def _reference(known: Experiment, run: Run, reader: Reader, launches: bool) -> Iterator[NextStep]:
    """Yield the comparison with the most similar finished run of the reference, or without one its launch."""
    is_own_task = any(run.config.get(name) == value for name, value in known.result.own_tasks)
    if known.duel is None or known.name == REFERENCE or is_own_task:  # another model, or no training to compare
        return
    reference = experiment(REFERENCE)
    shared = {name: run.config[name] for name in reference.config.model_fields if name in run.config}
    candidates = reader.runs.find(statuses=["finished"], experiment=REFERENCE, archived=False, limit=MOST_REFERENCES)
    alike = [one for one in candidates if one.config.get("dataset") == shared.get("dataset")]
    if alike:
        nearest = max(alike, key=lambda one: (one.pinned_by is not None, _equal(one, shared), one.id))
        view = CompareView(runs=(nearest.id, run.id), x="time", group=())
        words = f"Compare with run {nearest.id}: the same data and model in one process."
        yield NextStep("Compare with Reference", words, "compare", query_of(view))
    elif launches:
        try:
            config = reference.config.check(shared)
        except ConfigError:
            return
        query = launch_query(reference, None, config.model_dump(mode="json"))
        yield NextStep("Run the Reference", "The same data and model in one process, to compare with.", "launch", query)


def _equal(one: RunRow, shared: Mapping[str, Any]) -> int:
    return sum(one.config.get(name) == value for name, value in shared.items())
