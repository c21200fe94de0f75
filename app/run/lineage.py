"""Where a run came from and what came of it: links to its nearest kin, and the tree of all."""

from collections.abc import Iterator, Mapping, Sequence

import streamlit as st

from app.run.summary_html import result
from app.ui.html import branch, fact_row, joined, nowrap, quiet, run_link, strong, sweep_link, table, titled, wide
from app.ui.widgets import title_of
from engine.analysis.run_values import changed, shown_config
from engine.errors import counted
from engine.store import Reader
from engine.store.records import RESUMES, RETRIES, Run, RunRow
from engine.store.runs.reader import Kin

MOST_LINKS = 6
"""Runs that are linked above the curves."""
MOST_KIN = 500
"""Runs that a tree shows."""
MOST_OF_NAME, MOST_OF_NOTE = 100, 80
"""Letters of a name and of a note in the tree; the hover has all."""
CAME = {"resumes": "resumed as", "retries": "retried as", "clone of": "cloned as"}
Node = tuple[Kin, ...]
"""A place in the tree: a run, or those runs of a sweep that came of the same run and have nothing below them."""


def lineage(run: Run, reader: Reader) -> None:
    """Link the run to its origin and to the runs that came of it, each with what differs; show nothing without any. A
    larger family has its tree, drawn while it is open.
    """
    family = reader.runs.family(run.id, MOST_KIN)
    rows = {row.id: row for row in reader.runs.some([kin.id for kin in family])}
    if said := [*_origin(run, family, rows, reader), *_descent(run, family, rows)]:
        st.html(fact_row(said))
    if len(family) > 1:
        label = f"Tree of {counted(len(family), 'run')}"
        with st.expander(label, key="tree", on_change="rerun", bind="query-params", type="compact") as fold:
            if fold.open:
                st.html(tree(run.id, family, rows))
                if len(family) == MOST_KIN:
                    st.caption(f"The first {MOST_KIN} runs of the family.")


def _origin(run: Run, family: Sequence[Kin], rows: Mapping[int, RunRow], reader: Reader) -> Iterator[str]:
    """Yield what the run resumes, retries or is a clone of; its events record that even if the other was deleted."""
    events = {event.kind: event.detail for event in reader.details.events(run.id)}
    said = [f"{kind} {events[kind]}" for kind in (RESUMES, RETRIES) if kind in events]
    origins = [kin for kin in family if kin.id == run.id and kin.parent]
    said += [f"{kin.how} run {kin.parent}" for kin in origins if not said]
    for words in said:
        parent = next((rows[kin.parent] for kin in origins if kin.parent and kin.parent in rows), None)
        if parent is None:
            yield f"{words}, which was deleted"
        else:
            yield run_link(f"{words}{_in_brackets(changed(shown_config(parent), shown_config(run)))}", parent.id)


def _descent(run: Run, family: Sequence[Kin], rows: Mapping[int, RunRow]) -> Iterator[str]:
    """Yield what came of the run."""
    found = offspring(family, rows).get(run.id, [])
    for node in found[:MOST_LINKS]:
        row, came = rows[node[0].id], CAME[node[0].how]
        if len(node) > 1 and row.sweep_id:
            yield sweep_link(f"{came} sweep {row.sweep_id} ({counted(len(node), 'run')})", row.sweep_id)
        else:
            yield run_link(f"{came} run {row.id}{_in_brackets(changed(shown_config(run), shown_config(row)))}", row.id)
    if len(found) > MOST_LINKS:
        yield f"and {len(found) - MOST_LINKS:,} more"


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""


def offspring(family: Sequence[Kin], rows: Mapping[int, RunRow]) -> dict[int | None, list[Node]]:
    """Return what came of each run, oldest first; what came of None begins the tree."""
    parents = {kin.parent for kin in family}
    nodes: dict[tuple[int | None, int], list[Kin]] = {}
    for kin in family:
        sweep = rows[kin.id].sweep_id if kin.parent and kin.id in rows and kin.id not in parents else None
        nodes.setdefault((kin.parent, sweep or -kin.id), []).append(kin)
    found: dict[int | None, list[Node]] = {}
    for (parent, _), members in nodes.items():
        found.setdefault(parent, []).append(tuple(members))
    return found


def tree(shown: int, family: Sequence[Kin], rows: Mapping[int, RunRow]) -> str:
    """Return the tree as a table whose first column draws it: a branch for each of several runs that came of one, a
    line down to a single one.
    """
    by_id = {kin.id: kin for kin in family}
    lines = []
    for node, left, up, down in _drawn(offspring(family, rows)):
        kin, row = node[0], rows.get(node[0].id)
        if row is None:
            lines.append([branch(left, up, down, "", f"run {kin.id}, deleted"), "", "", ""])
            continue
        sweep = sweep_link(f"sweep {row.sweep_id}", row.sweep_id) if row.sweep_id else ""
        if len(node) > 1:
            words, differs = sweep, counted(len(node), "run")
            differs += ", this one among them" if any(each.id == shown for each in node) else ""
            lines.append([branch(left, up, down, row.status, words), f"{CAME[kin.how]}: {differs}", "", ""])
            continue
        words = strong(f"run {row.id}, this one") if row.id == shown else run_link(f"run {row.id}", row.id)
        before = rows.get(kin.parent or 0)
        came = [CAME[kin.how].removesuffix(" as")] if kin.how else []
        came += [changed(shown_config(before), shown_config(row)) or "the same settings"] if before else []
        note, name = " ".join(by_id[row.id].note.split()), title_of(row)
        words = joined([words, quiet(joined([titled(_short(name, MOST_OF_NAME), name), f", {row.status}"], ""))], " ")
        lines.append(
            [
                branch(left, up, down, row.status, words),
                wide(": ".join(came)) if came else sweep,
                nowrap(result(row)),
                wide(titled(_short(note, MOST_OF_NOTE), note)) if note else "",
            ]
        )
    return table(("Run", "What changed", "Result", "Note"), lines, caption="Tree of runs")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _drawn(under: Mapping[int | None, Sequence[Node]]) -> Iterator[tuple[Node, str, bool, bool]]:
    """Yield each node in the order of the tree's rows, with what its row draws: the columns left of its dot (`|` a line
    that passes, `t` one that also branches off, `e` one that ends in a branch, or a blank), and whether lines lead from
    its dot up and down.
    """
    waiting = [(node, "", "", False) for node in reversed(under.get(None, ()))]
    while waiting:
        node, left, below, up = waiting.pop()
        children = under.get(node[0].id, ()) if len(node) == 1 else ()
        yield node, left, up, bool(children)
        if len(children) == 1:
            waiting.append((children[0], below, below, True))
            continue
        for child in reversed(children):
            is_last = child is children[-1]
            waiting.append((child, below + "te"[is_last], below + "| "[is_last], False))
