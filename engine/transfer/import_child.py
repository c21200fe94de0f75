"""The process of one import: reads its request from standard input, limits itself, and answers in JSON on standard
output.

Started by `engine.transfer.import_process`. A hostile file can crash only this process, not the console or the command
line.
"""

import json
import math
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from engine.errors import EngineError
from engine.home import Home
from engine.store import Store
from engine.system.processes import die_with_parent
from engine.transfer.archives import shown
from engine.transfer.run_import import import_path

MOST_NOTES = 1_000


def main() -> None:
    """Execute the import request from standard input."""
    asked = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not reach the answer
    die_with_parent(asked["parent"])
    _limit(asked["memory_bytes"], asked["time_s"])
    json.dump(_carry_out(asked), answer)
    answer.close()


def _carry_out(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        with Store.open(Home(Path(asked["home"]))) as store:
            found = import_path(store, Path(asked["path"]), by=asked["by"], name=asked["name"])
    except EngineError as error:
        return {"error": type(error).__name__, "sentence": str(error)}
    except MemoryError:
        needs = (
            f"{shown(asked['name'])} needs more than the import's memory limit of "
            f"{asked['memory_bytes'] / 1e9:,.2g} GB."
        )
        return {"error": "ImportRefused", "sentence": f"{needs} Nothing was imported. Import fewer runs at a time."}
    notes = [
        *found.notes[:MOST_NOTES],
        *([f"{len(found.notes) - MOST_NOTES:,} more notes omitted."] if len(found.notes) > MOST_NOTES else []),
    ]
    return {"ids": found.ids, "known": dict(found.known), "notes": notes, "sweeps": found.sweeps}


def _limit(memory_bytes: int, time_s: float) -> None:
    """Limit this process's memory, beyond its current use, and its CPU time; on systems without such limits, only the
    parent's timeout applies.
    """
    seconds = math.ceil(time_s) + 1
    for kind, most in (
        (resource.RLIMIT_AS, psutil.Process().memory_info().vms + memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
