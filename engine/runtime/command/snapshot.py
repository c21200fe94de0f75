"""What is kept of a command's code and interpreter with its run: commit, difference, a copy of the folder, versions.

It runs beside the command, in a process of its own that imports nothing of ours: `python snapshot.py`, with what to
look at as JSON on standard input and what was found as JSON on standard output. Torch-free.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

CODE, DIFF = "code.zip", "code.diff"
"""Files of the run's folder: a copy of the code, and its difference from the commit."""
MOST_DIFF_BYTES = 1_000_000
MOST_FILE_BYTES = 300_000
"""Size from which on a file is data."""
MOST_BYTES = 5_000_000
MOST_FILES = 1_000
MOST_SEEN = 20_000
"""Files of the folder that are looked at."""
GIT_S, PROBE_S = 20, 20
_SOURCES = """
    .py .pyi .pyx .ipynb .sh .bash .c .cc .cpp .cu .cuh .h .hpp .jl .r .lua .yaml .yml .toml .json .jsonc .cfg .ini .txt
    .md .rst .gin .conf .lock .sbatch .slurm .mk"""
"""Endings of files that are code or configuration."""
NAMED = frozenset({"Makefile", "Dockerfile", "Snakefile", "requirements", "LICENSE"})
_SKIPPED = """
    __pycache__ node_modules venv env site-packages wandb mlruns lightning_logs runs outputs checkpoints data datasets
    build dist logs"""
"""Folders of data, results and installed packages."""
_PROBE = (
    "import sys, os; sys.path.pop(0); print(sys.version.split()[0], sys.executable, sep='\\n');"
    "[print(name) for path in sys.path if os.path.isdir(path) for name in sorted(os.listdir(path))"
    " if name.endswith(('.dist-info', '.egg-info'))]"
)
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9_.]+?)-(?P<version>\d[^-]*?)(-py[\d.]+)?\.(dist|egg)-info")
_LISTED = """
    torch torchvision torchaudio lightning pytorch_lightning transformers accelerate datasets diffusers peft trl
    deepspeed timm jax flax tensorflow keras numpy scipy scikit_learn pandas hydra_core tyro click torchrl gymnasium
    tensorboard trackio wandb triton flash_attn xformers bitsandbytes"""
"""Packages whose versions are shown; all are in the file `packages.txt`."""
PACKAGES = "packages.txt"


def look(folder: Path, run_folder: Path, interpreter: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Keep a command's code in its run's folder, and return what was found, as JSON values."""
    found: dict[str, Any] = {}
    if interpreter:
        found |= _versions(interpreter, folder, environment, run_folder)
    code = _commit(folder, run_folder, environment) | copy(folder, run_folder)
    return found | {"code": {"folder": str(folder), **code}}


def _versions(interpreter: str, folder: Path, environment: Mapping[str, str], run_folder: Path) -> dict[str, Any]:
    """Return the versions of an interpreter and of its packages, by the names of their folders: nothing is imported."""
    lines = _output([interpreter, "-c", _PROBE], folder, environment, PROBE_S).splitlines()
    if len(lines) < 2:
        return {"interpreter": interpreter}
    packages = {each["name"]: each["version"] for line in lines[2:] if (each := _PACKAGE.fullmatch(line))}
    with suppress(OSError):
        (run_folder / PACKAGES).write_text(
            "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
        )
    return {
        "interpreter": lines[1],
        "python": lines[0],
        "packages": {name: packages[name] for name in _LISTED.split() if name in packages},
    }


def _commit(folder: Path, run_folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the commit of a folder, and keep its difference from that; empty outside a repository."""
    git = ["git", "-c", "core.fsmonitor=", "-C", str(folder)]  # a program that a repository names is not run
    commit = _output([*git, "rev-parse", "HEAD"], folder, environment, GIT_S).strip()
    if not commit:
        return {}
    options = ["--no-ext-diff", "--no-textconv", "--no-color", "--relative"]
    diff = _output([*git, "diff", *options, "HEAD", "--", "."], folder, environment, GIT_S)
    if diff:
        with suppress(OSError):
            (run_folder / DIFF).write_text(diff)
    branch = _output([*git, "rev-parse", "--abbrev-ref", "HEAD"], folder, environment, GIT_S).strip()
    return {"commit": commit, "branch": branch, "is_changed": bool(diff), "diff_is_cut": len(diff) >= MOST_DIFF_BYTES}


def _output(argv: list[str], folder: Path, environment: Mapping[str, str], within_s: float) -> str:
    """Return what a program prints, up to `MOST_DIFF_BYTES`; empty if it fails."""
    environment = {**environment, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    with suppress(OSError, subprocess.TimeoutExpired):
        program = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert program.stdout
        text = program.stdout.read(MOST_DIFF_BYTES)
        program.stdout.close()
        if program.wait(within_s) == 0 or len(text) == MOST_DIFF_BYTES:
            return text.decode(errors="replace")
    return ""


def copy(folder: Path, run_folder: Path) -> dict[str, Any]:
    """Copy the code of a folder into an archive of the run's folder."""
    size = count = 0
    part = run_folder / f"{CODE}.part"
    left_out: list[str] = []
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in _code(folder):
                with suppress(OSError, ValueError):  # ValueError: a time before 1980
                    bytes_ = path.stat().st_size
                    if bytes_ > MOST_FILE_BYTES or size + bytes_ > MOST_BYTES or count >= MOST_FILES:
                        left_out.append(str(path.relative_to(folder)))
                        continue
                    archive.writestr(str(path.relative_to(folder)), path.read_bytes()[:MOST_FILE_BYTES])
                    size, count = size + bytes_, count + 1
        part.replace(run_folder / CODE)
    except OSError:  # a full disk
        part.unlink(missing_ok=True)
        return {"files": 0}
    return {"files": count, "bytes": size, "left_out": left_out[:20]}


def _code(folder: Path) -> Iterator[Path]:
    """Yield the files of code below a folder, the nearest first; without links and hidden ones."""
    folders, seen = [folder], 0
    for each in folders:
        with suppress(OSError):
            for entry in sorted(os.scandir(each), key=lambda entry: entry.name):
                seen += 1
                if seen > MOST_SEEN or len(folders) > MOST_SEEN:
                    return
                if entry.name.startswith(".") or entry.is_symlink():
                    continue
                if entry.is_dir():
                    if entry.name not in _SKIPPED.split() and not (Path(entry.path) / "pyvenv.cfg").exists():
                        folders.append(Path(entry.path))
                elif Path(entry.name).suffix.lower() in _SOURCES.split() or Path(entry.name).stem in NAMED:
                    yield Path(entry.path)


def code_of(run_folder: Path) -> dict[str, str]:
    """Return the copy of a run's code: the text of each file by its path; empty if none was kept."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(run_folder / CODE) as archive:
        return {
            each.filename: archive.read(each).decode(errors="replace")
            for each in archive.infolist()
            if each.file_size <= MOST_FILE_BYTES
        }
    return {}


def diff_of(run_folder: Path) -> str:
    """Return the difference of a run's code from its commit; empty if there is none."""
    with suppress(OSError):
        return (run_folder / DIFF).read_text(errors="replace")
    return ""


if __name__ == "__main__":
    os.nice(10)
    os.umask(0o077)
    asked = json.load(sys.stdin)
    json.dump(
        look(Path(asked["folder"]), Path(asked["run_folder"]), asked["interpreter"], asked["environment"]), sys.stdout
    )
