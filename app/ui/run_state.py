"""The state of a run or of the queue, as a sign and in words."""

from collections.abc import Mapping

from app.core.formatting import ago, duration
from engine.analysis.comparability import named
from engine.experiment import ENDS_EARLY
from engine.launch_options import LaunchOptions
from engine.queue.forecast import time_left_s
from engine.registry import experiment_title
from engine.store import Reader
from engine.store.records import Run, RunRow, Status, reached_budget, silent_since

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


BUDGET_REACHED = "budget reached"
NO_RUN = "not reproduced here yet: no run with these settings"
"""State of a published figure that this lab never launched; it may have runs of the experiment with others."""


def outcome(run: Run | RunRow) -> tuple[Status, str]:
    """Return a run's status for its colour, and in words; a run of a duel that the budget ended has done its work."""
    return ("finished", BUDGET_REACHED) if reached_budget(run) else (run.status, run.status)


def status_counts(statuses: Mapping[Status, int], reached: int) -> list[tuple[Status, str]]:
    """Return the numbers of runs by status, each with the status of its colour; `reached` of the cancelled ones had
    spent the budget of their duel.
    """
    counts = {status: count - (reached if status == "cancelled" else 0) for status, count in statuses.items()}
    found: list[tuple[Status, str]] = [(status, f"{count:,} {status}") for status, count in counts.items() if count]
    return [*found, ("finished", f"{reached:,} {BUDGET_REACHED}")] if reached else found


def cause_of(run: Run | RunRow) -> str:
    """Return the cause of a run's end as pages show it."""
    return run.cause.replace("Cancelled by", "Ended by", 1) if reached_budget(run) else run.cause


def time_left(run: RunRow, reader: Reader | None = None) -> str:
    """Return the remaining time of a run, or that its time limit ends it first, in words; with a reader from similar
    runs while its own pace is unknown.
    """
    if last := silent_since(run):
        return f"last report {ago(last)}"
    if run.reported:
        return "reported by its program"
    if run.status in ("starting", "stopping"):
        return f"{run.status} ranks"
    left_s = time_left_s(reader, run) if reader else run.time_left_s
    limit_s = run.limit_left_s
    if left_s is None:
        return "time left unknown" + ("" if limit_s is None else f", at most {duration(limit_s)} (time limit)")
    if limit_s is None or left_s < limit_s:
        return f"{'at most' if run.config.get(ENDS_EARLY) else 'about'} {duration(left_s)} left"
    part = "" if run.share_at_limit is None else f", at about {run.share_at_limit:.0%}"
    return f"ends at its time limit in {duration(limit_s)}{part}"


def place_in_words(at: Run | RunRow | LaunchOptions) -> str:
    """Return the cluster that a run is for, with the number of nodes if several; empty for this machine."""
    return f"{at.target}, {at.nodes} nodes" if at.nodes > 1 else at.target


def tab_title(run: RunRow) -> str:
    """Return the title of a run's browser tab, such as `62 % · Run 46 · Hogwild!`."""
    has_share = run.status == "running" and not run.reported
    how_far = f"{run.progress:.0%}".replace("%", " %") if has_share else run.status
    return f"{how_far} · Run {run.id} · {experiment_title(run.experiment)}"


DISTURBED = (
    "Other programs or the host took this share of the CPU time of the run's cores, so its times can't be trusted. "
    "Scaling, figures and duels leave it out."
)


def disturbed_help(run: Run) -> str:
    """Return what a disturbed run means, with the programs that ran beside it."""
    beside = named(run)
    return f"{DISTURBED}{f' Beside it ran: {beside}.' if beside else ''}"


def waiting(total: int, held: int) -> str:
    """Return the number of queued runs and of those on hold, in words."""
    queued = f"{total:,} queued"
    if not held:
        return queued
    return f"{queued}, {'all' if held == total else f'{held:,}'} on hold"
