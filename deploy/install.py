"""Install Parallab's packages into the current Python: from the lock file of its version with hashes, otherwise from
requirements.txt.

Needs only the standard library. `--torch-index` installs torch from another index, such as that of its CPU wheels,
without CUDA.
"""

import argparse
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
FOR_GPUS = re.compile(r"torch|torchvision|triton|nvidia-.*|cuda-.*")
"""Packages that a CPU index has in another version, and packages that only the CUDA build needs."""
KEPT = {"nvidia-ml-py"}
"""GPU-related packages that every build needs."""
PINNED = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)")


def lock_of(version: tuple[int, int], system: str, processor: str, *, dev: bool) -> Path:
    """Return the path of the lock file for a Python; it may not exist."""
    return LOCKS / f"python{version[0]}.{version[1]}-{system.lower()}-{processor}{'-dev' if dev else ''}.txt"


def pinned(lock: str) -> dict[str, str]:
    """Return the version of each package in a lock file."""
    return {found[1]: found[2] for line in lock.splitlines() if (found := PINNED.match(line))}


def without_gpus(lock: str) -> str:
    """Return a lock file without torch and the packages that only its CUDA build needs."""
    kept, keeping = [], True
    for line in lock.splitlines():
        if found := PINNED.match(line):
            keeping = found[1] in KEPT or not FOR_GPUS.fullmatch(found[1])
        if keeping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def install(lock: Path, torch_index: str) -> None:
    """Install the packages of a lock file. With `torch_index`, torch comes from there, pinned by version only: the lock
    has no hash of that build.
    """
    if not torch_index:
        _pip("--require-hashes", "-r", str(lock))
        return
    text = lock.read_text()
    with tempfile.TemporaryDirectory() as folder:
        rest = Path(folder) / "locked.txt"
        rest.write_text(without_gpus(text))
        _pip("--require-hashes", "-r", str(rest))
    versions = pinned(text)
    _pip("--no-deps", "--index-url", torch_index, *(f"{name}=={versions[name]}" for name in ("torch", "torchvision")))


def main() -> None:
    """Install, and report a missing lock file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dev", action="store_true", help="also install packages for checks and tests")
    options.add_argument("--torch-index", default="", help="package index for torch and torchvision")
    chosen = options.parse_args()
    lock = lock_of(sys.version_info[:2], platform.system(), platform.machine(), dev=chosen.dev)
    if lock.is_file():
        install(lock, chosen.torch_index)
        return
    plain = ROOT / ("requirements-dev.txt" if chosen.dev else "requirements.txt")
    about = f"Python {sys.version_info.major}.{sys.version_info.minor} on {platform.system()} {platform.machine()}"
    print(
        (f"No lock file for {about}: installing the newest matching versions from {plain.name}, without hashes."),
        file=sys.stderr,
    )
    if chosen.torch_index:
        _pip("--index-url", chosen.torch_index, "torch", "torchvision")
    _pip("-r", str(plain))


def _pip(*words: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words])
    if ended.returncode:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
