"""Zoom data of the Compare page: the same lines, at higher resolution inside a range."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from app.charts import curve_charts, curve_data, curve_points, plotly_figures
from app.charts.curve_charts import GroupLine, Picture
from app.charts.curve_data import DrawnCurve
from app.charts.curve_points import CLOCKED, PLAIN, usual_axis
from app.compare.groups import lines_of
from app.compare.lines import Compared, alone, compared
from app.compare.selection import chosen
from app.core.assets import at
from app.links.compare import CompareView, query_of, read_view
from engine.analysis.statistics.groups import BandLine
from engine.analysis.statistics.intervals import Aligned, Floats
from engine.errors import NoSuchRun
from engine.home import Home
from engine.store import Reader

PATH = "/api/compare"
Stretch = tuple[float, float]


def address(view: CompareView, metric: str) -> str:
    """Return the address for a chart's zoom data; the client adds the range as `from` and `to`. Empty if the x-axis is
    another metric, which may not be monotone.
    """
    return (
        f"{at(PATH)}?{urlencode({**query_of(view), 'metric': metric})}" if view.x in PLAIN or view.x in CLOCKED else ""
    )


def answer(home: Home, query: Mapping[str, str], metric: str, within: Stretch) -> dict[str, Any]:
    """Return a chart's traces for figure.js, at higher resolution within a range; raises NoSuchRun if none of the
    view's runs exists.
    """
    view, _ = read_view({name: value for name, value in query.items() if name not in ("metric", "from", "to")})
    with Reader.open(home) as reader, reader.db.snapshot():
        found = alone(compared(chosen(reader, view).runs, view), view)
        if not found.runs:
            raise NoSuchRun("None of these runs exists: never launched or deleted.")
        view = replace(view, x=view.x or usual_axis(reader, found.runs))
        picture = (
            _groups(reader, found, view, metric, within) if found.groups else _runs(reader, found, view, metric, within)
        )
    return plotly_figures.shown(picture.figure, alt="", height=curve_charts.HEIGHT_PX, colours=picture.colours)


def _runs(reader: Reader, found: Compared, view: CompareView, metric: str, within: Stretch) -> Picture:
    whole = [curve for curve in curve_data.curves(reader, found.runs, metric, view.x) if curve.x.size]
    fine = {
        (curve.run_id, curve.rank): curve for curve in curve_data.curves(reader, found.runs, metric, view.x, within)
    }
    drawn = [spliced(curve, fine.get((curve.run_id, curve.rank))) for curve in whole]
    return curve_charts.of_runs(drawn, found.names, found.looks, curve_points.weight(metric, view.smoothing(metric)))


def spliced(whole: DrawnCurve, fine: DrawnCurve | None) -> DrawnCurve:
    """Return a curve with the points of another of the same recording added; its axis may go back."""
    if fine is None:
        return whole
    ids, places = np.unique(np.concatenate([whole.ids, fine.ids]), return_index=True)
    x, y = (np.concatenate(both)[places] for both in ((whole.x, fine.x), (whole.y, fine.y)))
    return replace(whole, ids=ids, x=x, y=y)


def _groups(reader: Reader, found: Compared, view: CompareView, metric: str, within: Stretch) -> Picture:
    def lines(part: Stretch | None) -> list[GroupLine | None]:
        statistic, spread = view.stat, view.band
        return lines_of(reader, found.groups, metric, view.x, statistic, spread, log="x" in view.log, within=part)  # type: ignore[arg-type]

    pairs = [
        (joined(whole, fine), looks)
        for whole, fine, looks in zip(lines(None), lines(within), found.group_looks, strict=True)
        if whole
    ]
    return curve_charts.of_groups([line for line, _ in pairs], [looks for _, looks in pairs], log="y" in view.log)


def joined(whole: GroupLine, fine: GroupLine | None) -> GroupLine:
    """Return a group's line with its positions in the range of another replaced by the other's."""
    if fine is None or not fine.values.x.size:
        return whole
    before, after = whole.values.x < fine.values.x[0], whole.values.x > fine.values.x[-1]

    def put(of_whole: Floats, of_fine: Floats) -> Floats:
        return np.concatenate([of_whole[..., before], of_fine, of_whole[..., after]], axis=-1)

    values = Aligned(
        put(whole.values.x, fine.values.x),
        put(whole.values.values, fine.values.values),
        whole.values.exact,
        whole.values.cell,
        whole.values.members,
    )
    one, other = whole.line, fine.line
    count = np.concatenate([one.count[before], other.count, one.count[after]])
    method = np.concatenate([one.method[before], other.method, one.method[after]])
    line = BandLine(put(one.centre, other.centre), put(one.low, other.low), put(one.high, other.high), count, method)
    return replace(whole, values=values, line=line)
