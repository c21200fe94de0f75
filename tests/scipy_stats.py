"""`scipy.stats`, imported at the first use: it takes a second, in each process that collects tests."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # pytest looks for marks of its own
        raise AttributeError(name)
    from scipy import stats

    return getattr(stats, name)
