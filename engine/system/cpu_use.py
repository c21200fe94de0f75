"""What the kernel counts of CPU time: of processes, of cores by anyone, and what was withheld. Torch-free; Linux only.

Source: proc(5), and the kernel's documentation of cgroup v2 (cpu.stat) and of pressure stall information (PSI).
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class CoreUse:
    """Counters of some cores since boot, in seconds of CPU time."""

    used_s: float
    """Spent by processes of anyone, without interrupts."""
    stolen_s: float
    """Withheld by the host of a virtual machine."""


@dataclass(frozen=True)
class ProcessUse:
    """Counters of some processes and of their children that have ended."""

    cpu_s: float
    faults: int
    """Major page faults: those that waited for a disk."""


def core_use(cores: Collection[int]) -> CoreUse | None:
    """Return the counters of some cores; None if the system doesn't show them, or shows those of a container only."""
    if _is_hidden():
        return None
    try:
        every = psutil.cpu_times(percpu=True)
    except OSError:
        return None
    # psutil counts guests in user and nice, as the kernel does.
    found = [every[core] for core in cores if core < len(every)]
    if not found:
        return None
    return CoreUse(
        sum(each.user + getattr(each, "nice", 0.0) + each.system for each in found),
        sum(getattr(each, "steal", 0.0) for each in found),
    )


def process_use(pids: Iterable[int]) -> ProcessUse | None:
    """Return the sum of the counters of processes, skipping those that are gone; None off Linux."""
    if not PROC.joinpath("self", "stat").exists():
        return None
    tick = os.sysconf("SC_CLK_TCK")
    cpu_s, faults = 0.0, 0
    for pid in pids:
        try:
            fields = PROC.joinpath(str(pid), "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        faults += int(fields[9]) + int(fields[10])
        cpu_s += sum(map(int, fields[11:15])) / tick
    return ProcessUse(cpu_s, faults)


def throttled_s() -> float | None:
    """Return the seconds during which this process's cgroup was not allowed to run; None without a limit."""
    for line in _lines(CGROUP / "cpu.stat"):
        name, _, value = line.partition(" ")
        if name == "throttled_usec":
            return int(value) / 1e6
    return None


def memory_pressure_s() -> float | None:
    """Return the seconds during which some process waited for memory; None if the kernel doesn't count them."""
    for line in _lines(PROC / "pressure" / "memory"):
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def thermal_events(cores: Collection[int]) -> int | None:
    """Return how often the cores were slowed down because they were hot; None if not readable."""
    counts = [_lines(CPU / f"cpu{core}" / "thermal_throttle" / "core_throttle_count") for core in cores]
    return sum(int(lines[0]) for lines in counts if lines) if any(counts) else None


def programs(but: Collection[int]) -> Mapping[int, tuple[str, float]]:
    """Return name and CPU time (s) of each visible process except `but`, by pid."""
    found = {}
    for process in psutil.process_iter():
        if process.pid in but:
            continue
        try:
            with process.oneshot():
                times = process.cpu_times()
                found[process.pid] = (_name(process), times.user + times.system)
        except psutil.Error:
            continue
    return found


def _name(process: psutil.Process) -> str:
    """Return a program's name; for Python also its module or script, never an argument, which may be secret."""
    name = process.name()
    if not name.startswith("python"):
        return name
    try:
        words = process.cmdline()
    except psutil.Error:
        return name
    for at, word in enumerate(words[1:], start=1):
        if word == "-m" and at + 1 < len(words):
            return f"{name} -m {words[at + 1]}"
        if word == "-c":
            return name
        if not word.startswith("-"):
            return f"{name} {Path(word).name}"
    return name


def _is_hidden() -> bool:
    """Return whether a file system of the container replaces the machine's counters by the container's."""
    return any(" /proc/stat " in line and "lxcfs" in line for line in _lines(PROC / "self" / "mounts"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
