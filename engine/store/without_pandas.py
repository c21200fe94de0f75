"""sqlite-utils without pandas, which it imports wherever that is installed: half a second of every process's start, for
frames that nobody here writes.
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

__all__ = ["Database", "Migrations"]
