"""How a command is started: its words, environment and program, as the run decides them. Torch-free."""

import os
import re
import shutil
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.commands.kept_files import FOLDER as FILES
from engine.errors import NotThere, RunFailed
from engine.home import ROOT
from engine.script.command import Command, missing_file
from engine.system.processes import MARK, mark, me

OURS = ("PARALLAB_", "STREAMLIT_")
"""Beginnings of the names of our own variables, which a command does not get."""
FOR_SCRIPTS = ROOT / "engine" / "script" / "for_scripts"
"""What a script can import without a copy."""
RANK_LOG = Path(__file__).with_name("rank_log")
"""Starts a rank of torchrun with a log of its own."""
PORTS = ("--master-port", "--main-process-port", "--rdzv-endpoint")
"""Options of torchrun and accelerate that name a port."""
PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
"""Names of the interpreters of Python."""


@dataclass(frozen=True)
class Start:
    """A command as it is started."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    program: str
    """Path of the program."""
    interpreter: str = ""
    """Path of its interpreter of Python; empty if that is known only once it runs."""
    is_spread: bool = False
    """Whether it starts ranks, each with a log of its own."""


def prepared(
    command: Command, values: Mapping[str, object], run_id: int, run_folder: Path, gpus: Collection[int | str] | None
) -> Start:
    """Return how a command is started with these values; raises RunFailed if it can't be, NotThere if the
    machine lacks something of it.

    It sees only the GPUs `gpus`; None leaves that to its environment.
    """
    rendered = command.rendered(values, processes=True)
    folder = Path(command.folder).expanduser() if command.folder else Path.home()
    _check_folder(folder)
    port = _free_port()
    environment = _environment(command, rendered.environment, run_id, run_folder, gpus, port)
    argv = _with_port(command, rendered.argv, port)
    if command.python and PYTHON.fullmatch(Path(argv[command.program_at]).name):
        argv[command.program_at] = command.python
    program = _program(argv[0], folder, environment)
    if missing := missing_file(command, folder):
        raise NotThere(missing)
    argv[0] = argv[0] if "/" in argv[0] else program if command.python and command.program_at == 0 else argv[0]
    several = values.get(command.processes_field, command.defaults().get(command.processes_field)) != 1
    is_spread = command.launcher == "torchrun" or (command.launcher == "accelerate" and several)
    return Start(argv, environment, folder, program, _interpreter(argv, program, folder, environment), is_spread)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        raise NotThere(f"The folder {folder} doesn't exist on this machine. Launch the command with another folder.")
    if not folder.is_dir():
        raise RunFailed(f"{folder} is not a folder. Launch the command with the folder that it runs in.")
    if not os.access(folder, os.X_OK):
        raise RunFailed(f"The folder {folder} can't be entered: permission denied. Allow it for the runner's user.")


def _environment(
    command: Command,
    asked: Mapping[str, str],
    run_id: int,
    run_folder: Path,
    gpus: Collection[int | str] | None,
    port: int,
) -> dict[str, str]:
    """Return the environment: the runner's without what is ours, what the command sets, and what the run decides."""
    found = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    _leave(found, Path(sys.prefix))
    if command.python and "/" in command.python:
        _enter(found, Path(command.python))
    paths = [text for text in found.get("PYTHONPATH", "").split(os.pathsep) if text and Path(text) != ROOT]
    found |= asked
    if "PYTHONPATH" in asked:
        paths = asked["PYTHONPATH"].split(os.pathsep)
    found["PYTHONPATH"] = os.pathsep.join([str(FOR_SCRIPTS), *paths])
    if "PYTHON_EXEC" in found:
        found["PARALLABPYTHON_EXEC"] = found["PYTHON_EXEC"]
    found |= {
        "PYTHONUNBUFFERED": "1",
        "PARALLAB_RUN_ID": str(run_id),
        "PARALLAB_RUN_FOLDER": str(run_folder),
        "PARALLAB_FILES": str(run_folder / FILES),
        "TRACKIO_DIR": str(run_folder / "trackio"),
        "TRACKIO_STORAGE_MODE": "jsonl",
        "PYTHON_EXEC": str(RANK_LOG),
        MARK: mark(me()),
    }
    if found.get("MASTER_ADDR", "localhost") in ("localhost", "127.0.0.1", "::1"):
        found["MASTER_PORT"] = str(port)
        if command.launcher != "opaque":  # a shell script may start several at once
            found["PET_MASTER_PORT"] = str(port)
    if gpus is not None:
        found |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
    return found


def _leave(environment: dict[str, str], prefix: Path) -> None:
    """Leave a virtual environment, as its `deactivate` does."""
    if sys.prefix == sys.base_prefix:
        return
    if environment.get("VIRTUAL_ENV") and Path(environment["VIRTUAL_ENV"]).resolve() == prefix.resolve():
        del environment["VIRTUAL_ENV"]
        environment.pop("VIRTUAL_ENV_PROMPT", None)
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    own = (prefix / "bin").resolve()
    environment["PATH"] = os.pathsep.join(each for each in folders if not each or Path(each).resolve() != own)


def _enter(environment: dict[str, str], python: Path) -> None:
    """Enter the environment of an interpreter, as its `activate` does."""
    prefix = python.expanduser().absolute().parent.parent
    environment["PATH"] = os.pathsep.join([str(prefix / "bin"), environment.get("PATH", os.defpath)])
    environment.pop("PYTHONHOME", None)
    environment.pop("VIRTUAL_ENV", None)
    if (prefix / "pyvenv.cfg").exists():
        environment["VIRTUAL_ENV"] = str(prefix)
    elif (prefix / "conda-meta").exists():
        environment["CONDA_PREFIX"] = str(prefix)


def _free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _with_port(command: Command, argv: Sequence[str], port: int) -> list[str]:
    """Return a command's words with its own port: two runs of it must not meet at one."""
    found = list(argv)
    if command.launcher not in ("torchrun", "accelerate"):
        return found
    end = found.index(command.argv[command.script_at], command.program_at + 1)
    names = [each.partition("=")[0].replace("_", "-") for each in found[:end]]
    if _is_several(found[:end], names):
        return found
    for at, name in enumerate(names):
        if name in PORTS:
            option, equals, text = found[at].partition("=")
            text = text if equals else found[at + 1]
            new = f"{text.partition(':')[0]}:{port}" if "rdzv" in name else str(port)
            found[at if equals else at + 1] = f"{option}={new}" if equals else new
    if command.launcher == "accelerate" and "--main-process-port" not in names:
        found[command.options_at : command.options_at] = ["--main_process_port", str(port)]
    return found


def _is_several(words: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a launcher's options name several nodes, which have to agree on a port."""
    for at, name in enumerate(names):
        if name in ("--nnodes", "--num-machines"):
            value = words[at].partition("=")[2] if "=" in words[at] else words[min(at + 1, len(words) - 1)]
            return value not in ("1", "1:1")
    return False


def _program(word: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return the path of a program; raises RunFailed if there is none."""
    if "/" in word:
        path = folder / Path(word).expanduser()
        if path.is_dir() or not path.exists():
            raise NotThere(f"The program {word} doesn't exist. Correct the command, or name another interpreter.")
        if not os.access(path, os.X_OK):
            raise RunFailed(
                f"The program {word} is not executable. Run `chmod +x {path}`, or start it with its interpreter, such "
                f"as `python {word}`."
            )
        return str(path)
    if found := shutil.which(word, path=environment.get("PATH", os.defpath)):
        return found
    raise NotThere(
        f"The program '{word}' is not in the PATH of the runner ({environment.get('PATH', os.defpath)}). Write its "
        "whole path in the command, name the interpreter, or start the runner where it is found."
    )


def _interpreter(argv: Sequence[str], program: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return the path of the interpreter that a program is or that its first line names; empty if neither."""
    if PYTHON.fullmatch(Path(argv[0]).name) or PYTHON.fullmatch(Path(program).name):
        return program
    try:
        with Path(program).open("rb") as file:
            words = file.readline(4_000).removeprefix(b"#!").decode(errors="replace").split()
            if file.tell() and words and Path(words[0]).name in ("sh", "bash"):  # pip's way out of long paths
                words = [file.readline(4_000).decode(errors="replace").replace("'''exec'", "").split('"')[1]]
    except (OSError, IndexError):
        return ""
    if words and Path(words[0]).name == "env":
        words = [shutil.which(words[-1], path=environment.get("PATH")) or ""]
    return words[0] if words and PYTHON.fullmatch(Path(words[0]).name) else ""
