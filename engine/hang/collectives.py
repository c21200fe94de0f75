"""torch's own record of a rank's collectives, its "flight recorder" for gloo and NCCL, kept beside the rank's stacks.

Format: JSON with the fields `entries` (with `collective_seq_id`, `profiling_name`, `input_sizes`, `retired`) and
`pg_status`, as torch 2.15 writes them. Only text is written and read, never a pickle.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.hang.stacks import FOLDER

VARIABLE, ENTRIES = "TORCH_FR_BUFFER_SIZE", "200"
"""torch keeps that many collectives of a process: 1.3 µs each, and none by default."""
DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
SHOWN = 10


def collectives_file(folder: Path, role: str) -> Path:
    """Return the file for a rank's collectives."""
    return folder / FOLDER / f"{role}.collectives.json"


def record_collectives() -> None:
    """Have torch record this process's collectives; call before the first of them."""
    os.environ.setdefault(VARIABLE, ENTRIES)


def write_collectives(folder: Path, role: str) -> None:
    """Write what torch has recorded in this process, if it has recorded anything and can tell it."""
    library = sys.modules.get("torch._C._distributed_c10d")
    recorded = []
    for dump in filter(None, (getattr(library, name, None) for name in DUMPS)):
        with suppress(RuntimeError, TypeError, ValueError):  # of another version of torch
            recorded.append(json.loads(dump(includeCollectives=True)))
    if any(each.get("entries") for each in recorded):
        path = collectives_file(folder, role)
        new = path.with_suffix(".new")
        with suppress(OSError):  # a full disk
            new.write_text(json.dumps(recorded))
            new.replace(path)


def last_collectives(folder: Path, role: str) -> str:
    """Return the newest collectives in words, a line each; empty if none are kept."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return "\n".join(_lines(json.loads(collectives_file(folder, role).read_text())))
    return ""


def _lines(recorded: list[dict[str, Any]]) -> Iterator[str]:
    for group in recorded:
        for entry in group.get("entries", [])[-SHOWN:]:
            done = "completed" if entry["retired"] else "not completed"
            yield f"{entry['profiling_name']} #{entry['collective_seq_id']} {entry['input_sizes']}: {done}"
