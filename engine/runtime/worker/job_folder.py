"""The folder of one job, on the shared file system or beside its worker: what is given to its process, and what comes
back.

Torch-free.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.errors import ConfigError

SPEC, RECORDS, REQUESTS, RUN = "job.json", "records", "trace-requests.json", "run"
LINK, STOP = "link.json", "stop"


class JobSpec(BaseModel):
    """What a job's worker has to do."""

    model_config = ConfigDict(frozen=True)

    version: str
    """Version of the runner."""
    run_id: int
    run_uid: str = ""
    """Random id of the run, which its checkpoints name."""
    cluster: str
    experiment: str
    config: dict[str, Any]
    command: dict[str, Any] | None = None
    """The command of the lab's own script (engine/script/command.py); None for an experiment."""
    nodes: int = 1
    cores: int = 1
    """CPU cores that the run asked for."""
    end_when_hung: bool = False
    data_folder: str = ""
    host_network_refused: str = ""
    """Why ranks may not listen on a node's own network; empty if they may."""
    resumes: bool = False
    """Whether its run folder holds a checkpoint to resume from."""
    time_before_s: float = 0.0
    """Training time of that checkpoint."""
    interface: str = ""
    """Network interface between nodes; empty to find it."""
    home: str = ""
    """The lab's home on the runner's machine, which a command must not see should a node have it too."""
    core_ids: list[int] = []
    """The run's cores, where its worker is beside it."""
    began: float = 0.0
    """The time (monotonic, s) at which that worker accepted the run."""


class LinkAddress(BaseModel):
    """Where the worker of a run over several nodes listens for their agents."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int
    key: str
    """Hexadecimal digits that both ends prove to know."""


class JobFolder:
    """Paths of one job's folder."""

    def __init__(self, path: Path, run: Path | None = None) -> None:
        self.path = path
        self.records = path / RECORDS
        """The file to which the worker appends its records."""
        self.run = run or path / RUN
        """The run's folder: logs, checkpoints, stacks."""

    def create(self, spec: JobSpec) -> None:
        """Create the folder, private to this user, with what the worker has to do."""
        for each in (self.path, self.run):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        replace_file(self.path / SPEC, spec.model_dump_json())

    def spec(self) -> JobSpec:
        """Return what the worker has to do."""
        return JobSpec.model_validate_json((self.path / SPEC).read_text())

    def tell_link(self, link: LinkAddress) -> None:
        """Tell the agents where the worker listens."""
        replace_file(self.path / LINK, link.model_dump_json())

    def link(self) -> LinkAddress | None:
        """Return where the worker listens, None if it has not told."""
        try:
            return LinkAddress.model_validate_json((self.path / LINK).read_text())
        except FileNotFoundError:
            return None

    def ask_to_stop(self) -> None:
        """Tell the worker to end its run."""
        replace_file(self.path / STOP, "")

    def is_to_stop(self) -> bool:
        """Return whether the worker was told to end its run."""
        return (self.path / STOP).exists()

    def request_traces(self, seconds: list[float]) -> None:
        """Tell the worker of all requests to store the trace so far, each for so many seconds."""
        replace_file(self.path / REQUESTS, json.dumps(seconds))

    def trace_requests(self) -> list[float]:
        """Return all requests so far."""
        try:
            return [float(one) for one in json.loads((self.path / REQUESTS).read_text())]
        except FileNotFoundError:
            return []


def replace_file(path: Path, text: str) -> None:
    """Write a small file so that readers see all of it or the previous one."""
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def check_owner(jobs: Path) -> None:
    """Create the folder of the jobs' folders in the shared folder; raises ConfigError if another user could put a job
    there, OSError, also if the shared folder is not there: it may not be mounted.
    """
    jobs.mkdir(mode=0o700, exist_ok=True)
    about = jobs.lstat()
    if stat.S_ISLNK(about.st_mode) or about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o022:
        sentence = (
            f"{jobs} can be changed by other users, who could run code as this one. Make it a folder of this user's, "
            f"with mode 700, or choose another shared folder."
        )
        raise ConfigError.of("target", sentence)
