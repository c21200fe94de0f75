"""Data frames as plain tables."""

import pandas as pd

from engine.transfer.tables import Table


def of_frame(frame: pd.DataFrame) -> Table:
    """Return a data frame as a table; missing values become empty cells."""
    cells = [[_cell(value) for value in frame[column]] for column in frame.columns]
    return Table.of(map(str, frame.columns), list(zip(*cells, strict=True)))


def _cell(value: object) -> object:
    if isinstance(value, list | tuple | dict):
        return value
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value.item() if hasattr(value, "item") else value
