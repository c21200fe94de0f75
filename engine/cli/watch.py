"""Follow a run in the foreground: its progress on one line of the terminal, Ctrl-C to cancel it.

Progress goes to standard error, and only to a terminal: standard output holds only the answer.
"""

import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from types import FrameType

import click

from engine.cli.answers import duration, number
from engine.errors import StoreBusy, WrongStatus
from engine.home import Home
from engine.queue.cluster_wait import cluster_wait
from engine.store import Reader, Store
from engine.store.records import Run
from engine.system.runner_process import ensure_running

POLL_S = 0.1
RUNNER_CHECK_S = 2.0
BAR_CELLS = 28


class RunWatch:
    """Follows one run until it ends; the first Ctrl-C cancels it, the second detaches from it."""

    def __init__(self, home: Home, run_id: int, owner: str) -> None:
        self.home, self.run_id, self.owner = home, run_id, owner
        self.interrupts = 0
        self.asked = False
        self.token = -1
        self.checked_at = 0.0
        self.shown = False

    def until_ended(self) -> bool:
        """Wait for the run's end; return False if the person detached first."""
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            while self.interrupts < 2:
                if self._look():
                    return True
                time.sleep(POLL_S)
            self._say(f"Detached from run {self.run_id}. Show its progress with: python -m engine show {self.run_id}")
            return False
        finally:
            self._wipe()
            signal.signal(signal.SIGINT, before)

    def _look(self) -> bool:
        """Poll once; return whether the run has ended. A busy store means another round."""
        try:
            if self.interrupts and not self.asked:
                self._ask_to_cancel()
            if time.monotonic() - self.checked_at > RUNNER_CHECK_S:
                ensure_running(self.home)
                self.checked_at = time.monotonic()
            with Reader.open(self.home) as reader:
                token = reader.runs.token(self.run_id)
                if token == self.token:
                    return False
                self.token = token
                run = reader.runs.one(self.run_id)
                self._draw(self._line(reader, run))
                return not run.active
        except StoreBusy:
            return False

    def _line(self, reader: Reader, run: Run) -> str:
        if run.status != "queued":
            return progress_line(run, _loss(reader, run))
        ahead = reader.queue.position(run.id)
        if run.target and ahead is not None:
            return f"queued, {cluster_wait(run.target, reader.cluster_jobs.of(run.id))}"
        return progress_line(run, ahead=ahead)

    def _interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        self.interrupts += 1

    def _ask_to_cancel(self) -> None:
        try:
            with Store.open(self.home) as store:
                store.runs.cancel(self.run_id, by=self.owner)
            self._say(
                f"Cancelling run {self.run_id}; this can take some seconds. Press Ctrl-C again to detach from it."
            )
        except WrongStatus:
            pass  # it ended this moment
        self.asked = True

    def _draw(self, line: str) -> None:
        if sys.stderr.isatty():
            self.shown = True
            click.echo(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", err=True, nl=False)

    def _wipe(self) -> None:
        if self.shown:
            click.echo("\r\x1b[K", err=True, nl=False)

    def _say(self, sentence: str) -> None:
        self._wipe()
        click.echo(sentence, err=True)


def _loss(reader: Reader, run: Run) -> float | None:
    losses = [
        found.last
        for found in reader.details.summaries(run.id)
        if found.metric == "train/loss" and found.last is not None
    ]
    return sum(losses) / len(losses) if losses else None


def progress_line(run: Run, loss: float | None = None, ahead: int | None = 0, now: datetime | None = None) -> str:
    """Return a run's state as one line: status, bar, share, amount, time left, loss; while queued, how many runs are
    `ahead`, None on hold.
    """
    if run.status == "queued" and ahead is None:
        return "queued, on hold"
    if run.status == "queued":
        return f"queued, {ahead} run{'' if ahead == 1 else 's'} ahead" if ahead else "queued, next"
    if not run.progress_total:
        return run.status
    share = min(1.0, run.progress_done / run.progress_total)
    full = round(share * BAR_CELLS)
    parts = [
        f"{run.status} {'█' * full}{'░' * (BAR_CELLS - full)} {share:4.0%}",
        f"{run.progress_done:,}/{run.progress_total:,} {run.progress_unit}",
    ]
    if run.started_at and 0 < share < 1:
        elapsed = (
            (now or datetime.now(UTC)) - datetime.fromisoformat(run.started_at)
        ).total_seconds() + run.time_before_s
        parts.append(f"{duration(elapsed * (1 - share) / share)} left")
    if loss is not None:
        parts.append(f"train/loss {number(loss)}")
    return "  ".join(parts)
