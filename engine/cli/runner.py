"""`serve`, `link`, `stop` and `clusters`: what carries runs out; and how commands that launch runs start a runner."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from engine.access.command_link import current
from engine.access.providers import configured
from engine.cli.answers import answer, print_json, table, wants_json
from engine.cli.frame import NO_RUNNER, OWNER, NumberRange, command, named, option
from engine.commands.lab_settings import operator
from engine.errors import RunnerError, StoreBusy, WrongStatus
from engine.home import Home
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.store import Reader, Store
from engine.store.access.authorization import is_marked
from engine.store.records import ALIVE, ProcessIdentity, RunRow, Status
from engine.system.runner_process import ensure_running, has_console, is_running, lives, runner_process

POLL_S = 0.1
REGISTER_S = 10.0


@command("serve", json_help="Print JSON when the runner stops.")
def serve_command(
    unless_running: bool = option("End without an error if a runner is running, as of another program's start."),
) -> None:
    """Run the store's runner in the foreground: start queued runs and supervise them.

    Ctrl-C or SIGTERM stops the runner but not its runs; the next runner takes them over. A store has one runner; a
    second one exits with code 4. The console, run and submit start one in the background if none is running.
    """
    from engine.runner.runner import AlreadyServed, serve  # imports NumPy and more

    try:
        serve(Home.find())
    except AlreadyServed:
        if not unless_running:
            raise
        click.echo("Another program has just started a runner; this one is not needed.")
    if wants_json():
        print_json({"stopped": True})


@command("link")
def link_command() -> None:
    """Print the link of the home's console, by which a browser may launch commands in a lab without accounts.

    Keep it private: who has it can run any program as the console's user. It works until the console starts again.
    """
    home = Home.find()
    if is_marked(home) or configured().found:
        raise WrongStatus(
            "A lab with accounts has no link: people sign in, and may launch commands if an admin has granted it."
        )
    if not (link := current(home)) or not has_console(home):
        raise WrongStatus(f"No console serves {home.path}. Start it with: make run")
    answer({"link": str(link), "secret": link.secret}, str(link))


@command("stop")
def stop_command(
    cancel_runs: bool = option("Cancel the active runs instead of waiting for them; queued ones stay queued."),
    timeout_s: float | None = option(
        "Seconds to wait; the runner still stops after its runs have ended.", "--timeout", type=NumberRange(0)
    ),
    owner: str = OWNER,
) -> int:
    """Stop the runner after its runs have ended; print the runs that it waits for.

    Queued runs stay queued for the next runner. Ctrl-C ends the waiting; the runner still stops.
    """
    home = Home.find()
    owner = owner if named() else operator(home, owner)
    runner = _ask(home, owner)
    if runner and cancel_runs:
        with Store.open(home) as store:
            for row in _runs(home, ALIVE):
                with suppress(WrongStatus):  # it ended this moment
                    store.runs.cancel(row.id, by=owner)
    left = _wait(home, runner, timeout_s, "" if cancel_runs else " Cancel with --cancel-runs.") if runner else []
    stopped = runner is None or not lives(home, runner)
    queued = _runs(home, ("queued",))
    state = {"stopped": stopped, "was_running": runner is not None}
    ids = {"waiting_for": [row.id for row in left], "queued": [row.id for row in queued]}
    answer(state | ids, _answer(home, runner, stopped, ids))
    return 0 if stopped else NO_RUNNER


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


def _wait(home: Home, runner: ProcessIdentity, timeout_s: float | None, advice: str) -> list[RunRow]:
    """Wait for the runner to stop; return the remaining runs on a timeout."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    said, rows = list[tuple[int, Status, float]](), list[RunRow]()
    while lives(home, runner):
        with suppress(StoreBusy):
            rows = _runs(home, ALIVE)
        line = ", ".join(f"run {row.id} ({row.status}, {row.progress:.0%} done)" for row in rows)
        state = [(row.id, row.status, row.progress // 0.1) for row in rows]
        if rows and state != said and not wants_json():
            click.echo(f"Waiting for {line}.{advice}", err=True)
            said = state
        if deadline is not None and time.monotonic() >= deadline:
            return rows
        time.sleep(POLL_S)
    return []


def _runs(home: Home, statuses: Sequence[Status]) -> list[RunRow]:
    """Return the runs on this machine: those on clusters, and reported ones, go on without a runner."""
    with Reader.open(home) as reader:
        return [row for row in reader.runs.find(statuses=statuses) if not (row.target or row.reported)]


def _answer(home: Home, runner: ProcessIdentity | None, stopped: bool, ids: Mapping[str, Sequence[int]]) -> str:
    left, queued = (", ".join(map(str, ids[name])) for name in ("waiting_for", "queued"))
    waiting = f" Still queued: {queued}." if queued else ""
    if runner is None:
        return f"No runner is running for {home.path}.{waiting}"
    if not stopped:
        return f"The runner will stop when these runs have ended: {left or 'its last one'}.{waiting}"
    again = " Another runner has started meanwhile." if is_running(home) else ""
    return f"The runner has stopped.{again}{waiting}"


@command("clusters")
def clusters_command() -> None:
    """List the clusters of clusters.toml in the home, which an admin writes; docs/cluster.md explains its keys.

    Check one with `doctor --cluster NAME`; use it with the option --on NAME of run, submit, sweep and duel.
    """
    from engine.cluster.targets import clusters  # imports pydantic

    home = Home.find()
    found = clusters(home).values()
    rows = [
        (one.name, one.partition or "default", one.nodes, one.cores, one.gpus, one.max_jobs, one.shared)
        for one in found
    ]
    headings = ("NAME", "PARTITION", "NODES", "CORES", "GPUS", "MAX JOBS", "SHARED FOLDER")
    none = f"No clusters: {home.clusters} does not exist. docs/cluster.md shows how to write it."
    answer([one.model_dump(mode="json") for one in found], table(headings, rows, none))


def see_to_runner(home: Home, *, unless: bool = False) -> None:
    """Start a runner for `home` if none is running, `unless` the person said not to; print on standard error why that
    failed, or which settings the running one ignores.

    Queued runs stay queued either way.
    """
    if unless:
        return
    try:
        if ensure_running(home):
            return
    except RunnerError as error:
        click.echo(str(error), err=True)
    tell_ignored_settings(home)


def tell_ignored_settings(home: Home) -> None:
    """Print on standard error which settings differ between this process and the running runner."""
    for sentence in ignored_settings(home):
        click.echo(f"{sentence} {RESTART}", err=True)
