"""`serve` and `stop`: the runner of a store."""

import time
from collections.abc import Sequence
from contextlib import suppress

import click

from engine.cli.answers import print_json
from engine.cli.frame import NO_RUNNER, NumberRange, json_option, named, owner_option
from engine.commands.authorize import operator
from engine.errors import RunnerError, StoreBusy, WrongStatus
from engine.home import Home
from engine.runner.runner import serve
from engine.store import Reader, Store
from engine.store.records import ALIVE, ProcessIdentity, RunRow, Status
from engine.system.liveness_lock import lives
from engine.system.runner_process import is_running, runner_process

POLL_S = 0.1
REGISTER_S = 10.0


@click.command("serve")
@click.option("--json", "as_json", is_flag=True, help="Print JSON when the runner stops.")
def serve_command(as_json: bool) -> None:
    """Run the store's runner in the foreground: start queued runs and supervise them.

    Ctrl-C or SIGTERM stops the runner but not its runs; the next runner takes them over. A store has one runner; a
    second one exits with code 4. The console, run and submit start one in the background if none is running.
    """
    serve(Home.find())
    if as_json:
        print_json({"stopped": True})


@click.command("stop")
@click.option("--cancel-runs", is_flag=True, help="Cancel the runs instead of waiting for them.")
@click.option(
    "--timeout",
    "timeout_s",
    type=NumberRange(0),
    help="Seconds to wait; the runner still stops after its runs have ended.",
)
@owner_option
@json_option
@click.pass_context
def stop_command(ctx: click.Context, cancel_runs: bool, timeout_s: float | None, owner: str, as_json: bool) -> None:
    """Stop the runner after its runs have ended; print the runs that it waits for.

    Queued runs stay queued for the next runner. Ctrl-C ends the waiting; the runner still stops.
    """
    home = Home.find()
    owner = owner if named() else operator(home, owner)
    runner = _ask(home, owner)
    if runner and cancel_runs:
        _cancel(home, owner)
    left = _wait(home, runner, timeout_s, quiet=as_json) if runner else []
    stopped = runner is None or not lives(home, runner)
    queued = _runs(home, ("queued",))
    if as_json:
        print_json(
            {
                "stopped": stopped,
                "was_running": runner is not None,
                "waiting_for": [row.id for row in left],
                "queued": [row.id for row in queued],
            }
        )
    else:
        click.echo(_answer(home, runner, stopped, left, queued))
    ctx.exit(0 if stopped else NO_RUNNER)


def _ask(home: Home, owner: str) -> ProcessIdentity | None:
    """Request the runner's stop and return its process; None without a runner."""
    deadline = time.monotonic() + REGISTER_S
    while is_running(home):
        if runner := runner_process(home):
            with Store.open(home) as store:
                store.access.permit("stop runner", by=owner)
                store.runner.ask_to_stop()
            return runner
        if time.monotonic() > deadline:
            raise RunnerError(
                f"A runner holds {home.runner_lock} but did not register in {REGISTER_S:.0f} s. See {home.runner_log}."
            )
        time.sleep(POLL_S)  # it has just started
    return None


def _cancel(home: Home, owner: str) -> None:
    with Store.open(home) as store:
        for row in _runs(home, ALIVE):
            with suppress(WrongStatus):  # it ended this moment
                store.runs.cancel(row.id, by=owner)


def _wait(home: Home, runner: ProcessIdentity, timeout_s: float | None, *, quiet: bool) -> list[RunRow]:
    """Wait for the runner to stop; return the remaining runs on a timeout."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    said = ""
    rows: list[RunRow] = []
    while lives(home, runner):
        with suppress(StoreBusy):
            rows = _runs(home, ALIVE)
        line = ", ".join(f"{row.id} ({row.status}, {row.progress // 0.1 * 10:.0f} %)" for row in rows)
        if line and line != said and not quiet:
            click.echo(f"Waiting for {line}. Cancel with --cancel-runs.", err=True)
            said = line
        if deadline is not None and time.monotonic() >= deadline:
            return rows
        time.sleep(POLL_S)
    return []


def _runs(home: Home, statuses: Sequence[Status]) -> list[RunRow]:
    """Return the runs on this machine: those on clusters go on without a runner."""
    with Reader.open(home) as reader:
        return [row for row in reader.runs.find(statuses=statuses) if not row.target]


def _answer(
    home: Home, runner: ProcessIdentity | None, stopped: bool, left: Sequence[RunRow], queued: Sequence[RunRow]
) -> str:
    waiting = f" Still queued: {', '.join(str(row.id) for row in queued)}." if queued else ""
    if runner is None:
        return f"No runner is running for {home.path}.{waiting}"
    if not stopped:
        return (
            "The runner will stop when these runs have ended: "
            f"{', '.join(str(row.id) for row in left) or 'its last one'}.{waiting}"
        )
    again = " Another runner has started meanwhile." if is_running(home) else ""
    return f"The runner has stopped.{again}{waiting}"
