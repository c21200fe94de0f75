"""Why a command failed, from its exit code and the last lines of its log, with the cure. Torch-free."""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from engine.errors import cut
from engine.runtime.command.start import Start
from engine.system.out_of_memory import gpu_failure, kernel_kills, kill_cause, memory_cause

_PREFIX = re.compile(r"^\[rank\d+\]:\s?", re.M)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_MODULE = re.compile(r"No module named '([\w.]+)'")
_EXIT = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+) \(pid: (\d+)\)")
_MISSING_PROGRAM = re.compile(r"(?:env: |: )\W?([\w./+-]+)\W?: (?:No such file or directory|(?:command )?not found)")
SHOWN = 300


class RankExit(NamedTuple):
    """How a rank ended, as torchrun reports it."""

    rank: int
    code: int
    pid: int


def rank_exits(text: str) -> list[RankExit]:
    """Return the failed ranks that torchrun lists at its end, the root cause first."""
    _, found, root = text.rpartition("Root Cause (first observed failure):")
    listed = [RankExit(*map(int, each)) for each in _EXIT.findall(text)]
    first = [RankExit(*map(int, each)) for each in _EXIT.findall(root)] if found else []
    return [*first, *(each for each in listed if each not in first)]


def cause_of(text: str, code: int, start: Start, kills: int | None) -> str:
    """Return why a process failed, as a sentence with a leading space; empty if its last lines don't say it.

    `kills` is the kernel's count of processes killed for memory before the run.
    """
    text = _PREFIX.sub("", text)
    if failed := gpu_failure(text, ""):
        return f" It {failed}"
    if code == -signal.SIGKILL and (killed := kill_cause(kills, kernel_kills())):
        return killed
    if found := memory_cause(text):
        return found
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return " It could not write: the disk is full. Free space where it writes, and launch the run again."
    raised = _raised(text.splitlines())
    if found := _known_exception(raised, start):
        return found
    if "ddress already in use" in text:
        return " It could not listen: the port is in use. Let it take a free one, such as that in MASTER_PORT."
    if raised:
        return f" {cut(raised, SHOWN)}{'' if raised.endswith(('.', '!', '?')) else '.'}"
    if code == 127 and (missing := _MISSING_PROGRAM.search(text)):
        return f" It did not find the program '{missing[1]}'. Install it, or correct the PATH of the runner."
    if code == 126:
        return " A program in it is not executable. Make it so with chmod +x."
    return ""


def _known_exception(raised: str, start: Start) -> str:
    """Return an exception with its cure; empty for one without."""
    if module := _MODULE.search(raised):
        name = module[1].partition(".")[0]
        python = start.interpreter or "its interpreter"
        return (
            f" {cut(raised, SHOWN)}. Install '{name}' for {python}, or use an interpreter that has it: clone the run "
            "and choose it under Interpreter, or name it with --python."
        )
    if raised.startswith("FileExistsError") or "to NOT exist" in raised:  # the second is LightningCLI's
        return (
            f" {cut(raised, SHOWN).rstrip('.')}. If another run of the script wrote there at the same time, repeat "
            "this one, or run them one at a time: --exclusive."
        )
    return ""


def _raised(lines: Sequence[str]) -> str:
    """Return the last line of the last traceback, the type and message of the exception; empty without one."""
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    for line in lines[starts[-1] + 1 :] if starts else ():
        if line[:1].strip() and _RAISED.fullmatch(line):
            return line.rstrip()
    return ""
