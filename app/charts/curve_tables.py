"""The data behind a chart of curves, as data frames."""

from collections.abc import Mapping, Sequence

import pandas as pd

from app.charts.curve_charts import GroupLine
from app.charts.curve_data import DrawnCurve


def curves_frame(curves: Sequence[DrawnCurve], names: Mapping[int, str], axis: str) -> pd.DataFrame:
    """Return the drawn points of single runs, one per row."""
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
    """Return the lines of groups, one position per row."""
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
        )[group.line.count > 0]
        for group in groups
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
