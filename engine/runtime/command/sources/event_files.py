"""Follows TensorBoard's event files: reads a growing file, and finds those that the processes of a run write."""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from platform import node
from struct import Struct
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from engine.runtime.command.sources.readings import TENSORBOARD, GrowingFile, Value
from engine.transfer.readers.tensorboard import (
    CRC_TABLE,
    LARGEST,
    LATEST_S,
    MARK,
    hyperparameters_of,
    masked_checksum,
    message,
    scalar_of,
    text_of,
)

CHUNK = 1 << 16
PATIENCE_S = 30.0
"""A record with a wrong checksum may still be on its way from another machine; after this time it is damage."""
MOST_LAYOUTS = 10_000
_HEAD, _CHECK, _TIME, _FLOAT = Struct("<QI"), Struct("<I"), Struct("<d"), Struct("<f")
_CRC = np.array(CRC_TABLE, np.uint32)
_FEW = 16
"""Fewer records of a length are checked one by one."""


class EventFile:
    """The scalars of one event file, whose writer may be anywhere within a record."""

    source = TENSORBOARD

    def __init__(self, path: Path, rank: int | None = None, prefix: str = "") -> None:
        self.path, self.rank, self.prefix = path, rank, prefix
        self.left_out = Counter[str]()
        self.note = ""
        """Where the file is damaged, as a sentence."""
        self.hyperparameters: dict[str, Any] = {}
        self._file = GrowingFile(path)
        self._rest = b""
        self._skip = 0
        self._bad_since: float | None = None
        self._lengths: dict[int, int] = {}
        """Checksums of lengths that were met."""
        self._layouts: dict[bytes, str] = {}
        """Names by the bytes between step and value, for records that are one number."""

    def read(self, at: float, final: bool) -> tuple[list[Value], bool]:
        if self.note:
            return [], False
        data, more = self._file.next(CHUNK)
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        data = self._rest + data
        spans, end = self._spans(data, at, final)
        if self._bad_since is not None:
            self._file.offset -= len(data) - end
            self._rest, more = b"", False
        else:
            self._rest = data[end:]
        found: list[Value] = []
        for begin, stop in self._whole(data, spans):
            if data[begin] == 0x09 and stop - begin > 20:
                step, rest = _step(data, begin)
                if (name := self._layouts.get(data[rest : stop - 4])) is not None:
                    (value,), (wall,) = _FLOAT.unpack_from(data, stop - 4), _TIME.unpack_from(data, begin + 1)
                    found.append(Value(name, step, value, wall))
                    continue
            found += self._values(data[begin:stop])
        return found, more

    def _spans(self, data: bytes, at: float, final: bool) -> tuple[list[tuple[int, int]], int]:
        """Return where the whole records are, and where the first one that isn't begins."""
        spans, begin, size = list[tuple[int, int]](), 0, len(data)
        while size - begin >= _HEAD.size:
            length, check = _HEAD.unpack_from(data, begin)
            if self._lengths.get(length) != check:
                if masked_checksum(data[begin : begin + 8]) != check:
                    self._wait(at, final, self._file.offset - size + begin)
                    return spans, begin
                if len(self._lengths) < MOST_LAYOUTS:
                    self._lengths[length] = check
            self._bad_since = None
            end = begin + _HEAD.size + length + 4
            if length > LARGEST:
                self.left_out["images or graphs"] += 1
                self._skip = max(0, end - size)
                begin = min(end, size)
                continue
            if end > size:
                break
            spans.append((begin + _HEAD.size, end - 4))
            begin = end
        return spans, begin

    def _wait(self, at: float, final: bool, offset: int) -> None:
        """Note a wrong checksum, which is damage if it stays."""
        self._bad_since = self._bad_since or at
        if final or at - self._bad_since > PATIENCE_S:
            self.note = f"'{self.path.name}' is damaged from byte {offset:,} on and was read up to there."

    def _whole(self, data: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the spans whose checksum is right, in their order."""
        groups: dict[int, list[int]] = {}
        for number, (begin, end) in enumerate(spans):
            groups.setdefault(end - begin, []).append(number)
        all_bytes, broken = np.frombuffer(data, np.uint8), set[int]()
        for length, numbers in groups.items():
            if len(numbers) < _FEW:
                for number in numbers:
                    begin, end = spans[number]
                    if (masked_checksum(data[begin:end]),) != _CHECK.unpack_from(data, end):
                        broken.add(number)
                continue
            starts = np.array([spans[number][0] for number in numbers])
            block = all_bytes[starts[:, None] + np.arange(length + 4)]
            expected = np.ascontiguousarray(block[:, length:]).view("<u4").ravel()
            wrong = _checksums(np.ascontiguousarray(block[:, :length].T)) != expected
            broken |= {numbers[index] for index in np.flatnonzero(wrong)}
        if broken:
            self.left_out["damaged records"] += len(broken)
            return [span for number, span in enumerate(spans) if number not in broken]
        return spans

    def _values(self, data: bytes) -> list[Value]:
        """Return the scalars of a record."""
        try:
            event = message("Event").FromString(data)
        except DecodeError:
            self.left_out["records that are not events of TensorBoard"] += 1
            return []
        found = []
        for value in event.summary.value:
            about = value.metadata.plugin_data
            number = scalar_of(value, about.plugin_name)
            if about.plugin_name == b"hparams":
                self.hyperparameters |= hyperparameters_of(about.content)
            elif isinstance(number, str):
                self.left_out[number] += 1
            elif not 0 <= event.wall_time < LATEST_S:
                self.left_out["values without a valid time"] += 1
            else:
                name = self._name(text_of(value.tag) or "value")
                found.append(Value(name, event.step, number, event.wall_time, "", self.path.name))
        if len(found) == len(event.summary.value) == 1:
            self._learn(data, found[0].name)
        return found

    def _learn(self, data: bytes, name: str) -> None:
        """Remember the layout of a record if its last bytes are its number."""
        probe = message("Event").FromString(data[:-4] + _FLOAT.pack(123.25))
        same = len(probe.summary.value) == 1 and probe.summary.value[0].simple_value == 123.25
        if same and data[:1] == b"\x09" and len(data) > 20 and len(self._layouts) < MOST_LAYOUTS:
            self._layouts[data[_step(data, 0)[1] : -4]] = name

    def _name(self, tag: str) -> str:
        """Return the name of a tag: `add_scalars` puts each of its curves into a folder `tag_curve`."""
        if self.prefix.startswith(begin := tag.replace("/", "_") + "_"):
            return f"{tag}/{self.prefix[len(begin) :]}"
        return f"{self.prefix}/{tag}" if self.prefix else tag


def _step(data: bytes, begin: int) -> tuple[int, int]:
    """Return the step of an event that begins there, which follows its time, and where the rest begins."""
    if data[begin + 9] != 0x10:
        return 0, begin + 9
    step = data[begin + 10]
    if step < 0x80:
        return step, begin + 11
    step &= 0x7F
    for shift in range(1, 10):
        byte = data[begin + 10 + shift]
        step |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return step - (1 << 64) if step >= 1 << 63 else step, begin + 11 + shift
    return 0, begin + 9


def _checksums(columns: "np.ndarray[Any, np.dtype[np.uint8]]") -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Return the masked CRC-32C of many records of one length; row n has the byte n of each."""
    crc = np.full(columns.shape[1], 0xFFFFFFFF, np.uint32)
    for column in columns:
        crc = _CRC[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return np.asarray(((crc >> 15) | (crc << 17)) + 0xA282EAD8, np.uint32)


# ---- Which event files are a run's ---------------------------------------------------------------------------------

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
        pids: Callable[[], Collection[int]],
        is_taken: Callable[[Path], bool],
    ) -> None:
        self.run_folder, self.folders, self.since = run_folder, folders, since
        self._pids, self._is_taken = pids, is_taken
        self._known_pids = set[int]()
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
        pid = int(parts["pid"]) if parts and parts["pid"] and parts["host"] == node() else 0
        environment = _environment(pid) if pid else {}
        rank = int(number) if (number := environment.get("RANK", "")).isdigit() else 0
        if Path(path).is_relative_to(self.run_folder):
            self._decided.add(path)
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
            return int(parts["time"]) >= int(self.since)
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
