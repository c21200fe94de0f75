"""`python -m engine …`: the command line."""

import re
import sys
from pathlib import Path

REQUIRED = Path(__file__).resolve().parents[1] / "requirements.txt"
IMPORTED_AS = {
    "nvidia-ml-py": "pynvml",
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "protobuf": "google",
    "argon2-cffi": "argon2",
}
"""Modules whose packages have other names."""


def required_modules() -> set[str]:
    """Return the modules of the packages that Parallab requires. Any other missing module is one of our own, or part of
    a package that is incomplete: a fault with a traceback.
    """
    packages = re.findall(r"^[\w-]+", REQUIRED.read_text(), re.MULTILINE)
    return {IMPORTED_AS.get(package, package.replace("-", "_")) for package in packages}


if __name__ == "__main__":
    try:
        from engine.cli import main

        main(prog_name="python -m engine")
    except ModuleNotFoundError as error:
        if sys.prefix != sys.base_prefix or error.name not in required_modules():
            raise  # in a virtual environment it is another fault
        sys.exit(
            f"{sys.executable} lacks the package {error.name}. Activate the environment of Parallab (source "
            ".venv/bin/activate), or use .venv/bin/python -m engine."
        )
