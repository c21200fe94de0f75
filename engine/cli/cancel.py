"""`cancel`: cancel a run, or all runs of a sweep."""

import time

import click

from engine.cli.answers import print_json
from engine.cli.frame import json_option, owner_option
from engine.errors import ConfigError, Problem, RunnerError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Status
from engine.system.runner_process import ensure_running

CANCEL_WAIT_S = 60.0


@click.command("cancel")
@click.argument("run_id", metavar="[ID]", type=int, required=False)
@click.option("--sweep", "sweep_id", metavar="ID", type=int, help="Cancel all runs of this sweep that have not ended.")
@click.option("--force", is_flag=True, help="Kill the processes at once, even if the run is already stopping.")
@click.option("--wait", is_flag=True, help="Wait until the runs have ended.")
@owner_option
@json_option
def cancel_command(
    run_id: int | None, sweep_id: int | None, force: bool, wait: bool, owner: str, as_json: bool
) -> None:
    """Cancel a run, or all runs of a sweep: at once while queued, otherwise by stopping worker and ranks.

    Processes that don't stop within seconds are killed. The run is cancelled once its processes are gone; its cause
    lists anything that could not be removed.
    """
    if (run_id is None) == (sweep_id is None):
        raise ConfigError([Problem("", "cancel needs the id of one run, or --sweep with the id of one sweep.")])
    home = Home.find()
    with Store.open(home) as store:
        if run_id is not None:
            found = {run_id: store.runs.cancel(run_id, by=owner, force=force)}
        else:
            assert sweep_id is not None
            found = store.sweeps.cancel(sweep_id, by=owner, force=force)
    if "stopping" in found.values():
        ensure_running(home)  # the runner stops the worker
        if wait:
            found = {each: _ended(home, each) if status == "stopping" else status for each, status in found.items()}
    if not as_json:
        for each, status in found.items():
            click.echo(f"Run {each} is {status}.")
    elif run_id is not None:
        print_json({"id": run_id, "status": found[run_id]})
    else:
        print_json({"id": sweep_id, "runs": found})


def _ended(home: Home, run_id: int) -> Status:
    deadline = time.monotonic() + CANCEL_WAIT_S
    with Reader.open(home) as reader:
        while (run := reader.runs.one(run_id)).active:
            if time.monotonic() > deadline:
                raise RunnerError(
                    f"Run {run_id} is still {run.status} {CANCEL_WAIT_S:.0f} s after its cancellation. See "
                    f"{home.runner_log}."
                )
            time.sleep(0.1)
    return run.status
