"""Launch, resume and retry runs, for pages and command line. Torch-free."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from engine import seeding
from engine.access.confusables import visible
from engine.cluster.targets import machine_for
from engine.errors import ConfigError, EngineError, NoCheckpoint, WrongStatus
from engine.home import Home
from engine.registry import definition, is_own
from engine.store import Launch, Reader, Run, Store
from engine.store.launches import LaunchKey
from engine.store.runs.commands import checked_name
from engine.system.checkpoint_state import last_checkpoint, why_not_own
from engine.system.machine import demand

PAGE_TIMEOUT_S = 2.0
OWNER_LENGTH = 60


def launch(home: Home, asked: Launch, *, timeout_s: float = PAGE_TIMEOUT_S, once: LaunchKey | None = None) -> int:
    """Queue a run and return its id. A repeated idempotency key `once` launches nothing and returns the existing run.

    Raises UnknownName, ConfigError, DeviceError if it can't run on this machine, StoreBusy.
    """
    ready = checked(home, asked)
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.runs.add(ready, once)


def rehearse(home: Home, asked: Launch, *, timeout_s: float = PAGE_TIMEOUT_S) -> Launch:
    """Return what `launch` would queue, and queue nothing; raises what it raises."""
    ready = checked(home, asked)
    with Store.open(home, timeout_s=timeout_s) as store, store.rehearsal():
        store.runs.add(ready)
    return ready


def checked(home: Home, asked: Launch) -> Launch:
    """Return a launch with checked settings and its demand; raises UnknownName, ConfigError, DeviceError."""
    config = definition(asked).config.check(asked.config)
    if asked.terms.target and is_own(asked):
        raise ConfigError.of(
            "target",
            f"{asked.experiment} is an experiment of the lab's own, which runs on this machine only; got cluster "
            f"{asked.terms.target}. Choose this machine.",
        )
    return replace(
        asked,
        config=config.model_dump(mode="json"),
        owner=owner_of(asked.owner),
        preset=kept_preset(asked, config.model_dump()),
        demand=demand(config, machine_for(home, asked.terms)),
        name=asked.name if asked.parent_id else checked_name(asked.name),
        terms=asked.terms.checked(),
    )


def kept_preset(asked: Launch, values: Mapping[str, Any], but: Collection[str] = ()) -> str | None:
    """Return the preset that a launch began as, None if its settings, apart from those `but`, are no longer the
    preset's. Raises UnknownName.
    """
    if not asked.preset:
        return None
    usual = definition(asked).configure(asked.preset).model_dump(exclude={*but})
    return asked.preset if all(values[name] == value for name, value in usual.items()) else None


def owner_of(name: str) -> str:
    """Return the normalised owner; raises ConfigError for an invalid one."""
    name = name.strip()
    if not name:
        raise ConfigError.of("owner", f"owner is missing: give a name of 1 to {OWNER_LENGTH} characters.")
    if len(name) > OWNER_LENGTH:
        raise ConfigError.of(
            "owner", f"owner must have at most {OWNER_LENGTH} characters; got {len(name):,}. Shorten it."
        )
    return visible("owner", name)


def resume(home: Home, run_id: int, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue a run that continues a cancelled, lost or failed run from its last checkpoint, with its priority; return
    its id.

    Raises NoSuchRun, WrongStatus for an active or finished run, NoCheckpoint, and the errors of `launch`.
    """
    with Reader.open(home, timeout_s=timeout_s) as reader:
        run, found = reader.runs.one(run_id), last_checkpoint(home.run_folder(run_id))
        if refusal := why_not_resumable(home, run):
            raise refusal
        if found and (lacking := reader.runs.why_behind(run_id, found.steps)):
            raise NoCheckpoint(f"Run {run_id} can't be resumed: {lacking}")
    return launch(home, Launch.again(run, owner, resumes=True), timeout_s=timeout_s)


def retry(home: Home, run_id: int, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue a run that repeats a cancelled, lost or failed run from the start, with its settings; return its id.

    Raises NoSuchRun, WrongStatus for an active or finished run, and the errors of `launch`.
    """
    with Reader.open(home, timeout_s=timeout_s) as reader:
        run = reader.runs.one(run_id)
    if refusal := why_not_retriable(run):
        raise refusal
    return launch(home, Launch.again(run, owner), timeout_s=timeout_s)


def why_not_retriable(run: Run) -> EngineError | None:
    """Return the error that a retry of the run would raise, None if possible."""
    if run.active:
        return WrongStatus(f"Run {run.id} can't be retried while it is {run.status}. Cancel it, or wait for its end.")
    if run.status == "finished":
        return WrongStatus(f"Run {run.id} can't be retried: it has finished. Clone it, or launch a new run.")
    try:
        definition(run)
    except ConfigError as error:  # such as a run of another program
        return error
    return None


def why_not_resumable(home: Home, run: Run) -> EngineError | None:
    """Return the error that resuming the run would raise, None if possible."""
    no = f"Run {run.id} can't be resumed:"
    if run.active:
        return WrongStatus(f"{no} it is {run.status}. Cancel it, or wait for its end.")
    if run.status == "finished":
        return WrongStatus(f"{no} it has finished. Launch a new run.")
    if run.command:
        return NoCheckpoint(
            f"{no} Parallab doesn't know the checkpoints of a script. Retry it, or launch its command with "
            "the option by which the script continues from one."
        )
    try:
        is_resumable = definition(run).resumable
    except ConfigError as error:
        return error
    if not is_resumable:
        return NoCheckpoint(f"{no} the experiment {run.experiment} has no checkpoints. Retry it instead.")
    if other_rule := seeding.why_not_resumable(run.seeding):
        return WrongStatus(f"{no} {other_rule}")
    if why := why_not_own(run, last_checkpoint(home.run_folder(run.id))):
        return NoCheckpoint(f"{no} {why}")
    return None
