"""The one HTML file of a report: the console's theme, plotly.js, each part, and a policy that forbids the browser to
ask any network.
"""

import json
import math
import tomllib
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from plotly.io import to_json

from app.core.formatting import absolute
from app.core.plotly_asset import PLOTLY
from app.core.static_files import static_text
from app.report.content import Chart, CommandLines, FactList, Grid, Heading, Legend, Paragraph, Part, ReportLink
from engine import __version__
from engine.home import ROOT
from engine.store.timestamps import now
from engine.transfer.tables import Table, plain

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri "
    "'none'; form-action 'none'"
)
SCRIPTS = ("chart/plotly.js", "chart/plot.js", "chart/paint.js", "chart/save.js", "chart/swatch.js", "page/report.js")
MOST_ROWS = 500
"""Rows of a table that are laid out; the file that is saved out of the report holds all."""
_THEME = {
    "textColor": "--st-text-color",
    "borderColor": "--st-border-color",
    "backgroundColor": "--st-background-color",
    "secondaryBackgroundColor": "--st-secondary-background-color",
    "linkColor": "--st-link-color",
    "chartCategoricalColors": "--st-chart-categorical-colors",
}


def report(title: str, parts: Sequence[Part], *, by: str = "") -> bytes:
    """Return the report as UTF-8; every text of it is shown as it stands, whoever wrote it."""
    made = f"Made {absolute(now())}{f' by {by}' if by else ''} with Parallab {__version__}."
    body = "\n".join(_part(part, number) for number, part in enumerate(parts))
    return _PAGE.format(
        policy=POLICY,
        title=escape(title),
        made=escape(made),
        style=_style(),
        body=body,
        plotly=_script(PLOTLY.read_text()),
        ours=_script(static_text(*SCRIPTS)),
    ).encode("utf-8", "backslashreplace")


def _part(part: Part, number: int) -> str:
    match part:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Chart():
            return _chart(part, number)
        case Grid(title, table):
            return _grid(title, table, number)
        case FactList(title, pairs):
            rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
            return f"<section><h3>{escape(title)}</h3><dl>{rows}</dl></section>"
        case Legend(entries):
            return (
                '<ul class="legend"><script '
                f'type="application/json">{_data([dict(entry) for entry in entries])}</script></ul>'
            )
        case ReportLink(text, address):
            return f"<p>{escape(text)} {_link(address)}</p>"
        case CommandLines(title, lines):
            return f"<section><h3>{escape(title)}</h3><pre tabindex='0'>{escape(chr(10).join(lines))}</pre></section>"


def _chart(part: Chart, number: int) -> str:
    drawn: dict[str, Any] = json.loads(str(to_json(part.figure, validate=False, engine="json")))
    drawn.get("layout", {}).pop("template", None)
    told = {"figure": drawn, "colours": list(part.colours), "height": part.height, "name": part.title}
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return (
        f'<section><h3>{escape(part.title)}</h3><figure data-chart="{number}">{caption}'
        f'<div class="plot" role="figure" aria-label="{escape(part.title)}" style="height:{part.height}px"></div>'
        f'<script type="application/json">{_data(told)}</script><details><summary>Numbers</summary><div '
        'class="numbers"></div></details></figure></section>'
    )


def _grid(title: str, table: Table, number: int) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in table.rows[:MOST_ROWS])
    said = (
        f'<p class="made">The first {MOST_ROWS} of {len(table.rows):,} rows; the saved file holds all.</p>'
        if len(table.rows) > MOST_ROWS
        else ""
    )
    told = {"name": title, "rows": [list(table.columns), *([plain(value) for value in row] for row in table.rows)]}
    return (
        f'<section data-grid="{number}"><h3>{escape(title)}</h3>{said}<div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<script type="application/json">{_data(told)}</script><button type="button">Save as CSV</button></section>'
    )


def _cell(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f'<td class="number" title="{value!r}">{value:.6g}</td>'
    if isinstance(value, bool):
        return f"<td>{str(value).lower()}</td>"
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    shown = plain(value)
    return f"<td>{escape(', '.join(map(str, shown)) if isinstance(shown, list) else '' if shown is None else str(shown))}</td>"  # noqa: E501


def _link(address: str) -> str:
    shown = escape(address)
    return f'<a href="{shown}">{shown}</a>' if address.startswith(("http://", "https://")) else f"<code>{shown}</code>"


def _data(value: object) -> str:
    """Return a value as JSON that can't end the script that holds it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _script(text: str) -> str:
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def _style() -> str:
    """Return the console's two themes as variables, and how a report is laid out with them."""
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    light, dark = (_variables(theme[name]) for name in ("light", "dark"))
    themes = f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    chosen = f':root[data-theme="light"] {{ {light} }}\n:root[data-theme="dark"] {{ {dark} }}\n'
    return (
        themes
        + chosen
        + static_text("page/report.css")
        + f"@media print {{ :root, :root[data-theme] {{ {light} }} }}\n"
    )


def _variables(theme: dict[str, Any]) -> str:
    return " ".join(
        f"{name}: {', '.join(value) if isinstance(value := theme[key], list) else value};"
        for key, name in _THEME.items()
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{title}</h1><button type="button" id="theme">Light or dark</button></header>
<p class="made">{made}</p>
<main>
{body}
</main>
<script>{plotly}</script>
<script>{ours}</script>
</body>
</html>
"""
