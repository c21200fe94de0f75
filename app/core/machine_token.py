"""What the Machine page asks whether it has news: one number, for the page and for our route. Nothing here imports
Streamlit.
"""

from app.core.formatting import moment, since
from engine.store import Reader, RunnerRow

SILENT_S = 10.0


def machine_token(reader: Reader) -> int:
    """Return a number that grows with each sample and each change of a run, and changes when the runner
    falls silent.
    """
    newest = reader.machine.newest()
    return (
        reader.runs.token()
        + (round(moment(newest).timestamp() * 1000) if newest else 0)
        + is_silent(reader.runner.current())
    )


def is_silent(row: RunnerRow | None) -> bool:
    """Say whether the runner has not been heard of for so long that it is gone, or held up."""
    return row is None or (since(row.heartbeat_at) or 0.0) > SILENT_S
