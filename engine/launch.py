"""Launch, resume and retry runs, for pages and command line. Torch-free."""

from engine import seeding
from engine.access.confusables import visible
from engine.cluster.targets import machine_for
from engine.config import Config
from engine.errors import ConfigError, EngineError, NoCheckpoint, Problem, UnknownName, WrongStatus
from engine.home import Home
from engine.launch_options import USUAL, LaunchOptions
from engine.registry import experiment
from engine.store import Reader, Run, Store
from engine.store.runs.commands import LaunchKey, checked_name
from engine.system.checkpoint_state import last_checkpoint, why_not_own
from engine.system.machine import demand

PAGE_TIMEOUT_S = 2.0
OWNER_LENGTH = 60


def launch(
    home: Home,
    name: str,
    config: Config,
    *,
    owner: str,
    preset: str | None = None,
    title: str = "",
    timeout_s: float = PAGE_TIMEOUT_S,
    parent_id: int | None = None,
    resumes: bool = True,
    terms: LaunchOptions = USUAL,
    once: LaunchKey | None = None,
) -> int:
    """Queue a run of experiment `name` and return its id; `parent_id` is the run to resume, or without `resumes`, to
    repeat. A preset whose settings were changed is not recorded as the run's preset.

    A repeated idempotency key `once` launches nothing and returns the existing run.

    Raises UnknownName, ConfigError, DeviceError if it can't run on this machine, StoreBusy.
    """
    found = experiment(name)
    if preset and found.configure(preset) != config:
        preset = None
    owner = owner_of(owner)
    asked = demand(config, machine_for(home, terms))
    settings, title = config.model_dump(mode="json"), title if parent_id else checked_name(title)
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.runs.add(
            name,
            settings,
            owner=owner,
            demand=asked,
            preset=preset,
            name=title,
            parent_id=parent_id,
            resumes=resumes,
            terms=terms.checked(),
            once=once,
        )


def owner_of(name: str) -> str:
    """Return the normalised owner; raises ConfigError for an invalid one."""
    if not name.strip():
        raise ConfigError([Problem("owner", f"owner is missing: give a name of 1 to {OWNER_LENGTH} characters.")])
    if len(name.strip()) > OWNER_LENGTH:
        raise ConfigError(
            [
                Problem(
                    "owner",
                    f"owner must have at most {OWNER_LENGTH} characters; got {len(name.strip()):,}. Shorten it.",
                )
            ]
        )
    return visible("owner", name.strip())


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
    return _launch_again(home, run, owner, timeout_s, resumes=True)


def retry(home: Home, run_id: int, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue a run that repeats a cancelled, lost or failed run from the start, with its settings; return its id.

    Raises NoSuchRun, WrongStatus for an active or finished run, and the errors of `launch`.
    """
    with Reader.open(home, timeout_s=timeout_s) as reader:
        run = reader.runs.one(run_id)
    if refusal := why_not_retriable(run):
        raise refusal
    return _launch_again(home, run, owner, timeout_s, resumes=False)


def _launch_again(home: Home, run: Run, owner: str, timeout_s: float, *, resumes: bool) -> int:
    config = experiment(run.experiment).config.check(run.config)
    return launch(
        home,
        run.experiment,
        config,
        owner=owner,
        preset=run.preset,
        title=run.name,
        timeout_s=timeout_s,
        parent_id=run.id,
        resumes=resumes,
        terms=run.terms,
    )


def why_not_retriable(run: Run) -> EngineError | None:
    """Return the error that a retry of the run would raise, None if possible."""
    if run.active:
        return WrongStatus(f"Run {run.id} can't be retried while it is {run.status}. Cancel it, or wait for its end.")
    if run.status == "finished":
        return WrongStatus(f"Run {run.id} can't be retried: it has finished. Clone it, or launch a new run.")
    try:
        experiment(run.experiment)
    except UnknownName as error:  # such as a run of another program
        return error
    return None


def why_not_resumable(home: Home, run: Run) -> EngineError | None:
    """Return the error that resuming the run would raise, None if possible."""
    no = f"Run {run.id} can't be resumed:"
    if run.active:
        return WrongStatus(f"{no} it is {run.status}. Cancel it, or wait for its end.")
    if run.status == "finished":
        return WrongStatus(f"{no} it has finished. Launch a new run.")
    if not experiment(run.experiment).resumable:
        return NoCheckpoint(f"{no} the experiment {run.experiment} has no checkpoints. Retry it instead.")
    if other_rule := seeding.why_not_resumable(run.seeding):
        return WrongStatus(f"{no} {other_rule}")
    if why := why_not_own(run, last_checkpoint(home.run_folder(run.id))):
        return NoCheckpoint(f"{no} {why}")
    return None
