"""The query of the Runs page: every control is stored in the address, in terms of the filter language."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.links import addresses
from app.links.addresses import is_run_id
from app.runs import columns, grid
from app.runs.columns import Column
from app.ui import current_user
from app.ui.html import as_text
from app.ui.widgets import FILTER_EXAMPLE, FILTER_HELP
from engine.errors import EngineError
from engine.filter import Both, Comparison, Field, Filter, Node, SortOrder
from engine.filter.syntax import LONGEST
from engine.registry import EXPERIMENTS, experiment_title
from engine.store import Reader
from engine.store.records import ALIVE, Status

GROUPS: dict[str, tuple[Status, ...]] = {
    "active": ("queued", *ALIVE),
    "finished": ("finished",),
    "failed or lost": ("failed", "lost"),
    "cancelled": ("cancelled",),
}
EVERY = "all"
"""All statuses: the default, which another one replaces."""
FILTERS: dict[str, tuple[()] | bool] = {"of": (), "by": (), "mine": False, "starred": False}
"""Widgets of the Filters popover by key (also the name in the address), each with its default."""
NARROWING = {
    "show": "Status",
    "search": "Search",
    "filter": "Filter expression",
    "of": "Experiment",
    "by": "Owner",
    "mine": "My runs",
    "starred": "Starred",
}
"""All widgets that narrow the runs, each with its label."""
CHOICE_PX = 165
"""Width at which two controls fit side by side on a phone."""


@dataclass(frozen=True)
class RunsView:
    """One view of the table of runs."""

    search: str
    matching: Filter | None
    """None if the filter is invalid."""
    statuses: Sequence[Status] | None
    archived: bool | None
    order: SortOrder | None
    columns: tuple[Column, ...]
    grouped: bool
    compared: bool
    baseline: int | None
    """The baseline run; None for each experiment's own baseline."""
    experiments: Sequence[str] = ()
    owners: Sequence[str] = ()
    """Selected from lists; also part of `matching`."""
    folds: bool = True
    """Whether the runs of a sweep or duel make one row, unless they are sorted or grouped otherwise."""

    @property
    def is_folded(self) -> bool:
        return self.folds and not self.grouped and self.order is None

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments for the store."""
        return {"search": self.search, "matching": self.matching, "statuses": self.statuses, "archived": self.archived}


def choose(reader: Reader) -> RunsView:
    """Show the controls and return the resulting view; errors appear below them."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        addresses.take("show", [EVERY])
        st.session_state["show"] = [each for each in st.session_state["show"] if each in (EVERY, *GROUPS)] or [EVERY]
        shown = st.segmented_control(
            *("Status", [EVERY, *GROUPS]),
            selection_mode="multi",
            key="show",
            on_change=_all_or_some,
            wrap=True,
            help="Select one or several.",
        )
        search = st.text_input(
            "Search", placeholder="name, owner, tag, note", width=CHOICE_PX + 35, **addresses.kept("search", "")
        )
        of, by, mine, starred = _filters(reader)
        kept = addresses.kept("filter", "")
        matching, problem = _filter(reader, st.session_state["filter"])
        if matching:
            starred_only = [reader.fields.filter("starred").tree] if starred else []
            matching = _joined(matching, of, [*by, *mine], starred_only)
        statuses = [status for group in shown if group != EVERY for status in GROUPS[group]] or None
        settings, metrics = reader.runs.recorded(search=search, matching=matching, statuses=statuses)
        columns, sentences = _columns(reader, settings, metrics)
        order, wrong, more = _more(reader, columns, settings)
        st.text_input("Filter expression", placeholder=FILTER_EXAMPLE, help=FILTER_HELP, max_chars=LONGEST, **kept)
    if problem:
        st.markdown(f":red[{as_text(problem)}]")
    for note in matching.notes if matching else ():
        st.caption(as_text(note))
    for sentence in [*sentences, *wrong, *more.sentences]:
        st.markdown(f":red[{as_text(sentence)}]")
    archived = more.archived
    if matching:
        archived = archived or matching.mentions("archived")
    return RunsView(
        search,
        matching,
        statuses,
        None if archived else False,
        order,
        tuple(columns),
        more.grouped,
        more.compared,
        more.baseline,
        of,
        [*by, *mine],
        more.folds,
    )


def is_narrowed() -> bool:
    """Return whether any control narrows the runs."""
    return any(name in st.query_params for name in NARROWING)


def conditions() -> str:
    """Return what narrows the runs, in the words of the controls."""
    found = []
    for name, label in NARROWING.items():
        if values := st.query_params.get_all(name):
            words = ", ".join(map(experiment_title, values) if name == "of" else values)
            found.append(label if values == ["true"] else f"{label}: {words}")
    return "; ".join(found)


def clear() -> None:
    """Reset all controls, before the page reruns."""
    addresses.write(dict.fromkeys(NARROWING, ()))


def _all_or_some() -> None:
    """Select all statuses or some, as the last press says, before the page reruns."""
    chosen = st.session_state["show"] or [EVERY]
    st.session_state["show"] = [EVERY] if chosen[-1] == EVERY else [group for group in chosen if group != EVERY]
    addresses.keep("show", [EVERY])


def sort_by_heading() -> None:
    """Sort by the heading that was pressed, before the page reruns."""
    if wanted := grid.sort_pressed():
        addresses.write({"sort": [wanted]})


def _filters(reader: Reader) -> tuple[list[str], list[str], list[str], bool]:
    """Return the selected experiments and owners, the person's own name for My runs, and whether a star is required."""
    of, by, mine, starred = (addresses.hidden(name, usual) for name, usual in FILTERS.items())
    count = sum(name in st.query_params for name in FILTERS)
    with st.popover(f"Filters ({count})" if count else "Filters", key="filters"):
        used = reader.runs.experiments()
        experiments = _also([*(each for each in EXPERIMENTS if each in used), *used, *EXPERIMENTS], of)
        chosen = st.multiselect(
            "Experiment", experiments, format_func=experiment_title, placeholder="all", select_all=False, **of
        )
        owners = st.multiselect(
            "Owner", _also(reader.runs.owners(), by), placeholder="everyone", select_all=False, **by
        )
        me = current_user.name()
        own = st.toggle("My runs", disabled=me is None, **mine)
        stars = st.toggle("Starred", **starred)
    return chosen, owners, [me] if own and me else [], stars


def _also(options: Sequence[str], widget: Mapping[str, Any]) -> list[str]:
    """Return the options of a list, and those that the address has chosen."""
    return list(dict.fromkeys([*options, *st.session_state[widget["key"]]]))


def _filter(reader: Reader, text: str) -> tuple[Filter | None, str]:
    try:
        return reader.fields.filter(text), ""
    except EngineError as error:
        return None, str(error)


def _columns(
    reader: Reader, settings: Mapping[str, int], metrics: Mapping[str, Mapping[str, int]]
) -> tuple[list[Column], list[str]]:
    usual = columns.usual(metrics, settings)
    offered = [*columns.choices(reader.fields.metric_names(), settings), *usual]
    chosen = addresses.hidden("columns", usual, offered)
    with st.popover("Columns", key="columns.open"):
        written = st.multiselect(
            "Columns",
            _also(offered, chosen),
            select_all=False,
            filter_mode="contains",
            format_func=columns.named,
            accept_new_options=True,
            width=420,
            help=(
                "Settings, run fields, and the last, best, mean, least or greatest value of metrics. For a value at a "
                "step, write train/loss@500."
            ),
            **chosen,
        )
    return columns.read_columns(written, reader)


@dataclass(frozen=True)
class _MoreChoices:
    """The choices of the Display popover, and messages about wrong ones."""

    grouped: bool
    folds: bool
    compared: bool
    baseline: int | None
    archived: bool
    sentences: Sequence[str]


def _more(
    reader: Reader, columns: Sequence[Column], settings: Collection[str]
) -> tuple[SortOrder | None, list[str], _MoreChoices]:
    with st.popover("Display", key="more"):
        order, wrong = _order(reader, columns, settings)
        grouped = st.toggle(
            "Group by seed",
            **addresses.hidden("group", False),
            help="One row per config: mean and sd over finished runs that differ only in seed.",
        )
        folds = st.toggle(
            "Fold sweeps and duels",
            **addresses.hidden("fold", True),
            help="One row per sweep or duel while the table is neither sorted nor grouped.",
        )
        compared = st.toggle("Difference to baseline", **addresses.hidden("differences", True))
        # Streamlit's number_input crashes the script if the address contains an infinite number, such as inf
        baseline = st.text_input(
            "Baseline run",
            max_chars=15,
            **addresses.hidden("baseline", ""),
            placeholder="pinned run of each experiment",
            help="The baseline of an experiment is its pinned run. A run number here replaces it, in this view only.",
        )
        archived = st.toggle("Archived runs", **addresses.hidden("archived", False))
    is_valid = is_run_id(baseline)
    sentences = (
        [f"Baseline must be a run number, such as 12; got '{baseline}'. Enter one under Display, or leave it empty."]
        if baseline and not is_valid
        else []
    )
    chosen = int(baseline) if baseline and is_valid else None
    return order, wrong, _MoreChoices(grouped, folds, compared, chosen, archived, sentences)


def _order(
    reader: Reader, chosen_columns: Sequence[Column], settings: Collection[str]
) -> tuple[SortOrder | None, list[str]]:
    names = dict.fromkeys(
        [
            "created",
            *columns.parameters(settings),
            *(each.field.written for each in chosen_columns if each.step is None and each.field.kind != "tags"),
        ]
    )
    options = [sign + name for name in names for sign in ("-", "")]
    widget = addresses.hidden("sort", None, options)
    if chosen := st.session_state[widget["key"]]:
        options = list(dict.fromkeys([*options, chosen]))
    text = st.selectbox(
        "Sort by",
        options,
        index=None,
        format_func=_order_named,
        accept_new_options=True,
        filter_mode="contains",
        placeholder="running first, then highest number",
        width=340,
        help="Sorts all matching runs, not only this page. A minus sign sorts in descending order. Runs get their "
        "number when they are queued or imported; -created sorts by time.",
        **widget,
    )
    try:
        return (reader.fields.order(text) if text else None), []
    except EngineError as error:
        return None, [str(error)]


def _order_named(text: str) -> str:
    """Return an order to choose: its column as a label, the direction, and how it is written."""
    name = text.removeprefix("-")
    label, _, _ = columns.named(name).partition(columns.APART_BY)
    return f"{label} {'↑' if name == text else '↓'}{columns.APART_BY}{text}"


def _joined(matching: Filter, of: Sequence[str], by: Sequence[str], more: Sequence[Node]) -> Filter:
    """Return a filter with the conditions selected from lists, and `more`."""
    parts: list[Node] = [matching.tree, *more]
    for name, wanted in (("experiment", of), ("owner", by)):
        if wanted:
            parts.append(Comparison(Field("run", name, "text"), "in", tuple(wanted)))
    return Filter(matching.text, Both(tuple(parts)), matching.notes)
