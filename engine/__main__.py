"""`python -m engine …`: the command line."""

import sys

if __name__ == "__main__":
    try:
        from engine.cli import main

        main(prog_name="python -m engine")
    except ModuleNotFoundError as error:
        if sys.prefix != sys.base_prefix:  # in a virtual environment it is another fault
            raise
        sys.exit(
            f"{sys.executable} lacks the package {error.name}. Activate the environment of Parallab (source "
            ".venv/bin/activate), or use .venv/bin/python -m engine."
        )
