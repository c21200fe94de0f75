"""Build a report's HTML file: the console's theme, plotly.js, the parts, and a policy that forbids network access."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from app.charts.plotly_figures import PlainFigure
from app.core.assets import PLOT_SCRIPTS, PLOTLY, macro, render, static_text
from app.core.formatting import LEAST_PERCENT, absolute
from engine import __version__
from engine.errors import counted
from engine.home import ROOT
from engine.store.timestamps import now
from engine.transfer.tables import Table, plain

if TYPE_CHECKING:  # the console answers before these are needed
    import pandas as pd
    import plotly.graph_objects as go

# ---- The parts of a report -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heading:
    """A section title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Plain text, never interpreted as markup."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A figure and a table of its values; `colours` has a palette index or shade per trace, as in `live.figure`."""

    title: str
    figure: "go.Figure | PlainFigure"
    caption: str = ""
    colours: Sequence[int | Mapping[str, float]] = ()
    height: int = 340


@dataclass(frozen=True)
class Grid:
    """A table that can be saved as CSV from the report."""

    title: str
    table: Table
    headings: tuple[str, ...] = ()
    """Those of the columns, if other than their names, which the saved file has."""


@dataclass(frozen=True)
class FactList:
    """Names and values, such as a run's environment."""

    title: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Legend:
    """A shared legend: entries with label, colour (palette index), dash and symbol."""

    entries: Sequence[Mapping[str, str | int]]


@dataclass(frozen=True)
class ReportLink:
    """A labelled link; addresses other than http(s) are shown as text."""

    text: str
    address: str


@dataclass(frozen=True)
class CommandLines:
    """Shell commands that reproduce the view."""

    title: str
    lines: Sequence[str]


Part = Heading | Paragraph | Chart | Grid | FactList | Legend | ReportLink | CommandLines


# ---- Data frames as plain tables -----------------------------------------------------------------------------------


def of_frame(frame: "pd.DataFrame") -> Table:
    """Return a data frame as a table; missing values become empty cells."""
    cells = [[_recorded_cell(value) for value in frame[column]] for column in frame.columns]
    return Table.of(map(str, frame.columns), list(zip(*cells, strict=True)))


def _recorded_cell(value: object) -> object:
    import pandas as pd

    if isinstance(value, list | tuple | dict):
        return value
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value.item() if hasattr(value, "item") else value


# ---- Build a report's HTML file ------------------------------------------------------------------------------------
# the console's theme, plotly.js, the parts, and a policy that forbids network access.

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri "
    "'none'; form-action 'none'"
)
SCRIPTS = (*PLOT_SCRIPTS, "chart/paint.js", "chart/swatch.js", "page/report.js")
MOST_ROWS = 500
"""Maximum rows shown per table; the file saved from the report has all."""
_THEME = {
    "textColor": "--st-text-color",
    "borderColor": "--st-border-color",
    "backgroundColor": "--st-background-color",
    "secondaryBackgroundColor": "--st-secondary-background-color",
    "linkColor": "--st-link-color",
    "chartCategoricalColors": "--st-chart-categorical-colors",
}

_HEADING, _PARAGRAPH, _CHART, _GRID, _FACT_LIST, _LEGEND, _LINK, _COMMAND_LINES = (
    macro("report/parts.html", name)
    for name in ("heading", "paragraph", "chart", "grid", "fact_list", "legend", "link", "command_lines")
)


class ReportCell(NamedTuple):
    """A table cell; `exact` is the unrounded value."""

    shown: str
    is_number: bool = False
    exact: str = ""


def report(title: str, parts: Sequence[Part], *, by: str = "") -> bytes:
    """Return the report as UTF-8; all texts are shown verbatim."""
    made = f"Created {absolute(now())}{f' by {by}' if by else ''} with Parallab {__version__}."
    page = render(
        "report/document.html",
        policy=Markup(POLICY),
        title=title,
        made=made,
        style=Markup(_style()),
        parts=[_part(part, number) for number, part in enumerate(parts)],
        plotly=_script(PLOTLY.read_text()),
        ours=_script(static_text(*SCRIPTS)),
    )
    return page.encode("utf-8", "backslashreplace")


def _part(part: Part, number: int) -> Markup:
    match part:
        case Heading(text):
            return _HEADING(text)
        case Paragraph(text):
            return _PARAGRAPH(text)
        case Chart():
            return _chart(part, number)
        case Grid(title, table, headings):
            return _grid(title, table, headings or table.columns, number)
        case FactList(title, pairs):
            return _FACT_LIST(title, pairs)
        case Legend(entries):
            return _LEGEND(_data([dict(entry) for entry in entries]))
        case ReportLink(text, address):
            return _LINK(text, address, is_of_web=address.startswith(("http://", "https://")))
        case CommandLines(title, lines):
            return _COMMAND_LINES(title, lines)


def _chart(part: Chart, number: int) -> Markup:
    from plotly.io import to_json

    drawn: dict[str, Any] = json.loads(str(to_json(part.figure, validate=False, engine="json")))
    drawn.get("layout", {}).pop("template", None)
    data = {"figure": drawn, "colours": list(part.colours), "height": part.height, "name": part.title}
    return _CHART(part.title, part.caption, part.height, number, _data(data))


def _grid(title: str, table: Table, headings: Sequence[str], number: int) -> Markup:
    left_out = (
        f"First {MOST_ROWS} of {counted(len(table.rows), 'row')}. The saved file contains all rows."
        if len(table.rows) > MOST_ROWS
        else ""
    )
    percent = [heading.endswith("(%)") for heading in headings]
    cells = [
        [_cell(value, is_percent=of) for value, of in zip(row, percent, strict=True)] for row in table.rows[:MOST_ROWS]
    ]
    data = {"name": title, "rows": [list(table.columns), *([plain(value) for value in row] for row in table.rows)]}
    return _GRID(title, headings, cells, left_out, number, _data(data))


def _cell(value: Any, *, is_percent: bool = False) -> ReportCell:
    """Return a value as pages show it: percentages with two decimals. A saved file has the whole number."""
    if isinstance(value, float) and math.isfinite(value):
        if is_percent and (not value or abs(value) >= LEAST_PERCENT):
            return ReportCell(f"{value:.2f}", True, repr(value))
        return ReportCell(f"{value:.6g}" if abs(value) < 1e6 else f"{value:,.10g}", True, repr(value))
    if isinstance(value, bool):
        return ReportCell(str(value).lower())
    if isinstance(value, int):
        return ReportCell(str(value), True)
    shown = plain(value)
    return ReportCell(", ".join(map(str, shown)) if isinstance(shown, list) else "" if shown is None else str(shown))


def _data(value: object) -> Markup:
    """Return a value as JSON that can't close the enclosing script element."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))


def _script(text: str) -> Markup:
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


@cache
def _style() -> str:
    """Return the console's themes as CSS variables, and the report's stylesheet."""
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    light, dark = (_variables(theme[name]) for name in ("light", "dark"))
    themes = f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    chosen = f':root[data-theme="light"] {{ {light} }}\n:root[data-theme="dark"] {{ {dark} }}\n'
    return (
        themes
        + chosen
        + static_text("chart/chart.css", "plot/enlarged.css", "page/report.css")
        + f"@media print {{ :root, :root[data-theme] {{ {light} }} }}\n"
    )


def _variables(theme: dict[str, Any]) -> str:
    return " ".join(
        f"{name}: {', '.join(value) if isinstance(value := theme[key], list) else value};"
        for key, name in _THEME.items()
    )
