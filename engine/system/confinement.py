"""Confinement of a command of the lab's own script: what its processes can reach of the lab. Torch-free.

The home is hidden from them, but for the run's folder and the data sets: the store, the secrets, other runs. So are the
memory, the environment and the files of processes outside, such as the worker. All else is as in the person's shell:
network, devices, /tmp, /dev/shm, processes. It takes a user and a mount namespace, which some systems refuse; the
command then has the level `environment`. Another program of the same user that starts processes (cron, the user's
systemd, ssh to this machine) starts them outside.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from engine.home import Home
from engine.system.network_isolation import libc_call, tried, why_not_here

ConfinementLevel = Literal["sandbox", "environment"]
CONFINEMENT_WORDS: dict[ConfinementLevel, str] = {
    "sandbox": "the lab's database, secrets and other runs are hidden from it",
    "environment": "no secrets in the environment, but the lab's home can be read and changed",
}
CONFINEMENT = "PARALLAB_CONFINEMENT"
"""Set to off for the runner, no command is confined: for programs that need to be root of the machine, or setuid."""
_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x20000  # clone(2)
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19  # mount(2)
_RELATIVE_TIMES = 1 << 21
_DROP_BOUND, _MAY_MOUNT = 24, 21  # prctl(2), capabilities(7)
_TMPFS = b"mode=0755,size=64k"


@dataclass(frozen=True)
class Confinement:
    """What a command's processes can reach of the lab."""

    level: ConfinementLevel
    why: str = ""
    """Why they are not in a sandbox; empty if they are."""
    hidden: tuple[Path, ...] = ()
    """Folders of which they see nothing but what is kept."""
    kept: tuple[Path, ...] = ()
    data: Path | None = None
    """Kept too, but read-only."""

    def __str__(self) -> str:
        return f"{self.level}: {CONFINEMENT_WORDS[self.level]}{f' ({self.why})' if self.why else ''}"

    def enter(self) -> None:
        """Confine this process, which is about to become the command: between fork and exec. Raises OSError."""
        if self.level != "sandbox":
            return
        folder = Path.cwd()
        _enter_namespaces()
        opened = {path: os.open(path, os.O_PATH) for path in (*self.kept, *([self.data] if self.data else []))}
        for path in self.hidden:
            _mount("tmpfs", path, _NO_SETUID | _NO_DEVICES, "tmpfs", _TMPFS)
        for path, descriptor in opened.items():
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, _BIND | _RECURSIVE)
            os.close(descriptor)
        for path in self.hidden:
            _mount(None, path, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
        if self.data:
            _mount(None, self.data, _REMOUNT | _BIND | _READ_ONLY | _flags(self.data))
        os.chdir(folder)
        libc_call("prctl", _DROP_BOUND, _MAY_MOUNT, 0, 0, 0)  # root keeps all else; for others exec drops it

    def why_not(self) -> str:
        """Enter it, and return whether the home isn't hidden there; empty if it is."""
        self.enter()
        hides = not any(Home(each).database.exists() for each in self.hidden) and os.access(self.kept[0], os.W_OK)
        return "" if hides else "the namespace does not hide the home"


def confinement(home: Home, run_folder: Path, folder: Path, further: Iterable[Path] = ()) -> Confinement:
    """Return the best confinement that works here for a command that starts in `folder`; a forked process tries it.
    Folders `further` are hidden too, where they are on this machine.
    """
    if os.environ.get(CONFINEMENT) == "off":
        return Confinement("environment", f"{CONFINEMENT} is off")
    lab, run, folder = home.path.resolve(), run_folder.resolve(), folder.resolve()
    hidden: list[Path] = []
    # The folder of the runs may be a link, as to a larger disk.
    folders = (lab, run.parent, *(path.resolve() for path in further if path.is_dir()))
    for each in folders:
        if not any(each.is_relative_to(other) for other in hidden):
            hidden = [*(other for other in hidden if not other.is_relative_to(each)), each]
    if folder in folders:
        return Confinement("environment", f"the command starts in {folder}, which belongs to the lab's home")
    kept = {run: True} | ({folder: True} if any(folder.is_relative_to(each) for each in hidden) else {})
    data = home.data.resolve()
    shown = data if data.is_dir() and any(data.is_relative_to(each) for each in hidden) else None
    wanted = Confinement("sandbox", "", tuple(hidden), tuple(kept), shown)
    why = tried(wanted.why_not)
    return Confinement("environment", why) if why else wanted


@cache
def machine_confinement() -> tuple[ConfinementLevel, str]:
    """Return the level of commands that this user starts here, tested in a separate process, and why it is no sandbox
    (or "").
    """
    why = why_not_here("engine.system.confinement")
    return ("environment", why) if why else ("sandbox", "")


def _enter_namespaces() -> None:
    """Enter a new user and mount namespace. Root, whose processes may be several users, keeps all users and groups."""
    user, group = os.geteuid(), os.getegid()
    if user != 0:
        libc_call("unshare", _NEW_USER | _NEW_MOUNTS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    else:
        _keep_all_users()
    _mount(None, Path("/"), _RECURSIVE | _SLAVE)


def _keep_all_users() -> None:
    """Enter the namespaces with all users of this one, which a process that stays outside has to write."""
    me, (go, started) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(BaseException):
            os.close(started)
            os.read(go, 1)
            for name in ("uid_map", "gid_map"):
                ranges = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
                Path(f"/proc/{me}/{name}").write_text("".join(f"{low} {low} {count}\n" for low, _, count in ranges))
            code = 0
        os._exit(code)
    os.close(go)
    try:
        libc_call("unshare", _NEW_USER | _NEW_MOUNTS)
    finally:
        os.close(started)
        _, status = os.waitpid(pid, 0)
    if status:
        raise PermissionError("the users of a namespace can't be set")


def _mount(source: str | None, target: Path, flags: int, kind: str | None = None, options: bytes | None = None) -> None:
    words = [None if word is None else ctypes.c_char_p(os.fsencode(word)) for word in (source, target, kind)]
    libc_call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), options)


def _flags(path: Path) -> int:
    """Return the flags of a mount, which a remount in a user namespace has to keep."""
    found = os.statvfs(path).f_flag
    same = os.ST_RDONLY | os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
    return (found & same) | (_RELATIVE_TIMES if found & os.ST_RELATIME else 0)


def _why_none_here() -> str:
    """Return why a command would not be in a sandbox here; empty if it would."""
    with TemporaryDirectory() as folder:
        home = Home(Path(folder, "home"))
        home.run_folder(1).mkdir(parents=True)
        home.database.touch()
        return confinement(home, home.run_folder(1), Path(folder)).why


def become(home: Path, folder: Path, argv: Sequence[str]) -> None:
    """Replace this process by a program that is confined to a folder where the machine allows it; raises OSError."""
    os.chdir(folder)
    confinement(Home(home), folder, folder).enter()
    os.execv(argv[0], list(argv))


if __name__ == "__main__":
    if sys.argv[1:]:
        become(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    print(_why_none_here())
