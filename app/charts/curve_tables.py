"""The numbers behind a chart of curves, as frames."""

from collections.abc import Mapping, Sequence

import pandas as pd

from app.charts.curve_charts import GroupLine
from app.charts.curve_data import DrawnCurve


def curves_frame(curves: Sequence[DrawnCurve], names: Mapping[int, str], axis: str) -> pd.DataFrame:
    """Return the points drawn of single runs, one a row."""
    parts = [
        pd.DataFrame(
            {
                "run": curve.run_id,
                "name": names[curve.run_id],
                "rank": "" if curve.rank is None else str(curve.rank),
                axis: curve.x,
                "value": curve.y,
            }
        )
        for curve in curves
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def groups_frame(groups: Sequence[GroupLine], axis: str) -> pd.DataFrame:
    """Return the numbers of groups, one position a row, with the value of each member."""
    parts = [
        pd.DataFrame(
            {
                "group": group.name,
                axis: group.values.x,
                "value": group.line.centre,
                "low": group.line.low,
                "high": group.line.high,
                "band": group.line.method,
                "n": group.line.count,
            }
        )
        for group in groups
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
