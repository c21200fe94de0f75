"""sqlite-utils without pandas, which it would import if installed, at half a second per process start, for unused data
frames; and the one private field that we read.
"""

import sys

_pandas = sys.modules.get("pandas")
sys.modules["pandas"] = None  # type: ignore[assignment]  # an import of it now raises ImportError, which sqlite-utils takes for "not installed"
try:
    from sqlite_utils import Database, Migrations
finally:
    if _pandas is None:
        del sys.modules["pandas"]
    else:
        sys.modules["pandas"] = _pandas

__all__ = ["STEPS_FIELD", "Database", "Migrations", "step_names"]

STEPS_FIELD = "_migrations"
"""Private attribute with the steps of sqlite-utils' `Migrations`, in order; a test guards it."""


def step_names(steps: Migrations) -> list[str]:
    """Return the names of all steps, in the order of application."""
    return [str(step.name) for step in getattr(steps, STEPS_FIELD)]
