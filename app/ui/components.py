"""The components that run in the browser: the pulse that reruns a fragment on changes, live curves, figures that keep
their zoom, logs, the name.

None uses a Streamlit timer: each polls a small route of ours, only while its tab is visible and its run is active.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import plotly.graph_objects as go
import streamlit as st

from app.charts import plotly_figures
from app.core.assets import CURVES_SCRIPTS, FIGURE_SCRIPTS, PICTURE_SCRIPTS, PLOTLY_URL, at, static_text
from app.report import page_capture

TITLE_PX = 48
"""Height of a live chart's title and table button."""
PULSE_MS, EARLY_MS, EARLY_S, HOME_MS = 1_000, 350, 8, 2_500


_pulse = st.components.v2.component(
    "parallab_pulse", js=static_text("page/cleanup.js", "page/pulse.js"), isolate_styles=False
)
_chart = st.components.v2.component(
    "parallab_chart",
    html='<div class="pl-panels"></div><div class="pl-note" role="status"></div>'
    '<div class="pl-find" hidden><input type="search" placeholder="Search charts" aria-label="Search charts"></div>',
    css=static_text("chart/chart.css", "plot/enlarged.css"),
    js=static_text(*CURVES_SCRIPTS),
    isolate_styles=False,
)
_figure = st.components.v2.component(
    "parallab_figure",
    html='<div class="pl-card"><div class="pl-figure"></div></div>',
    css=static_text("chart/chart.css", "plot/enlarged.css"),
    js=static_text(*FIGURE_SCRIPTS),
    isolate_styles=False,
)
_pictures = st.components.v2.component(
    "parallab_pictures",
    html=static_text("chart/pictures.html"),
    css=static_text("chart/pictures.css"),
    js=static_text(*PICTURE_SCRIPTS),
    isolate_styles=False,
)
_log = st.components.v2.component(
    "parallab_log",
    html=static_text("page/log.html"),
    css=static_text("page/log.css"),
    js=static_text("page/cleanup.js", "page/log.js"),
    isolate_styles=False,
)
_name = st.components.v2.component(
    "parallab_name",
    html=static_text("page/name.html"),
    css=static_text("page/name.css"),
    js=static_text("page/name.js"),
    isolate_styles=False,
)
_flow = st.components.v2.component(
    "parallab_flow",
    html='<div class="pl-flow"></div>',
    css=static_text("page/flow.css"),
    js=static_text("page/flow.js"),
    isolate_styles=False,
)
_timeline = st.components.v2.component(
    "parallab_timeline",
    html='<div class="pl-timeline"></div>',
    css=static_text("timeline/timeline.css"),
    js=static_text(
        "page/cleanup.js", "plot/plotly.js", "timeline/scale.js", "timeline/draw.js", "timeline/timeline.js"
    ),
    isolate_styles=False,
)
_lines = st.components.v2.component(
    "parallab_lines",
    html='<div class="pl-more"><div class="pl-lines" role="region" aria-label="Lines of the charts" tabindex="0">'
    "</div></div>",
    css=static_text("chart/lines.css"),
    js=static_text("plot/plotly.js", "chart/swatch.js", "page/cleanup.js", "chart/lines.js"),
    isolate_styles=False,
)
_draw = st.components.v2.component(
    "parallab_draw",
    html='<div class="pl-draw"></div>',
    css=static_text("chart/draw.css"),
    js=static_text("plot/plotly.js", "page/cleanup.js", "chart/draw.js"),
    isolate_styles=False,
)
_preload = st.components.v2.component(
    "parallab_preload", js=static_text("plot/plotly.js", "page/preload.js"), isolate_styles=False
)
_paste = st.components.v2.component(
    "parallab_paste", js=static_text("page/cleanup.js", "page/paste.js"), isolate_styles=False
)


def pulse(
    token: int,
    *,
    run_id: int | None = None,
    sweep_id: int | None = None,
    duel_id: int | None = None,
    latest: str | None = None,
    of_machine: bool = False,
    of_exercises: bool = False,
    active: bool = True,
    every_ms: int = PULSE_MS,
    early_ms: int = EARLY_MS,
) -> None:
    """Rerun the enclosing fragment when the change token differs from `token` (of the run, the sweep, the duel, the
    machine, the exercises, or the whole store; the newest run of the filter `latest`).

    An inactive pulse does not poll: give `active=False` once nothing can change.
    """
    of = (
        f"?run={run_id}"
        if run_id is not None
        else f"?sweep={sweep_id}"
        if sweep_id is not None
        else "?machine=1"
        if of_machine
        else "?exercises=1"
        if of_exercises
        else ""
    )
    of = f"?duel={duel_id}" if duel_id is not None else of
    of = f"?latest={quote(latest)}" if latest is not None else of
    _beat(f"pulse-{of}", at(f"/api/token{of}"), token, active=active, every_ms=every_ms, early_ms=early_ms)


def rest_ms(took_s: float) -> int:
    """Return the polling interval in ms of a view that takes `took_s` to draw: fifty times that, from 5 to 30 s.

    On a slow machine, many views of one live run are thus drawn less often.
    """
    return int(min(30_000, max(5_000, 50_000 * took_s)))


def standing(run_id: int, section: str, frame: int, version: int, *, active: bool) -> None:
    """Update the slots and figures of a run's page from `version` on; rerun the fragment when its frame differs from
    `frame`.
    """
    _beat(
        f"standing-{run_id}", at(f"/api/standing?run={run_id}&section={section}"), frame, active=active, version=version
    )


def home_standing(since: str, without: Collection[str], frame: int, version: int) -> None:
    """Update the slots of the Home page from `version` on, with runs that ended after `since` as news, `without` those
    of attempts at some exercises; rerun the fragment when its frame changes.
    """
    _beat(
        "standing-home",
        at(f"/api/home?{urlencode({'since': since, 'without': sorted(without)}, doseq=True)}"),
        frame,
        active=True,
        every_ms=HOME_MS,
        early_ms=HOME_MS,
        version=version,
    )


def _beat(
    key: str,
    url: str,
    token: int,
    *,
    active: bool,
    every_ms: int = PULSE_MS,
    early_ms: int = EARLY_MS,
    version: int | None = None,
) -> None:
    data = {
        "url": url,
        "token": token,
        "version": version,
        "active": active,
        "every_ms": every_ms,
        "early_ms": early_ms,
        "early_s": EARLY_S,
    }
    _pulse(key=key, data=data, height=1, on_beat_change=_nothing)


def curves(
    run_id: int,
    *,
    active: bool,
    x: str = "step",
    clock: Mapping[str, str] | None = None,
    smoothing: float = 0.0,
    metrics: Sequence[str] = (),
    height: int = 280,
    titles: Mapping[str, str] | None = None,
    apart: bool = False,
    revision: int = 0,
) -> None:
    """Draw a run's curves and keep them up to date; `metrics` empty means every live one. `clock` names the metric that
    counts the model's updates, and how; `titles` are those of x-axes that differ from the usual ones; `apart`: steps of
    its metrics may count different work, so that their charts need not have one range. With another `revision`, the
    page asks again which metrics are shown.
    """
    data = {
        "run": run_id,
        "active": active,
        "x": x,
        "clock": clock,
        "titles": titles or {},
        "apart": apart,
        "revision": revision,
        "smoothing": smoothing,
        "metrics": list(metrics),
        "height": height,
        "plotly": at(PLOTLY_URL),
    }
    _chart(key=f"curves-{run_id}", data=data, height=height + TITLE_PX)


def figure(
    key: str,
    picture: go.Figure | plotly_figures.PlainFigure,
    *,
    alt: str,
    height: int,
    colours: Sequence[int | Mapping[str, float]] = (),
    table: bool = False,
    zoom: str = "",
    says: str = "",
    keeps_zoom: bool = False,
    on_press: Callable[[str], None] | None = None,
) -> None:
    """Show a plotly figure in the page's theme; `colours` gives each trace its place in the palette, or a shade as
    {"share": 0 to 1}. `on_press` is called with the key, before the page reruns, when a trace was pressed that names in
    its `meta` what a `press` on it asks for.

    `table` adds a collapsed table of the numbers below. A zoom is kept until the layout's `uirevision` changes; `zoom`
    is the address of a route that returns the visible range of the traces at a finer resolution. `says` stands below
    the title where the chart leaves the page: what its line and band are, in saved pictures and presented. With
    `keeps_zoom` a zoom along x calls `on_press` too: its press is `zoom` with the range, or nothing after a reset.
    """
    content = plotly_figures.shown(picture, alt=alt, height=height, colours=colours, table=table, says=says)
    page_capture.chart(alt, content["figure"], height=height, colours=colours)
    shown(key, content | ({"zoom": zoom} if zoom else {}) | ({"keeps": True} if keeps_zoom else {}), on_press)


def shown(key: str, content: Mapping[str, Any], on_press: Callable[[str], None] | None = None) -> None:
    """Show a figure from `figures.shown`; pulse.js may replace the figure with this key."""
    data = {**content, "key": key, "plotly": at(PLOTLY_URL), "pressed": on_press is not None}
    _figure(key=key, data=data, height=content["height"], on_press_change=partial(on_press or _nothing, key))


def lines(key: str, data: Mapping[str, Any], on_press: Callable[[], None]) -> None:
    """Show one legend for several figures as a table: `rows` with label, colour (place in the palette), dash, symbol,
    an optional href and cells, and `columns`. `on_press` is called before the page reruns, when a row or a heading was
    pressed.
    """
    page_capture.legend([{name: row[name] for name in ("label", "colour", "dash", "symbol")} for row in data["rows"]])
    _lines(key=key, data=dict(data), on_press_change=on_press)


def draw(key: str, data: Mapping[str, Any], on_values: Callable[[], None]) -> None:
    """Show an empty chart to draw values on: `places` along x, `values` (None where not set), `low` and `high` of y,
    titles `x` and `y`, the `unit`, `alt`, and whether it is `disabled`. `on_values` is called before the page reruns;
    the session then holds them under the key, as `values`.
    """
    _draw(key=key, data=dict(data), on_values_change=on_values)


def pictures(key: str) -> None:
    """Show a form that saves a chart of the page as SVG or PNG in a chosen size, or its data."""
    _pictures(key=key)


def log_view(run_id: int | None, sources: Sequence[str], *, active: bool) -> None:
    """Show logs by source, of a run or (None) of the lab, following while `active`."""
    _log(key=f"log-{run_id or 'lab'}", data={"run": run_id, "sources": list(sources), "active": active})


def name_form(name: str, button: str) -> object:
    """Show the form for a name; return the proof that our route set its cookie, in the script run after that."""
    return _name(key="name", data={"name": name, "button": button}, on_proof_change=_nothing).get("proof")


def message_flow(key: str, scene: Mapping[str, Any]) -> None:
    """Show an animated message flow; `scene` comes from `FlowScene.to_json`."""
    _flow(key=key, data=scene)


def timeline(run_id: int, ranks: int, *, active: bool) -> None:
    """Show the timeline of a run, which loads its picture from our route."""
    data = {"url": at(f"/api/timeline?run={run_id}"), "run": run_id, "ranks": ranks, "active": active}
    _timeline(key=f"timeline-{run_id}", data=data)


def preload_plotly() -> None:
    """Have the browser load plotly.js while it is idle."""
    _preload(key="preload", data={"plotly": at(PLOTLY_URL)}, height=1)


def commit_early(key: str) -> None:
    """Have the text area of that key send its text as soon as one was pasted, or a moment after typing."""
    _paste(key=f"paste-{key}", data={"field": f".st-key-{key.replace('.', '-')} textarea"}, height=1)


def _nothing(key: str = "") -> None:
    """Name the trigger; the value is read from the component's result."""
