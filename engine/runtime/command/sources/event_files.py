"""Reader for TensorBoard's event files that grow."""

from collections import Counter
from pathlib import Path
from struct import Struct
from typing import Any

from google.protobuf.message import DecodeError

from engine.runtime.command.sources.readings import TENSORBOARD, GrowingFile, Value
from engine.transfer.readers.tensorboard import (
    CRC_TABLE,
    LARGEST,
    LATEST_S,
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
_FEW = 16
"""Fewer records of a length are checked one by one, without NumPy, which takes a while to import."""


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
        broken = set[int]()
        for length, numbers in groups.items():
            if len(numbers) < _FEW:
                for number in numbers:
                    begin, end = spans[number]
                    if (masked_checksum(data[begin:end]),) != _CHECK.unpack_from(data, end):
                        broken.add(number)
            else:
                wrong = _wrong(data, [spans[number][0] for number in numbers], length)
                broken |= {numbers[index] for index in wrong}
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


def _wrong(data: bytes, begins: list[int], length: int) -> list[int]:
    """Return which of many records of one length have another masked CRC-32C than the one behind them."""
    import numpy as np

    table = np.array(CRC_TABLE, np.uint32)
    block = np.frombuffer(data, np.uint8)[np.array(begins)[:, None] + np.arange(length + 4)]
    crc = np.full(len(begins), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(block[:, :length].T):  # a byte of each record
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8
    expected = np.ascontiguousarray(block[:, length:]).view("<u4").ravel()
    return [int(index) for index in np.flatnonzero(masked != expected)]
