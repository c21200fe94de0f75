"""Finds the event files that the processes of a run write."""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from platform import node

MARK = "tfevents"
SCAN_S, MOST_ENTRIES, DEEPEST, SLICE_S = 1.0, 50_000, 8, 0.01
"""Seconds between looks at the folders, entries per look, depth, and seconds of a look per poll."""
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "venv", "env", "wandb", "mlruns"}
_PARTS = re.compile(r"tfevents\.(?P<time>\d+)(?:\.(?P<host>.*?)(?:\.(?P<pid>\d+)\.\d+)?(?:\.v2)?)?$")
_SPLITS = {"train", "training", "val", "valid", "validation", "test", "eval", "evaluation"}
_HPARAMS = re.compile(r"\d{9,}\.\d+")


class EventFolders:
    """Looks for event files of a run: all in its own folder; in the others those that its processes wrote.

    A file belongs to the process that its name has, or else to one that holds it open. Who wrote a file of a process
    that has ended unseen is decided at the end: the run, unless another run beside it has taken it.
    """

    def __init__(
        self,
        run_folder: Path,
        folders: Collection[Path],
        since: float,
        pids: Callable[[], Mapping[int, int]],
        is_taken: Callable[[Path], bool],
        takes_all: bool,
        host: str,
    ) -> None:
        self.run_folder, self.folders, self.since, self.host = run_folder, folders, since, host
        self._pids, self._is_taken, self._takes_all = pids, is_taken, takes_all
        self.writers = set[int]()
        """Processes of this machine that are in the names of the run's files."""
        self._known_pids = dict[int, int]()
        """The ranks of the run's processes, by pid."""
        self._decided = set[str]()
        self._open = set[str]()
        self._walk: Iterator[str] | None = None
        self._next_at = self._began_at = 0.0
        self._bases: dict[Path, Path] = {}
        """The folder of the first file in each of the folders: its tags are names as they are."""

    def new(self, final: bool) -> list[tuple[Path, int | None, str]]:
        """Return new files of the run with their ranks and the prefixes of their names."""
        now, found = time.monotonic(), list[str]()
        self._known_pids.update(self._pids())
        if self._walk is None and (final or now >= self._next_at):
            self._walk, self._began_at = self._files(), now
        for path in self._walk or ():
            if path not in self._decided:
                found.append(path)
            if not final and time.monotonic() - now > SLICE_S:
                break
        else:
            if self._walk is not None:
                self._walk, self._next_at = None, now + max(SCAN_S, 10 * (now - self._began_at))
        ours = []
        for path in sorted(found, key=_order):
            rank = self._rank(path, final)
            ours += [(Path(path), rank or None, self.prefix(Path(path).parent))] if rank is not None else []
        return ours

    def note(self, path: Path) -> None:
        """Note a file that is followed already."""
        self._decided.add(str(path))
        self.prefix(path.parent)

    def covers(self, path: Path) -> bool:
        """Return whether a file is an event file below the folders, not by way of a link out of them."""
        real = path.resolve()
        roots = [each.resolve() for each in (self.run_folder, *self.folders)]
        return MARK in real.name and any(real.is_relative_to(root) for root in roots)

    def prefix(self, folder: Path) -> str:
        """Return the prefix of names for the files of a folder."""
        root = next((each for each in (self.run_folder, *self.folders) if folder.is_relative_to(each)), folder)
        base = self._bases.setdefault(root, folder)
        if folder.name.lower() in _SPLITS:
            return folder.name
        if base.is_relative_to(folder) or _HPARAMS.fullmatch(folder.name):
            return ""
        for above in (base, base.parent):
            if folder.is_relative_to(above):
                return folder.relative_to(above).as_posix()
        return folder.name

    def _files(self) -> Iterator[str]:
        """Yield the event files below the folders; a bounded number of entries is looked at."""
        left, waiting = MOST_ENTRIES, [(str(folder), 0) for folder in (self.run_folder, *self.folders)]
        seen = set[str]()
        while waiting and left > 0:
            folder, depth = waiting.pop(0)
            if folder in seen:
                continue
            seen.add(folder)
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if MARK in entry.name and entry.is_file(follow_symlinks=False):
                        yield entry.path
                    elif depth < DEEPEST and entry.name[0] != "." and entry.name not in _SKIPPED:
                        with suppress(OSError):
                            if entry.is_dir(follow_symlinks=False):
                                waiting.append((entry.path, depth + 1))
                    if left <= 0:
                        break

    def _rank(self, path: str, final: bool) -> int | None:
        """Return the rank of the process that wrote a file, 0 if it has none; None if it isn't the run's, or not known
        yet.
        """
        parts = _PARTS.search(path)
        pid = int(parts["pid"]) if parts and parts["pid"] and parts["host"] == self.host else 0
        environment = _environment(pid) if pid and self.host == node() else {}
        number = environment.get("RANK", "")
        rank = int(number) if number.isdigit() else self._known_pids.get(pid, 0)
        if self._takes_all or Path(path).is_relative_to(self.run_folder):
            self._decided.add(path)
            self.writers |= {pid} if pid else set()
            return rank
        is_ours = None if self._is_new(path, parts) else False
        if is_ours is None and pid:
            is_ours = True if pid in self._known_pids else self._is_run(environment) if environment else None
        elif is_ours is None:
            is_ours = self._holder(path)
        if is_ours is None and final:
            is_ours = not self._is_taken(Path(path))
        if is_ours is not None:
            self._decided.add(path)
        return rank if is_ours else None

    def _is_new(self, path: str, parts: re.Match[str] | None) -> bool:
        if parts and int(parts["time"]) > 1e9:
            return int(parts["time"]) >= int(self.since - 1)
        try:
            return Path(path).stat().st_mtime >= self.since
        except OSError:
            return False

    def _is_run(self, environment: dict[str, str]) -> bool:
        return environment.get("PARALLAB_RUN_FOLDER") == str(self.run_folder)

    def _holder(self, path: str) -> bool | None:
        """Return whether a process of the run holds a file open, False if another one does, None if none does."""
        found: bool | None = None
        for folder in Path("/proc").glob("[0-9]*/fd"):
            with suppress(OSError):
                for descriptor in folder.iterdir():
                    with suppress(OSError):
                        if descriptor.readlink() == Path(path).resolve():
                            pid = int(folder.parent.name)
                            if pid in self._known_pids or self._is_run(_environment(pid)):
                                return True
                            found = False
        return found


def begin_of(folder: Path) -> float | None:
    """Return when the first event file below a folder was begun (s since 1970), as far as names say it."""
    begins = [int(parts["time"]) for path in folder.rglob(f"*{MARK}*") if (parts := _PARTS.search(path.name))]
    return min((begin for begin in begins if begin > 1e9), default=None)


def _environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with, empty if it has ended or is another user's."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return {name: value for part in text.split("\0") for name, equals, value in [part.partition("=")] if equals}


def _order(path: str) -> tuple[int, str]:
    parts = _PARTS.search(path)
    return int(parts["time"]) if parts else 0, path
