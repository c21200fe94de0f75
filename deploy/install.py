"""Installs what Parallab needs into the Python that runs this: by the lock file of its version, each file held to its
hash; else by requirements.txt.

Needs nothing but the standard library. `--torch-index` takes torch from another index, such as that of its CPU wheels,
and leaves CUDA out.
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
"""What an index of CPU wheels has in a version of its own, and what only the CUDA build needs."""
KEPT = {"nvidia-ml-py"}
"""Asks for GPUs where there may be none: needed in any build."""
PINNED = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)")


def lock_of(version: tuple[int, int], system: str, processor: str, *, dev: bool) -> Path:
    """Return where the lock file for a Python lies, whether there is one or not."""
    return LOCKS / f"python{version[0]}.{version[1]}-{system.lower()}-{processor}{'-dev' if dev else ''}.txt"


def pinned(lock: str) -> dict[str, str]:
    """Return the version of each package that a lock file names."""
    return {found[1]: found[2] for line in lock.splitlines() if (found := PINNED.match(line))}


def without_gpus(lock: str) -> str:
    """Return a lock file without torch and what only its CUDA build needs."""
    kept, keeping = [], True
    for line in lock.splitlines():
        if found := PINNED.match(line):
            keeping = found[1] in KEPT or not FOR_GPUS.fullmatch(found[1])
        if keeping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def install(lock: Path, torch_index: str) -> None:
    """Install what a lock file names; with `torch_index` torch comes from there, by version alone: the lock knows no
    hash of that build.
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
    """Install, and say so where it can't be by a lock file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dev", action="store_true", help="what checks and tests need as well")
    options.add_argument("--torch-index", default="", help="the index that torch and torchvision come from instead")
    chosen = options.parse_args()
    lock = lock_of(sys.version_info[:2], platform.system(), platform.machine(), dev=chosen.dev)
    if lock.is_file():
        install(lock, chosen.torch_index)
        return
    plain = ROOT / ("requirements-dev.txt" if chosen.dev else "requirements.txt")
    about = f"Python {sys.version_info.major}.{sys.version_info.minor} on {platform.system()} {platform.machine()}"
    print(
        (
            f"There is no lock file for {about}: {plain.name} is installed, in the newest versions that fit, "
            "without hashes."
        ),
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
