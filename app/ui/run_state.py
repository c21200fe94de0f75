"""The state of a run, or of the queue, as a sign and in words."""

from app.core.formatting import duration
from engine.store.records import RunRow, Status

STATUS_SIGNS: dict[Status, str] = {
    "queued": "○",
    "starting": "◔",
    "running": "◑",
    "stopping": "◌",
    "finished": "●",
    "failed": "✕",
    "cancelled": "⊘",
    "lost": "?",
}


def time_left(run: RunRow) -> str:
    """Return the time a run still takes, in words."""
    return {"starting": "starting its ranks", "stopping": "ending its ranks"}.get(run.status) or (
        f"about {duration(run.time_left_s)} left" if run.time_left_s is not None else "time left not known yet"
    )


def waiting(total: int, held: int) -> str:
    """Return how many runs wait, and how many of them are on hold, in words."""
    wait = f"{total:,} {'run waits' if total == 1 else 'runs wait'}"
    if not held:
        return wait
    return f"{wait}, on hold" if held == total else f"{wait}, {held:,} of them on hold"
