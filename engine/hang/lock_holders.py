"""Which rank holds a lock of the run, from the kernel's table of file locks: taking a lock costs nothing for it."""

from collections.abc import Collection, Mapping
from pathlib import Path

from engine.system.run_files import LOCK_SUFFIX

TABLE = Path("/proc/locks")


def holders(folder: Path, names: Collection[str], ranks: Mapping[int, int]) -> dict[str, int]:
    """Return the rank that holds each of these locks, if one does; `ranks` are by process id."""
    by_inode = {}
    for name in names:
        try:
            by_inode[(folder / f"{name}{LOCK_SUFFIX}").stat().st_ino] = name
        except OSError:
            continue
    try:
        lines = TABLE.read_text().splitlines() if by_inode else []
    except OSError:  # not Linux
        return {}
    found = {}
    for words in map(str.split, lines):
        if "->" in words or len(words) < 6:  # a process that waits for the lock above
            continue
        pid, inode = words[4], words[5].rpartition(":")[2]
        if inode.isdecimal() and int(inode) in by_inode and int(pid) in ranks:
            found[by_inode[int(inode)]] = ranks[int(pid)]
    return found
