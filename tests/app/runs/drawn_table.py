"""The table of runs as the browser gets it."""

import json
from typing import Any

from streamlit.testing.v1 import AppTest

from app.runs import grid


def table_of(test: AppTest) -> dict[str, Any]:
    """Return the data of the table on the Runs page; a table without rows where the page has none."""
    for element in test.get("bidi_component"):
        data = json.loads(element.proto.json) if element.proto.json else {}
        if "columns" in data and "rows" in data:
            return dict(data)
    return {"columns": [], "rows": []}


def rows_of(test: AppTest) -> list[dict[str, Any]]:
    """Return each row with its cells by column heading."""
    data = table_of(test)
    labels = [column["label"] for column in data["columns"]]
    return [row | dict(zip(labels, row["cells"], strict=True)) | {"Name": row["name"]} for row in data["rows"]]


def ids_of(test: AppTest) -> list[str]:
    """Return the keys of the rows, such as `run-5`."""
    return [row["key"] for row in rows_of(test)]


def tick(test: AppTest, *keys: str) -> AppTest:
    """Tick rows, as presses on their boxes do."""
    test.session_state[grid.KEY] = {"ticked": list(keys)}
    return test.run()
