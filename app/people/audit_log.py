"""The audit log on the People page: who did what and when, newest first, narrowed by person and command, page by page,
and as a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from app.export.downloads import download
from app.ui.html import run_link, sweep_link, table, when, wide
from app.ui.store_access import reading
from engine.access.rules import COMMANDS
from engine.home import Home
from engine.store import Entry, Person, Reader
from engine.transfer.tables import Table

PAGE, MOST, NAMED = 50, 100_000, 8
"""Entries on a page, in a file at most, and targets that are named one by one."""
_PAGES = "audit.pages"
HEADERS = ("When", "Who", "As", "Command", "To", "What")
COLUMNS = ("id", "at", "who", "role", "command", "kind", "targets", "detail", "refused")


@dataclass(frozen=True)
class AuditQuery:
    """What entries are asked for."""

    who: str | None
    command: str | None
    refused: bool

    def entries(self, reader: Reader, *, before: int | None = None, limit: int = PAGE) -> list[Entry]:
        return reader.audit.entries(
            who=self.who, command=self.command, refused=self.refused, before=before, limit=limit
        )


def audit_log(people: Sequence[Person]) -> None:
    """Show the log with its filters."""
    asked = _asked(people)
    pages = _pages(asked)
    with reading() as reader:
        found = asked.entries(reader, before=pages[-1] if pages else None, limit=PAGE + 1)
    if not found:
        st.write("Nothing of that kind was done.")
        return
    st.html(table(HEADERS, [_row(each) for each in found[:PAGE]], caption="The audit log, newest first"))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Newer", key="audit.newer", on_click=_turn_back, args=(pages,), disabled=not pages)
        st.button(
            "Older",
            key="audit.older",
            on_click=pages.append,
            args=(found[PAGE - 1].id if len(found) > PAGE else 0,),
            disabled=len(found) <= PAGE,
        )
        download("audit", key="audit", tables={f"All entries of that kind, at most {MOST:,}": lambda: _table(asked)})
        st.caption("Entries are only ever added; nobody can change or delete one here.")


def _asked(people: Sequence[Person]) -> AuditQuery:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        who = st.selectbox(
            "Person", [each.name for each in people], index=None, placeholder="anyone", key="audit.who", width=240
        )
        command = st.selectbox(
            "Command", ["sign in", "sign out", *COMMANDS], index=None, placeholder="any", key="audit.command", width=240
        )
        refused = st.toggle("Only what was refused", key="audit.refused")
    return AuditQuery(who, command, refused)


def _pages(asked: AuditQuery) -> list[int]:
    """Return the entries before which the pages begin that were turned to; with other filters it is the first page."""
    kept = st.session_state.get(_PAGES)
    if kept is None or kept[0] != asked:
        kept = st.session_state[_PAGES] = (asked, [])
    pages: list[int] = kept[1]
    return pages


def _turn_back(pages: list[int]) -> None:
    pages.pop()


def _row(one: Entry) -> list[str]:
    what = f"<strong>refused</strong> {escape(one.refused)}" if one.refused else escape(one.detail)
    return [
        f'<span class="pl-nowrap">{when(one.at)}</span>',
        escape(one.who),
        escape(one.role),
        escape(one.command),
        _targets(one),
        wide(what),
    ]


def _targets(one: Entry) -> str:
    """Return what a command was given to, as HTML; runs and sweeps as links."""
    link = {"run": run_link, "sweep": sweep_link}.get(one.kind)
    shown = [
        link(str(each), each) if link and isinstance(each, int) else escape(str(each)) for each in one.targets[:NAMED]
    ]
    if not shown:
        return "–"
    more = f" and {len(one.targets) - NAMED:,} more" if len(one.targets) > NAMED else ""
    return f"{escape(one.kind)} {', '.join(shown)}{more}"


def _table(asked: AuditQuery) -> Table:
    with Reader.open(Home.find()) as reader:
        found = asked.entries(reader, limit=MOST)
    return Table(
        COLUMNS,
        [
            [
                each.id,
                each.at,
                each.who,
                each.role,
                each.command,
                each.kind,
                list(map(str, each.targets)),
                each.detail,
                each.refused,
            ]
            for each in found
        ],
    )
