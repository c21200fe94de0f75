"""The disk that each person's runs hold, looked at once in a while for everybody who asks."""

from collections.abc import Mapping

import streamlit as st

from engine.home import Home
from engine.store import Reader
from engine.upkeep.disk_use import disk_use

FRESH_S = 60.0


def disk(reader: Reader) -> Mapping[str, int]:
    """Return the bytes of each owner's folders, at most a minute old."""
    return _disk(str(Home.find().path), reader)


@st.cache_data(ttl=FRESH_S, max_entries=8, show_spinner=False)
def _disk(home: str, _reader: Reader) -> dict[str, int]:
    return disk_use(Home.find(), _reader.ownership.owner_of_each())
