"""The audit log on the People page: newest first, filtered by person and command, paged, and downloadable."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from markupsafe import Markup

from app.core.formatting import absolute
from app.export.view_report import download
from app.ui.html import as_text, joined, nowrap, run_link, strong, sweep_link, table, when, wide
from app.ui.store_access import reading
from engine.access.rules import COMMANDS
from engine.errors import ConfigError
from engine.filter.tree import TIMES, read_since
from engine.home import Home
from engine.store import Entry, Person, Reader
from engine.transfer.tables import Table

PAGE, MOST, NAMED = 50, 100_000, 8
"""Entries per page, maximum entries per file, and targets listed individually."""
_PAGES = "audit.pages"
HEADERS = ("Time", "Person", "Role", "Command", "Target", "Details")
COLUMNS = ("id", "at", "who", "role", "command", "kind", "targets", "detail", "refused")


@dataclass(frozen=True)
class AuditQuery:
    """Filters for audit entries."""

    who: str | None
    command: str | None
    refused: bool
    since: str = ""

    def entries(self, reader: Reader, *, before: int | None = None, limit: int = PAGE) -> list[Entry]:
        return reader.audit.entries(
            who=self.who,
            command=self.command,
            since=self.since,
            refused=self.refused,
            before=before,
            limit=limit,
        )


def audit_log(people: Sequence[Person]) -> None:
    """Show the log with its filters."""
    asked = _asked(people)
    if asked is None:
        return
    pages = _pages(asked)
    with reading() as reader:
        found = asked.entries(reader, before=pages[-1] if pages else None, limit=PAGE + 1)
    if not found:
        st.write("No matching entries.")
        return
    st.html(table(HEADERS, [_row(each) for each in found[:PAGE]], caption="Audit log, newest first"))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Newer", key="audit.newer", on_click=_turn_back, args=(pages,), disabled=not pages)
        st.button(
            "Older",
            key="audit.older",
            on_click=pages.append,
            args=(found[PAGE - 1].id if len(found) > PAGE else 0,),
            disabled=len(found) <= PAGE,
        )
        download("audit", key="audit", tables={f"All matching entries, at most {MOST:,}": lambda: _table(asked)})
        st.caption("The log is append-only: entries can't be changed or deleted.")


def _asked(people: Sequence[Person]) -> AuditQuery | None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        who = st.selectbox(
            "Person", [each.name for each in people], index=None, placeholder="anyone", key="audit.who", width=240
        )
        command = st.selectbox(
            "Command", ["sign in", "sign out", *COMMANDS], index=None, placeholder="any", key="audit.command", width=240
        )
        text = st.text_input("Since", placeholder="2h ago", help=f"A time, {TIMES}.", key="audit.since", width=200)
        refused = st.toggle("Refused only", key="audit.refused")
    try:
        return AuditQuery(who, command, refused, read_since(text))
    except ConfigError as error:
        st.error(as_text(str(error)))
        return None


def _pages(asked: AuditQuery) -> list[int]:
    """Return the stack of entry ids before which the visited pages start; other filters reset it."""
    kept = st.session_state.get(_PAGES)
    if kept is None or kept[0] != asked:
        kept = st.session_state[_PAGES] = (asked, [])
    pages: list[int] = kept[1]
    return pages


def _turn_back(pages: list[int]) -> None:
    pages.pop()


def _row(one: Entry) -> list[str]:
    what = strong("refused") + f" {one.refused}" if one.refused else one.detail
    return [
        nowrap(Markup("{}, {}").format(absolute(one.at), when(one.at))),
        one.who,
        one.role,
        one.command,
        _targets(one),
        wide(what),
    ]


def _targets(one: Entry) -> str:
    """Return a command's targets as HTML, with runs and sweeps as links."""
    as_link = {"run": run_link, "sweep": sweep_link}.get(one.kind)
    shown = [
        as_link(str(each), each) if as_link and isinstance(each, int) else str(each) for each in one.targets[:NAMED]
    ]
    if not shown:
        return "–"
    more = f" and {len(one.targets) - NAMED:,} more" if len(one.targets) > NAMED else ""
    return f"{one.kind} " + joined(shown) + more


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
