"""Checks of the machine: cores, memory, shared memory, open files, network, clock, programs of tests."""

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil

from engine.access.quotas import ALLOW_HOST_NETWORK, GB, MB
from engine.access.quotas import size as in_bytes
from engine.errors import counted
from engine.home import ROOT, Home
from engine.store import Reader
from engine.system.confinement import CONFINEMENT_WORDS, machine_confinement
from engine.system.network_isolation import LEVEL_WORDS, machine_level
from engine.system.out_of_memory import memory_limit

# ---- One finding of the doctor: state, description, and cure if needed ---------------------------------------------

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One finding; `fail`: it must be fixed before runs can work, `warn`: some runs fail or are slow."""

    name: str
    state: State
    sentence: str
    cure: str = ""


# ---- Machine -------------------------------------------------------------------------------------------------------

RANK_MB = 600
"""Approximate memory of one rank with torch loaded."""
SHARED_LEAST, SHARED_ENOUGH = 256 * MB, 1 * GB
FILES_LEAST, FILES_ENOUGH = 256, 1024
CLOCK_SLACK_S = 5.0
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of the browser; any of them serves the tests."""
PROGRAMS = {
    CHROMIUM[0]: "chromium-headless-shell fonts-dejavu-core",
    "nginx": "nginx-light",
    "caddy": "caddy",
    "systemd-analyze": "systemd",
}
"""Programs that only the project's own tests need, and the packages of Debian that contain them."""


def cores_and_memory() -> Finding:
    """Check the cores and memory that ranks share."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = min(psutil.virtual_memory().available, _group_limit())
    text = (
        f"{counted(cores, 'core')}, {free / GB:.1f} GB of memory free: enough for about "
        f"{counted(free // (RANK_MB * MB), 'rank')}."
    )
    if limit := memory_limit():
        return Finding(
            "cores and memory",
            "warn",
            f"{text} {limit}",
            "Start Parallab without that limit: a process maps several times the memory that it uses.",
        )
    if free < 3 * RANK_MB * MB:
        return Finding(
            "cores and memory",
            "warn",
            text,
            "A run of two ranks needs about 2 GB: close other programs, or give the container more memory.",
        )
    return Finding("cores and memory", "ok", text)


def _group_limit() -> int:
    """Return the memory left under a container's limit; without one, a very large number."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            folder = Path("/sys/fs/cgroup")
            return max(0, int((folder / limit).read_text()) - int((folder / used).read_text()))
        except (OSError, ValueError):
            continue
    return sys.maxsize


def shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    """Check the free space for shared tensors."""
    if not folder.is_dir():
        if platform.system() == "Linux":
            return Finding(
                "shared memory", "fail", f"{folder} doesn't exist.", f"Mount it: mount -t tmpfs tmpfs {folder}."
            )
        return Finding("shared memory", "ok", "This system needs no folder for shared memory.")
    found = os.statvfs(folder)
    return judge_shared_memory(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, folder)


def judge_shared_memory(free: int, size: int, folder: Path) -> Finding:
    """Judge whether the data sets and weights of a run fit into `free` bytes."""
    text = f"{in_bytes(free)} of {in_bytes(size)} free in {folder}."
    cure = f"Increase its size: with Docker --shm-size=2g, otherwise mount -o remount,size=2G {folder}."
    if free < SHARED_LEAST:
        return Finding(
            "shared memory",
            "fail",
            (f"Only {text} A run with MNIST in shared memory needs about {SHARED_LEAST // MB} MB."),
            cure,
        )
    if free < SHARED_ENOUGH:
        return Finding("shared memory", "warn", f"{text} Several runs at once may fill it.", cure)
    return Finding("shared memory", "ok", text)


def open_files() -> Finding:
    """Check the limit on open files, which shared tensors and channels of ranks need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= FILES_ENOUGH:
        return Finding(
            "open files",
            "ok",
            f"A process may open {'any number of' if soft == resource.RLIM_INFINITY else soft} files.",
        )
    most = "" if hard == resource.RLIM_INFINITY else f" (up to {hard} without an administrator)"
    state: State = "fail" if soft < FILES_LEAST else "warn"
    return Finding(
        "open files",
        state,
        f"A process may open only {soft} files; runs of many ranks need more.",
        f"Raise the limit before starting the console: ulimit -n 4096{most}.",
    )


def network(home: Home) -> Finding:
    """Try to create a network namespace, as for ranks, whose open ports have no authentication."""
    level, why = machine_level()
    with Reader.open(home) as reader:
        runner = reader.runner.current()
    if level != "host" and runner and runner.network == "host":
        return Finding(
            "network",
            "warn",
            (
                f"Ranks of the runner (pid {runner.process.pid}) listen on {LEVEL_WORDS['host']}, although this "
                "process can create a namespace."
            ),
            (
                "Start the runner in an environment that allows namespaces. As a service: copy the units of "
                "deploy/systemd again (RestrictNamespaces=user net mnt), then systemctl daemon-reload and restart "
                "parallab-runner."
            ),
        )
    if level != "host":
        return Finding("network", "ok", f"Ranks listen on {LEVEL_WORDS[level]}.")
    cure = (
        "Allow network namespaces for the runner's user: sysctl user.max_net_namespaces above 0, user "
        "namespaces for ordinary users "
        "(Debian: kernel.unprivileged_userns_clone=1; Ubuntu 24.04: "
        "kernel.apparmor_restrict_unprivileged_userns=0), and in a systemd unit "
        "RestrictNamespaces=user net mnt. Otherwise launch with transport shared_memory, or accept the risk: "
        f"{ALLOW_HOST_NETWORK}"
    )
    return Finding(
        "network",
        "warn",
        f"Ranks listen on {LEVEL_WORDS[level]}, who could run commands as this user: can't create a namespace ({why}).",
        cure,
    )


def confinement() -> Finding:
    """Check what the commands of the lab's own scripts can reach."""
    level, why = machine_confinement()
    if level == "sandbox":
        return Finding("commands", "ok", f"The lab's own scripts run in a sandbox: {CONFINEMENT_WORDS[level]}.")
    cure = (
        "Allow user and mount namespaces for the runner's user (Debian: kernel.unprivileged_userns_clone=1; Ubuntu "
        "24.04: kernel.apparmor_restrict_unprivileged_userns=0; in a systemd unit RestrictNamespaces=user net mnt), or "
        "accept it: who may run commands can then read and change the lab's files."
    )
    return Finding("commands", "warn", f"The lab's own scripts have {CONFINEMENT_WORDS[level]} ({why}).", cure)


def clock(home: Home) -> Finding:
    """Compare the clock with the code's date and with the clock of the store's file system."""
    newest = max(path.stat().st_mtime for path in (ROOT / "engine").glob("*.py"))
    probe = home.path / ".clock"
    now = time.time()
    probe.touch()
    touched, later = probe.stat().st_mtime, time.time()
    probe.unlink()
    apart = max(now - touched, touched - later)  # distance to the interval of the write, however long that took
    text = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC"
    cure = "Synchronize the clock: timedatectl set-ntp true."
    if now < newest - CLOCK_SLACK_S:
        return Finding(
            "clock", "fail", f"{text} is earlier than the date of this code: times of runs will be wrong.", cure
        )
    if apart > CLOCK_SLACK_S:
        return Finding(
            "clock",
            "warn",
            f"{text} differs by {apart:.0f} s from the clock of the file system of {home.path}.",
            cure,
        )
    return Finding("clock", "ok", f"{text}.")


def program(name: str) -> str | None:
    """Return the path of one of PROGRAMS, or None."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # not on the PATH of an ordinary user of Debian
    names = CHROMIUM if name in CHROMIUM else (name,)
    return next((found for each in names if (found := shutil.which(each, path=path))), None)


def installation(missing: Iterable[str]) -> str:
    """Return the command that installs some of PROGRAMS."""
    return f"apt install {' '.join(PROGRAMS[name] for name in missing)}"


def test_programs() -> Finding:
    """Check for the programs that only the project's own tests need."""
    missing = [name for name in PROGRAMS if program(name) is None]
    needed = "only the project's own tests need them"
    return Finding(
        "test programs",
        "ok",
        f"Not found: {', '.join(missing)} ({installation(missing)}); {needed}."
        if missing
        else f"{', '.join(PROGRAMS)} are available; {needed}.",
    )
