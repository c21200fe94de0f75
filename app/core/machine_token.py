"""The change token of the Machine page, for the page and its route. Nothing here imports Streamlit."""

from app.core.formatting import moment, since
from engine.store import Reader, RunnerRow

SILENT_S = 10.0


def machine_token(reader: Reader) -> int:
    """Return a number that changes with each sample, each change of a run, and when the runner becomes silent."""
    newest = reader.machine.newest()
    return (
        reader.runs.token()
        + (round(moment(newest).timestamp() * 1000) if newest else 0)
        + is_silent(reader.runner.current())
    )


def is_silent(row: RunnerRow | None, after_s: float | None = None) -> bool:
    """Return whether the runner's last heartbeat is so old (default: `SILENT_S`) that it has died or hangs."""
    return row is None or (since(row.heartbeat_at) or 0.0) > (SILENT_S if after_s is None else after_s)
