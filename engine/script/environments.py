"""The interpreters of Python that a command could run with, and their versions, by their files: none is executed."""

import ast
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from engine.errors import ConfigError
from engine.script.command import Command

NAMES = (".venv", "venv", "env")
"""Folders of virtual environments, in a command's folder or above it."""
MOST = 20
_HEADER = re.compile(r'#define PY_VERSION\s+"([^"+]+)')
_VERSION = re.compile(r"python(\d+\.\d+)")
_CONDA = re.compile(r"python-(\d[\d.]*)-")
_SITES = ("lib*/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
"""Folders of packages below the prefix of an environment."""
MOST_FILES = 30
"""Files of a script, with the modules beside it that it imports, that are read for their imports."""
PROJECTS = {"PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Common packages whose project has another name."""


@dataclass(frozen=True)
class PythonInterpreter:
    """An interpreter with what its files say of it."""

    path: str
    kind: Literal["venv", "uv", "conda", "path"]
    python: str = ""
    """Its version, "" if its files don't say it."""
    torch: str = ""
    """Version of the torch that it imports, "" without one."""

    @property
    def versions(self) -> str:
        """Return its versions in words."""
        if not self.python and not self.torch:
            return "versions unknown"
        return f"Python {self.python or '(version unknown)'}, {f'torch {self.torch}' if self.torch else 'no torch'}"


def interpreters(folder: str) -> list[PythonInterpreter]:
    """Return the interpreters for a command in that folder: its virtual environments, the nearest first, the one of the
    PATH, those of conda, and the console's own.
    """
    found: dict[str, PythonInterpreter] = {}
    for path in _candidates(folder):
        if path not in found and len(found) < MOST and _is_program(Path(path)):
            found[path] = described(path, folder)
    return list(found.values())


def _candidates(folder: str) -> Iterator[str]:
    if folder:
        here = Path(folder).expanduser().absolute()
        for each in (here, *here.parents):
            yield from (str(each / name / "bin" / "python") for name in NAMES if (each / name / "pyvenv.cfg").is_file())
    if path := on_path():
        yield path
    yield from (str(prefix / "bin" / "python") for prefix in _conda())
    yield str(Path(sys.prefix) / "bin" / "python")


def on_path(program: str = "python") -> str:
    """Return the path of a program as the runner finds it: not in the virtual environment of Parallab. "" if absent."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = (Path(sys.prefix) / "bin").resolve() if sys.prefix != sys.base_prefix else None
    others = os.pathsep.join(each for each in folders if each and Path(each).resolve() != own)
    return shutil.which(program, path=others) or (
        shutil.which("python3", path=others) or "" if program == "python" else ""
    )


def _conda() -> Iterator[Path]:
    """Yield the folders of conda's environments."""
    listed = Path.home() / ".conda" / "environments.txt"
    with suppress(OSError):
        yield from (Path(line) for line in listed.read_text(errors="replace").splitlines()[: 2 * MOST] if line.strip())
    if prefix := os.environ.get("CONDA_PREFIX"):
        yield Path(prefix)
        with suppress(OSError):
            yield from sorted((Path(prefix) / "envs").iterdir())


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def interpreter_at(word: str, folder: str = "") -> PythonInterpreter:
    """Return the interpreter that a person named, by its path or as a program of the PATH; raises ConfigError."""
    text = str(Path(word).expanduser())
    path = str(Path(folder).expanduser() / text) if "/" in text else on_path(text)
    if not path or not Path(path).exists():
        cure = "Give the path of an interpreter, such as /data/project/.venv/bin/python."
        raise ConfigError.of("python", f"Interpreter {word} doesn't exist. {cure}")
    if Path(path).is_dir():
        inner = Path(path) / "bin" / "python"
        hint = f"Did you mean {inner}?" if inner.exists() else "Give the path of its python."
        raise ConfigError.of("python", f"Interpreter {word} is a folder. {hint}")
    if not _is_program(Path(path)):
        raise ConfigError.of("python", f"Interpreter {word} is not a program that this user may execute.")
    return described(path, folder)


def described(path: str, folder: str = "") -> PythonInterpreter:
    """Return what the files of an interpreter say of it, for a command in that folder."""
    prefix = Path(path).parent.parent
    settings = _settings(prefix)
    if settings:
        version = settings.get("version_info") or settings.get("version") or ""
        kind: Literal["venv", "uv"] = "uv" if "uv" in settings else "venv"
        torch = _torch(prefix)
        if not torch and settings.get("include-system-site-packages") == "true" and "home" in settings:
            torch = _torch(Path(settings["home"]).parent)
        return PythonInterpreter(path, kind, ".".join(version.split(".")[:3]), torch)
    if (prefix / "conda-meta").is_dir():
        names = (
            match[1] for each in (prefix / "conda-meta").glob("python-*.json") if (match := _CONDA.match(each.name))
        )
        return PythonInterpreter(path, "conda", next(names, ""), _torch(prefix))
    real = _behind_shim(Path(path), Path(folder)).resolve()
    return PythonInterpreter(path, "path", _version(real), _torch(real.parent.parent))


def _behind_shim(path: Path, folder: Path) -> Path:
    """Return the interpreter that a shim of pyenv starts in a folder; another path as it is."""
    root = path.parent.parent
    if path.parent.name != "shims" or not (root / "versions").is_dir():
        return path
    named = os.environ.get("PYENV_VERSION", "").partition(":")[0]
    for file in () if named else (*(each / ".python-version" for each in (folder, *folder.parents)), root / "version"):
        with suppress(OSError):
            named = file.read_text(errors="replace").partition("\n")[0].strip()
            break
    return root / "versions" / named / "bin" / path.name if named and "/" not in named else path


def _settings(prefix: Path) -> dict[str, str]:
    """Return the settings of a virtual environment; empty if the folder is none."""
    with suppress(OSError):
        lines = (prefix / "pyvenv.cfg").read_text(errors="replace").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}
    return {}


def _version(real: Path) -> str:
    """Return the version of an interpreter outside an environment: its header's, else the one in its name."""
    short = match[1] if (match := _VERSION.match(real.name)) else ""
    for header in sorted((real.parent.parent / "include").glob(f"python{short or '3'}*/patchlevel.h")):
        with suppress(OSError):
            if found := _HEADER.search(header.read_text(errors="replace")):
                return found[1]
    return short


def _torch(prefix: Path) -> str:
    """Return the version of the torch that is installed below a folder."""
    for site in _sites(prefix):
        for each in sorted(site.glob("torch-*.dist-info")):
            return each.name.removeprefix("torch-").removesuffix(".dist-info")
    return ""


def _sites(prefix: Path) -> Iterator[Path]:
    for pattern in _SITES:
        yield from sorted(prefix.glob(pattern))


# ---- Packages that a script imports and an interpreter lacks ---------------------------------------------------------


def missing_packages(command: Command) -> str:
    """Return which packages a command's script imports at its start and its interpreter lacks, with the cure; empty if
    it has all, or if files don't tell.
    """
    program = command.argv[command.program_at]
    if command.launcher not in ("python", "torchrun", "accelerate") or not command.is_python or not command.script:
        return ""
    word = command.python or program
    path = str(Path(command.folder) / Path(word).expanduser()) if "/" in word else on_path(word)
    if command.launcher != "python" and not command.python and path:
        path = str(Path(path).parent / "python")
    sites = _all_sites(Path(path), Path(command.folder)) if path else []
    if not sites:
        return ""
    script = Path(command.folder, command.script)
    asked = command.environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")).split(os.pathsep)
    beside = (script.parent, Path(command.folder), *(Path(command.folder, each) for each in asked if each))
    own = {"torchrun": ["torch"], "accelerate": ["accelerate"]}.get(command.launcher, [])
    names = [each for each in dict.fromkeys([*own, *_imported(script, beside)]) if not _has(sites, each)]
    if not names:
        return ""
    installed = " ".join(PROJECTS.get(each, each) for each in names)
    return (
        f"{command.name} imports {', '.join(names)}, which {path} doesn't have. Choose another interpreter, enter the "
        f"path of one, or install what is missing: {path} -m pip install {installed}"
    )


def _all_sites(python: Path, folder: Path) -> list[Path]:
    """Return the folders of packages of an interpreter, with those that its .pth files add."""
    prefix = python.parent.parent
    settings = _settings(prefix)
    prefixes = [prefix] if settings or (prefix / "conda-meta").is_dir() else []
    if settings.get("include-system-site-packages") == "true" and "home" in settings:
        prefixes.append(Path(settings["home"]).parent)
    if not prefixes:
        prefixes = [_behind_shim(python, folder).resolve().parent.parent, Path.home() / ".local"]
    found = [site for each in prefixes for site in _sites(each)]
    for file in [each for site in found for each in site.glob("*.pth")]:
        with suppress(OSError):
            lines = file.read_text(errors="replace").splitlines()
            found += [file.parent / line for line in lines if line.strip() and not line.startswith(("#", "import "))]
    return found


def _has(sites: Sequence[Path], name: str) -> bool:
    return any(
        (site / name).is_dir()
        or any(site.glob(f"{name}.*"))
        or any(f"'{name}'" in each.read_text(errors="replace") for each in site.glob("__editable__*.py"))
        for site in sites
    )


def _imported(script: Path, beside: Sequence[Path]) -> Iterator[str]:
    """Yield the packages that a script, and the modules beside it that it imports, import without a condition."""
    files, seen = [script / "__main__.py" if script.is_dir() else script], set[Path]()
    while files and len(seen) < MOST_FILES:
        file = files.pop(0)
        if file in seen:
            continue
        seen.add(file)
        with suppress(OSError):
            for module in _imports(file, file.stat().st_mtime_ns):
                name, _, rest = module.partition(".")
                local = next(
                    (each for each in beside if (each / name).is_dir() or (each / f"{name}.py").is_file()), None
                )
                if local is None and name not in sys.stdlib_module_names:
                    yield name
                elif local is not None:
                    place = local.joinpath(name, *rest.split(".")) if rest else local / name
                    files += [each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()]


@lru_cache(256)
def _imports(file: Path, _written_at: int) -> tuple[str, ...]:
    """Return the absolute modules that a file imports at its top, outside of `try` and `if`."""
    with suppress(SyntaxError, ValueError, RecursionError):
        found: list[str] = []
        for each in ast.parse(file.read_bytes()).body:
            if isinstance(each, ast.Import):
                found += [alias.name for alias in each.names]
            elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
                found.append(each.module)
        return tuple(found)
    return ()
