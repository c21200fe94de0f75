"""sqlite-utils without pandas, which it imports wherever that is installed: half a second of every process's start, for
frames that nobody here writes; and the one private field of it that we read.
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
"""Where sqlite-utils keeps the steps of a `Migrations`, in order. It is private: a test guards it."""


def step_names(steps: Migrations) -> list[str]:
    """Return the names of all steps, in the order that they are applied."""
    return [str(step.name) for step in getattr(steps, STEPS_FIELD)]
