"""Small pieces of HTML and Markdown made safe: whatever a person or a run wrote is shown as text, never
read as markup.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

from app.core.base_path import at
from app.core.formatting import absolute, ago

Slot = Literal[
    "cause",
    "bar",
    "facts",
    "tiles",
    "ranks",
    "events",
    "home-now",
    "home-news",
    "home-machine",
    "home-best",
    "home-published",
]
"""Places on a run's page, and on the Home page, whose HTML pulse.js replaces while something is on."""
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def as_text(text: str) -> str:
    """Return `text` so that Markdown shows it as it stands: no image, link, colour or heading comes of it."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def when(text: str | None) -> str:
    """Return a time as HTML: how long ago, with the moment itself on hover."""
    return f'<time datetime="{escape(text)}" title="{absolute(text)}">{ago(text)}</time>' if text else "–"


def run_link(words: str, run_id: int) -> str:
    """Return a link to a run as HTML: one of Streamlit's, followed on the run page itself, leaves the old address in
    the browser.
    """
    return f'<a href="{at("/run")}?run={run_id}">{escape(words)}</a>'


def sweep_link(words: str, sweep_id: int) -> str:
    """Return a link to a sweep as HTML."""
    return f'<a href="{at("/sweep")}?sweep={sweep_id}">{escape(words)}</a>'


def duel_link(words: str, duel_id: int) -> str:
    """Return a link to a duel as HTML."""
    return f'<a href="{at("/duel")}?duel={duel_id}">{escape(words)}</a>'


def slot(name: Slot, content: str) -> str:
    """Return HTML as a slot: what it holds can be replaced without a script run."""
    return f'<div data-slot="{name}">{content}</div>'


def figure_link(figure: str) -> str:
    """Return a link to a published figure, given with the size that was launched (`hogwild/full`), as HTML."""
    name, _, size = figure.partition("/")
    return f'<a href="{at("/figures")}?figure={escape(name)}">{escape(name)}</a>, {escape(size)}'


def as_cell(words: str, status: str) -> str:
    """Return words in a small frame of the colour of a status, as HTML."""
    return f'<span class="pl-cell pl-{status}">{escape(words)}</span>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a row of small label-over-value pairs; the values are HTML."""
    cells = "".join(f"<div><small>{escape(label)}</small><span>{value}</span></div>" for label, value in pairs)
    return f'<div class="pl-facts">{cells}</div>'


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """Return a table that scrolls sideways on a narrow screen; the cells are HTML."""
    head = "".join(f'<th scope="col">{escape(header)}</th>' if header else "<td></td>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        '<div class="pl-scroll"><table class="pl-table" '
        f'aria-label="{escape(caption)}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def wide(cell: str) -> str:
    """Return a table's cell that keeps some width on a narrow screen, where the table scrolls."""
    return f'<div style="min-width: 12rem">{cell}</div>'


def bar(share: float, label: str, *, is_over: bool = False) -> str:
    """Return a progress bar of a share from 0 to 1; one that is over moves no more and is grey."""
    percent = max(0.0, min(1.0, share)) * 100
    kind = "pl-bar pl-over" if is_over else "pl-bar"
    says = (
        f'role="progressbar" aria-valuenow="{percent:.0f}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-label="{escape(label)}"'
    )
    return f'<div class="{kind}" {says}><div style="width:{percent:.1f}%"></div></div>'


def number(value: float | None, digits: int = 4) -> str:
    """Return a number to a few figures, with thousands apart; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
