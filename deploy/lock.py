"""`make lock`: write the lock files with the newest matching versions and hashes, using uv.

A lock file applies to one Python version on one platform: those that the tests run on.
"""

import os
import subprocess
from pathlib import Path

from deploy.install import LOCKS, ROOT, lock_of

TRIED = ((3, 11),)
"""Python versions on which all tests have passed."""
PLATFORM = "x86_64-manylinux_2_28"


def compile_lock(version: tuple[int, int], *, dev: bool) -> Path:
    """Write one lock file and return its path. The development file agrees with the plain one; versions that still
    match are kept.
    """
    lock = lock_of(version, "Linux", "x86_64", dev=dev)
    source = "requirements-dev.txt" if dev else "requirements.txt"
    words = [
        "pip",
        "compile",
        source,
        "--generate-hashes",
        "--no-emit-index-url",
        "--custom-compile-command",
        "make lock",
        "--quiet",
    ]
    target = ["--python-version", f"{version[0]}.{version[1]}", "--python-platform", PLATFORM]
    plain = ["--constraints", str(lock_of(version, "Linux", "x86_64", dev=False).relative_to(ROOT))] if dev else []
    renewed = ["--upgrade"] if os.environ.get("UPGRADE") else []
    subprocess.run(
        ["uv", *words, *target, *plain, *renewed, "--output-file", str(lock.relative_to(ROOT))], cwd=ROOT, check=True
    )
    return lock


def main() -> None:
    """Write all lock files."""
    LOCKS.mkdir(exist_ok=True)
    for version in TRIED:
        for dev in (False, True):
            print(compile_lock(version, dev=dev).relative_to(ROOT))


if __name__ == "__main__":
    main()
