"""What the Download buttons of a page give, without a browser: each file by its name, made when it is called."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager

Offered = dict[str, Callable[[], bytes]]


def catch(monkeypatch: pytest.MonkeyPatch) -> Offered:
    """Return what the pages that are opened from now on offer; a later script run replaces files of the same name."""
    found: Offered = {}
    add = MediaFileManager.add_deferred

    def caught(
        self: MediaFileManager,
        data_callable: Any,
        mimetype: str | None,
        coordinates: str,
        file_name: str | None = None,
        **more: Any,
    ) -> str:
        found[str(file_name)] = data_callable
        return add(self, data_callable, mimetype, coordinates, file_name, **more)

    monkeypatch.setattr(MediaFileManager, "add_deferred", caught)
    return found


def grids(page: bytes) -> dict[str, list[list[Any]]]:
    """Return the tables of a report by their titles, the names of their columns first."""
    return {each["name"]: each["rows"] for each in data_of(page.decode()) if isinstance(each, dict) and "rows" in each}


def data_of(page: str) -> list[Any]:
    """Return what a report holds as data, in the order of its parts."""
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
