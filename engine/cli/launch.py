"""`run`, `submit`, `resume` and `retry`: queue a run, and follow it or not.

The progress of a followed run goes to standard error, and only to a terminal: standard output holds only the answer.
"""

import math
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import click

from engine.analysis.total_work import unreached
from engine.cli.answers import answer, duration, number, wants_json
from engine.cli.frame import FAILED, ID, INTERRUPTED, OWNER, argument, command, launch_terms, option, together
from engine.cli.runner import see_to_runner, tell_ignored_settings
from engine.cli.runs import summary, summary_text
from engine.cli.subject import CommandWords, Subject, explained
from engine.errors import StoreBusy, WrongStatus, counted
from engine.experiment import ENDS_EARLY
from engine.home import Home
from engine.launch import launch, resume, retry
from engine.launch_options import LaunchOptions
from engine.notices.public_url import console_url
from engine.queue.cluster_wait import cluster_wait
from engine.queue.forecast import outlook
from engine.store import Launch, Reader, Store
from engine.store.records import Run
from engine.store.scripts import rendered
from engine.system.runner_process import ensure_running
from engine.trace.health import BAD

STORE_TIMEOUT_S = 30.0
"""Longer than elsewhere: at a command line, waiting is better than typing the command again."""
POLL_S = 0.1
RUNNER_CHECK_S = 2.0
QUEUED_S = 5.0
"""Seconds in the queue after which a followed run says why it waits."""
BAR_CELLS = 28
WITHOUT_RUNNER = option("Do not start a runner; the run stays queued until one starts.")


@dataclass(frozen=True)
class LaunchRequest:
    """What run and submit launch."""

    subject: Subject = together(Subject)
    title: str = option("Name of the run.", "--name", default="")
    terms: LaunchOptions = together(launch_terms)
    owner: str = OWNER

    def queue(self, home: Home) -> tuple[int, Launch]:
        """Queue the run and return its id, with what it launches."""
        found, asked = self.subject.shared(home, self.title, self.terms, self.owner)
        config = found.config.check(self.subject.values(found, asked.command))
        print_cautions(unreached(found, config, self.terms.max_run_time_s))
        asked = replace(asked, config=config.model_dump(mode="json"))
        return launch(home, asked, timeout_s=STORE_TIMEOUT_S), asked


@command("run", cls=CommandWords)
def run_command(
    request: LaunchRequest = together(LaunchRequest),
    detach: bool = option("Queue the run and return at once, as submit does."),
) -> int:
    """Launch a run and follow it until it ends, or return at once with --detach; start a runner if none is running.

    EXPERIMENT is the name of an experiment or a recipe. A command of your own follows after `--`, as in `run --
    torchrun --nproc-per-node 2 train.py --lr 0.1`; its options are settings, like those of an experiment.

    Ctrl-C cancels the run; a second Ctrl-C detaches from it. Exits with 0 only if the run finished. With --json, the
    last line of standard output is an object with id, status, cause, execution_time_s, result, metrics
    (last values) and best.
    """
    home = Home.find()
    if detach:
        return _submit(home, request)
    run_id, asked = request.queue(home)
    if not wants_json():
        known = f", preset {asked.preset}" if asked.preset and not request.subject.settings else ""
        click.echo(f"Run {run_id}: {what_runs(asked)}{known}, by {request.owner}.")
        if asked.command:
            click.echo(explained(asked))
    tell_ignored_settings(home)
    return _followed(home, run_id, request.owner)


@command("submit", cls=CommandWords)
def submit_command(request: LaunchRequest = together(LaunchRequest), no_runner: bool = WITHOUT_RUNNER) -> None:
    """Queue a run and return at once, as `run --detach` does; start a runner if none is running."""
    _submit(Home.find(), request, no_runner=no_runner)


def _submit(home: Home, request: LaunchRequest, *, no_runner: bool = False) -> int:
    """Queue the run, print its id and return the exit code."""
    run_id, _ = request.queue(home)
    see_to_runner(home, unless=no_runner)
    answer({"id": run_id}, f"Run {run_id} queued. {_follow(run_id)}")
    return 0


@command("attach")
def attach_command(
    folder: Path = argument(), title: str = option("Name of the run.", "--name", default=""), owner: str = OWNER
) -> int:
    """Follow the TensorBoard event files of a program that was started elsewhere, as a live run.

    The run ends with the program, if it is on this machine, otherwise after half an hour without a new value. It takes
    no slot. Ctrl-C cancels the run, not the program; a second Ctrl-C detaches from it.
    """
    home = Home.find()
    from engine.runtime.command.attached import attach  # with what a worker needs

    run_id = attach(home, folder, name=title, owner=owner)
    if not wants_json():
        click.echo(f"Run {run_id} follows {folder}, by {owner}.")
    return _followed(home, run_id, owner)


def _followed(home: Home, run_id: int, owner: str) -> int:
    """Follow a run to its end, print its summary and return the exit code."""
    print_page(home, f"run?run={run_id}")
    ended = RunWatch(home, run_id, owner).until_ended()
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        found = summary(reader, run_id)
    answer(found, lambda: summary_text(found))
    return INTERRUPTED if not ended else 0 if found["status"] == "finished" else FAILED


def print_page(home: Home, path: str) -> None:
    """Print the address of a page of the home's console, if one runs."""
    if not wants_json() and (url := console_url(home)):
        click.echo(f"Its page: {url}/{path}")


def what_runs(asked: Launch) -> str:
    """Return what a launch runs: the name of the experiment, or the command as it will run."""
    return rendered(asked.command, asked.config).text if asked.command else asked.experiment


@command("resume")
def resume_command(parent_id: int = ID, owner: str = OWNER, no_runner: bool = WITHOUT_RUNNER) -> None:
    """Queue a new run that continues a cancelled, lost or failed run from its last checkpoint.

    The new run includes the old run's curves up to the checkpoint, and has it as its parent.
    """
    run_id = resume(Home.find(), parent_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    _print_child(run_id, parent_id, f"resumes run {parent_id}", no_runner)


@command("retry")
def retry_command(parent_id: int = ID, owner: str = OWNER, no_runner: bool = WITHOUT_RUNNER) -> None:
    """Queue a new run that repeats a cancelled, lost or failed run from the start, with the same settings.

    The new run has the old one as its parent, and belongs to the same sweep.
    """
    home = Home.find()
    run_id = retry(home, parent_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        run = reader.runs.one(run_id)
    line = f", {rendered(run.command, run.config).text}," if run.command else ""
    _print_child(run_id, parent_id, f"repeats run {parent_id}{line} from the start", no_runner)


def _print_child(run_id: int, parent_id: int, does: str, no_runner: bool) -> None:
    see_to_runner(Home.find(), unless=no_runner)
    answer({"id": run_id, "parent_id": parent_id}, f"Run {run_id} queued; it {does}. {_follow(run_id)}")


def _follow(run_id: int) -> str:
    return f"Follow its logs: python -m engine logs {run_id} --follow"


def print_cautions(cautions: Iterable[str]) -> None:
    """Print cautions to standard error, which leaves the answer alone."""
    for caution in cautions:
        click.echo(f"Caution: {caution}", err=True)


class RunWatch:
    """Follows one run until it ends; the first Ctrl-C cancels it, the second detaches from it."""

    def __init__(self, home: Home, run_id: int, owner: str) -> None:
        self.home, self.run_id, self.owner = home, run_id, owner
        self.interrupts = 0
        self.asked = False
        self.token = -1
        self.checked_at = 0.0
        self.shown = False
        self.told = ""
        self.tells_wait_at = time.monotonic() + QUEUED_S

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
                if time.monotonic() > self.tells_wait_at:
                    self._tell_wait(reader)
                token = reader.runs.token(self.run_id)
                if token == self.token:
                    return False
                self.token = token
                run = reader.runs.one(self.run_id)
                self._tell_standstill(reader, run)
                self._draw(self._line(reader, run))
                return not run.active
        except StoreBusy:
            return False

    def _tell_standstill(self, reader: Reader, run: Run) -> None:
        """Say once for each standstill which rank is its cause."""
        verdict = reader.details.health_now(run.id).verdict
        if verdict.state in BAD and verdict.cause != self.told:
            self._say(f"{verdict.sentence} See: python -m engine ranks {run.id}")
        self.told = verdict.cause if verdict.state in BAD else ""

    def _tell_wait(self, reader: Reader) -> None:
        """Say once why the run waits in the queue, and which run before it stands still."""
        self.tells_wait_at = math.inf
        if wait := outlook(reader, self.home).get(self.run_id):
            self._say(f"Run {self.run_id} is queued: {wait.reason}. Show all with: python -m engine queue")
            for run in reader.queue.alive():
                if (verdict := reader.details.health_now(run.id).verdict).state in BAD:
                    self._say(f"Run {run.id} stands still: {verdict.sentence} See: python -m engine ranks {run.id}")

    def _line(self, reader: Reader, run: Run) -> str:
        if run.status != "queued":
            return progress_line(run, _loss(reader, run), left_s=reader.runs.entry(run.id).time_left_s)
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


def progress_line(run: Run, loss: float | None = None, ahead: int | None = 0, left_s: float | None = None) -> str:
    """Return a run's state as one line: status, bar, share, amount, time left, loss; while queued, how many runs are
    `ahead`, None on hold.
    """
    if run.status == "queued" and ahead is None:
        return "queued, on hold"
    if run.status == "queued":
        return f"queued, {counted(ahead, 'run')} ahead" if ahead else "queued, next"
    if not run.progress_total:
        return run.status
    share = min(1.0, run.progress_done / run.progress_total)
    full = round(share * BAR_CELLS)
    parts = [
        f"{run.status} {'█' * full}{'░' * (BAR_CELLS - full)} {share:4.0%}",
        f"{run.progress_done:,}/{run.progress_total:,} {run.progress_unit}",
    ]
    if left_s:
        parts.append(f"{'at most ' if run.config.get(ENDS_EARLY) else ''}{duration(left_s)} left")
    if loss is not None:
        parts.append(f"train/loss {number(loss)}")
    return "  ".join(parts)
