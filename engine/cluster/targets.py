"""The clusters that runs can be sent to, from `clusters.toml` in the home, written by an admin. Torch-free."""

import os
import shlex
import stat
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from engine.errors import ConfigError, Problem, UnknownName
from engine.home import ROOT, Home
from engine.launch_options import LaunchOptions
from engine.system.machine import Gpu, Machine, machine

NAME = r"^[a-z0-9][a-z0-9-]{0,30}$"
WORD = r"^[A-Za-z0-9_.:/@=+-]+$"
"""Values that reach Slurm's options or a shell's `module load`: no blanks, quotes or signs of a shell."""


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError("must be an absolute path")
    return path


Folder = Annotated[Path, AfterValidator(_absolute)]
Word = Annotated[str, Field(pattern=WORD, max_length=200)]


class Cluster(BaseModel):
    """One target: how its jobs are submitted, and what a node has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=NAME)
    shared: Folder
    """Folder that the console's machine and all nodes see under the same path."""
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    cores: int = Field(ge=1, le=4096, strict=True)
    """CPU cores of a node."""
    gpus: int = Field(default=0, ge=0, le=64, strict=True)
    """GPUs of a node."""
    memory_gb: int | None = Field(default=None, ge=1, le=65_536, strict=True)
    """Memory that a job asks for on each node; None for the partition's default."""
    nodes: int = Field(default=1, ge=1, le=1024, strict=True)
    """Largest number of nodes of a run."""
    time_limit_min: int = Field(default=1440, ge=1, le=43_200, strict=True)
    """Time limit of a job, in minutes."""
    max_jobs: int = Field(default=20, ge=1, le=1000, strict=True)
    """Largest number of jobs that wait or run at the same time."""
    checkout: Folder = ROOT
    """This project's code, as the nodes see it."""
    python: Folder = Path(sys.executable)
    """The Python of an environment with this project's packages, as the nodes see it."""
    container: tuple[str, ...] = ()
    """Command before Python, such as apptainer, exec, --nv, image.sif."""
    modules: tuple[Word, ...] = ()
    """Environment modules that a job loads."""
    data: Folder | None = None
    """Folder of the data sets; None for `data` in the shared folder."""
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,15}$")] | None = None
    """Network interface between nodes; None to find it by the route to the first node."""
    trusted: StrictBool = False
    """Whether everyone who can reach the nodes' network may be trusted, as runs over several nodes need."""
    exclusive: StrictBool = False
    """Whether each job gets whole nodes."""

    @property
    def jobs(self) -> Path:
        """Return the folder of the jobs' folders."""
        return self.shared / "parallab-jobs"

    @property
    def machine(self) -> Machine:
        """Return a node as a machine, for the demand of a config."""
        gpus = tuple(Gpu(index, "GPU of the cluster", 0) for index in range(self.gpus))
        return Machine(self.cores, gpus, f"nodes of {self.name}", float(self.memory_gb or 0), cluster=self.name)

    @property
    def data_folder(self) -> Path:
        """Return the folder of the data sets, as the nodes see it."""
        return self.data or self.shared / "data"

    @property
    def python_command(self) -> str:
        """Return the shell words that start Python on a node."""
        return shlex.join([*self.container, str(self.python)])


def clusters(home: Home) -> dict[str, Cluster]:
    """Return the clusters of a home by name, empty without the file; raises ConfigError for an invalid one."""
    path = home.clusters
    try:
        about = path.stat()
        if about.st_uid not in (os.getuid(), 0) or stat.S_IMODE(about.st_mode) & 0o022:
            _refuse(
                f"{path} names commands that jobs run, but other users can change it. "
                f"Make it yours alone: chmod 600 {path}"
            )
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(f"{path} can't be read as TOML: {error}. docs/cluster.md has an example.")
    return {name: _checked(path, name, table) for name, table in tables.items()}


def cluster(home: Home, name: str) -> Cluster:
    """Return one cluster; raises UnknownName, and ConfigError for an invalid file."""
    found = clusters(home)
    if not found:
        why = "names none" if home.clusters.exists() else "doesn't exist"
        _refuse(f"Unknown cluster '{name}': {home.clusters} {why}. docs/cluster.md shows how to write it.")
    if name not in found:
        raise UnknownName("cluster", name, [*found], field="target")
    return found[name]


def _checked(path: Path, name: str, table: Any) -> Cluster:
    if not isinstance(table, dict):
        _refuse(f"{path}: '{name}' is outside of a table. Begin each cluster with a line such as [gpu-cluster].")
    try:
        return Cluster(**{**table, "name": name})
    except ValidationError as error:
        raise ConfigError([Problem("target", _sentence(path, name, one)) for one in error.errors()]) from None
    except TypeError:
        _refuse(f"{path}: the keys of cluster {name} must be names.")


def _sentence(path: Path, name: str, error: Any) -> str:
    key = ".".join(map(str, error["loc"]))
    if key == "by_hand":
        return f"{path}: cluster {name}: by_hand is no longer supported, every cluster needs Slurm. Delete {name}."
    if error["type"] == "extra_forbidden":
        known = [field for field in Cluster.model_fields if field != "name"]
        return f"{path}: cluster {name}: {UnknownName('key', key, known)}"
    if error["type"] == "missing":
        return f"{path}: cluster {name} lacks the key '{key}'. docs/cluster.md explains each key."
    if key == "name":
        return f"{path}: '{name}' can't be a cluster's name: use small letters, digits and hyphens, at most 31."
    words = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{path}: {key} of cluster {name}: {words[:1].lower()}{words[1:]}; got {str(error['input'])[:80]!r}."


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("target", sentence)


# ---- The machine that a run is for: this one, or nodes of a cluster ------------------------------------------------
# Torch-free.


def machine_for(home: Home, terms: LaunchOptions) -> Machine:
    """Return the resources that a run with these options may have; raises UnknownName for an unknown cluster,
    ConfigError for an invalid `clusters.toml` or number of nodes.
    """
    if not terms.target:
        if terms.nodes != 1:
            _refuse_nodes(f"nodes must be 1 on this machine, got {terms.nodes}. Choose a cluster with --on.")
        return machine()
    found = cluster(home, terms.target)
    if not 1 <= terms.nodes <= found.nodes:
        _refuse_nodes(f"nodes must be from 1 to {found.nodes} on cluster {found.name}, got {terms.nodes}.")
    if terms.nodes > 1 and not found.trusted:
        _refuse_nodes(
            f"Ranks on several nodes talk without authentication, and cluster {found.name} is not trusted for that: "
            "whoever reaches the nodes' network could run commands as the runner's user. Choose 1 node, or ask an "
            "admin to set trusted = true in clusters.toml."
        )
    one = found.machine
    return replace(one, cores=one.cores * terms.nodes, gpus=one.gpus * terms.nodes, nodes=terms.nodes)


def _refuse_nodes(sentence: str) -> None:
    raise ConfigError.of("nodes", sentence)
