"""What the Results page is asked to show: every choice has its place in the address, in the words of the filter
language.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import streamlit as st

from app.links.run_ids import is_run_id
from app.runs import columns
from app.runs.columns import Column
from app.ui.filter_help import FILTER_EXAMPLE, FILTER_HELP
from app.ui.html import as_text
from engine.errors import EngineError
from engine.filter import Both, Comparison, Field, Filter, Node, SortOrder
from engine.filter.syntax import LONGEST
from engine.registry import EXPERIMENTS
from engine.store import Reader
from engine.store.records import Status

CHOICES = ("search", "filter", "of", "by", "status")
"""The widgets that leave runs out, by their keys, which are their names in the address."""
CHOICE_PX = 165
"""Two of them stand side by side on a phone."""


@dataclass(frozen=True)
class RunsView:
    """One view of the results."""

    search: str
    matching: Filter | None
    """None where the filter can't be read."""
    statuses: Sequence[Status] | None
    archived: bool | None
    order: SortOrder | None
    columns: tuple[Column, ...]
    grouped: bool
    compared: bool
    baseline: int | None
    """The run that all others are compared with, None for each experiment's own baseline."""
    experiments: Sequence[str] = ()
    owners: Sequence[str] = ()
    """Chosen from lists; `matching` asks for them too."""

    @property
    def asked(self) -> dict[str, Any]:
        """What the store is asked for."""
        return {"search": self.search, "matching": self.matching, "statuses": self.statuses, "archived": self.archived}


def choose(reader: Reader) -> RunsView:
    """Show the choices and return the view that they make; what can't be read stands under them."""
    text = st.text_input(
        "Filter", key="filter", placeholder=FILTER_EXAMPLE, help=FILTER_HELP, max_chars=LONGEST, bind="query-params"
    )
    matching, problem = _filter(reader, text)
    if problem:
        st.markdown(f":red[{as_text(problem)}]")
    for note in matching.notes if matching else ():
        st.caption(as_text(note))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        search = st.text_input(
            "Search", key="search", placeholder="name, tag, note", bind="query-params", width=CHOICE_PX
        )
        of = st.multiselect(
            "Experiment", _experiments(reader), key="of", bind="query-params", placeholder="all", width=CHOICE_PX
        )
        by = st.multiselect(
            "Owner", reader.runs.owners(), key="by", bind="query-params", placeholder="everyone", width=CHOICE_PX
        )
        status = st.multiselect(
            "Status", get_args(Status), key="status", bind="query-params", placeholder="any", width=CHOICE_PX
        )
        columns, sentences = _columns(reader)
        order, wrong = _order(reader, columns)
        grouped, compared, baseline, archived, unread = _more()
    for sentence in [*sentences, *wrong, *unread]:
        st.markdown(f":red[{as_text(sentence)}]")
    if matching:
        matching = _joined(matching, of, by)
        archived = archived or matching.mentions("archived")
    return RunsView(
        search,
        matching,
        status or None,
        None if archived else False,
        order,
        tuple(columns),
        grouped,
        compared,
        baseline,
        of,
        by,
    )


def is_narrowed() -> bool:
    """Say whether any choice leaves runs out."""
    return any(st.session_state.get(name) for name in CHOICES)


def clear() -> None:
    """Leave no run out, before the page runs again."""
    for name in CHOICES:
        st.session_state[name] = "" if name in ("search", "filter") else []


def _experiments(reader: Reader) -> list[str]:
    """Return the experiments to choose from: all of ours, then those of imported runs and of older versions."""
    return [*EXPERIMENTS, *(name for name in reader.runs.experiments() if name not in EXPERIMENTS)]


def _filter(reader: Reader, text: str) -> tuple[Filter | None, str]:
    try:
        return reader.fields.filter(text), ""
    except EngineError as error:
        return None, str(error)


def _columns(reader: Reader) -> tuple[list[Column], list[str]]:
    metrics = reader.fields.metric_names()
    usual = columns.usual(metrics)
    with st.popover("Columns", key="columns"):
        written = st.multiselect(
            "Columns",
            list(dict.fromkeys([*columns.choices(metrics), *usual])),
            default=usual,
            key="show",
            bind="query-params",
            accept_new_options=True,
            width=420,
            help=(
                "Settings, what every run has, and metrics: .last, .best, .mean, .min, .max, or at a step: write "
                "train/loss@500."
            ),
        )
    return columns.read_columns(written, reader)


def _order(reader: Reader, columns: Sequence[Column]) -> tuple[SortOrder | None, list[str]]:
    names = dict.fromkeys(
        [
            "created",
            *(column.field.written for column in columns if column.step is None and column.field.kind != "tags"),
        ]
    )
    options = [sign + name for name in names for sign in ("-", "")]
    text = st.selectbox(
        "Sort by",
        options,
        index=None,
        key="sort",
        bind="query-params",
        accept_new_options=True,
        placeholder="newest first",
        width=205,
        help="Sorts all runs that match, not those shown alone; a minus puts the greatest first.",
    )
    try:
        return (reader.fields.order(text) if text else None), []
    except EngineError as error:
        return None, [str(error)]


def _more() -> tuple[bool, bool, int | None, bool, list[str]]:
    with st.popover("RunsView", key="more"):
        grouped = st.toggle(
            "One row for all seeds",
            key="group",
            bind="query-params",
            help="Runs that differ in their seed alone: mean and sd of those that finished.",
        )
        compared = st.toggle("Differences to the baseline", value=True, key="differences", bind="query-params")
        # Streamlit's number_input ends the script where the address gives it an endless number, such as inf
        baseline = st.text_input(
            "Compare with run",
            max_chars=15,
            key="baseline",
            bind="query-params",
            placeholder="each experiment's baseline",
            help=(
                "Pin a run and it is its experiment's baseline; a number here is the baseline of all, in this view "
                "alone."
            ),
        )
        archived = st.toggle("Archived runs too", key="archived", bind="query-params")
    if baseline and not is_run_id(baseline):
        return (
            grouped,
            compared,
            None,
            archived,
            [
                (
                    f"A baseline is the number of a run, such as 12, got '{baseline}'. Give one under View, or "
                    "leave it empty."
                )
            ],
        )
    return grouped, compared, int(baseline) if baseline else None, archived, []


def _joined(matching: Filter, of: Sequence[str], by: Sequence[str]) -> Filter:
    """Return a filter with what was chosen from lists."""
    parts: list[Node] = [matching.tree]
    for name, wanted in (("experiment", of), ("owner", by)):
        if wanted:
            parts.append(Comparison(Field("run", name, "text"), "in", tuple(wanted)))
    return Filter(matching.text, Both(tuple(parts)), matching.notes)
