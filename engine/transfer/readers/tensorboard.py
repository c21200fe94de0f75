"""Reader for TensorBoard's event files: each folder is a run, its scalars are metrics of the whole run, its
hyperparameters the config.
"""

import math
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import IO, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from engine.store.imports.external_import import LEAST_SPAN_S, ExternalRun
from engine.store.runs.origins import fingerprint
from engine.transfer.archives import Members, opened, shown
from engine.transfer.import_bounds import (
    LONGEST_NAME,
    MOST_CONFIG_BYTES,
    MOST_SETTINGS,
    ImportBudget,
    Values,
    fit_units,
    shortened,
)

MARK = "tfevents"
LATEST_S = 4e9
"""Valid wall times, 1970 to 2096."""
_BFLOAT16 = 14
_DTYPES = {
    1: ("f", "float_val"),
    2: ("d", "double_val"),
    3: ("i", "int_val"),
    4: ("B", "int_val"),
    5: ("h", "int_val"),
    6: ("b", "int_val"),
    9: ("q", "int64_val"),
    10: ("?", "bool_val"),
    _BFLOAT16: ("e", "half_val"),
    17: ("H", "int_val"),
    19: ("e", "half_val"),
    22: ("I", "uint32_val"),
    23: ("Q", "uint64_val"),
}
"""Types of tensors that are numbers (types.proto): the format of one in bytes, and the field that lists them."""
_OTHER_DTYPES = {7: "string", 8: "complex64", 18: "complex128", 24: "float8_e5m2", 25: "float8_e4m3fn"}


def event_files(names: Collection[str]) -> list[str]:
    """Return the event files among names."""
    return [name for name in names if MARK in PurePosixPath(name).name]


def read_tensorboard(source: Members, names: Collection[str], *, top: str = "") -> tuple[list[ExternalRun], list[str]]:
    """Return one run per folder, and notes on what is damaged or not a scalar."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(str(PurePosixPath(name).parent), []).append(name)
    notes: list[str] = []
    room = ImportBudget()
    found = {folder: _Folder(top if folder == "." else folder, room) for folder in folders}
    for folder, files in folders.items():
        for name in sorted(files):
            notes += found[folder].take(source, name)
        found[folder].values.done()
    notes += _share_hyperparameters(found)
    runs = [each.run() for each in found.values() if each.values]
    notes += [note for each in found.values() for note in each.values.notes]
    return runs, notes + fit_units([each.values for each in found.values()])


def _share_hyperparameters(folders: dict[str, "_Folder"]) -> list[str]:
    """Give hyperparameters that lie in a folder of their own to their run; return notes on them, and on other folders
    without scalars.

    PyTorch's `add_hparams` writes them, with one value of each metric, into a folder within the run's. Keras writes
    them into the folder above those of training and validation.
    """
    told, skipped, joined = list[str](), list[str](), list[_Folder]()
    below: dict[str, list[_Folder]] = {}
    for path, folder in folders.items():
        if path != ".":
            below.setdefault(str(PurePosixPath(path).parent), []).append(folder)
    for path, folder in folders.items():
        summaries = [each for each in below.get(path, []) if each.config and each.values.is_single]
        if folder.values and len(summaries) == 1 and folder.config.items() <= summaries[0].config.items():
            folder.join(summaries[0])
            told.append(f"'{shown(summaries[0].name)}' has the hyperparameters of '{shown(folder.name)}': one run.")
            joined += summaries
    for path, folder in folders.items():
        inner = below.get(path, [])
        for each in inner if not folder.values and folder not in joined else ():
            each.config = folder.config | each.config
        if not folder.values and folder not in joined and not (folder.config and inner):
            skipped.append(f"'{shown(folder.name)}' was skipped: it has no scalars.")
    for folder in joined:
        folder.values = Values("", folder.room)
    return [
        *_few(told, "more folders have the hyperparameters of the run above them: one run each."),
        *_few(skipped, "more folders were skipped: they have no scalars."),
    ]


def _few(notes: Sequence[str], rest: str) -> list[str]:
    """Return notes of one kind; of many the first, and the number of the others."""
    return [*notes] if len(notes) <= MOST_NOTES else [notes[0], f"{len(notes) - 1:,} {rest}"]


MOST_NOTES = 3
_OVER = f"parameters, over the limit of {MOST_SETTINGS:,} and {MOST_CONFIG_BYTES:,} bytes"


class _Folder:
    """Contents of the event files of one folder."""

    def __init__(self, name: str, room: ImportBudget) -> None:
        self.name, self.room = name, room
        self.values = Values(f"'{shown(name)}'", room)
        self.config: dict[str, Any] = {}
        self.span = (math.inf, 0.0)
        """First time of all events, and last time of those with a summary: a file converted from another program begins
        with the time of the conversion.
        """
        self.digest = sha256()

    def take(self, source: Members, name: str) -> list[str]:
        """Read one file and return notes on it."""
        where = f"'{shown(name)}'"
        with opened(source, name) as file:
            records = Records(file, where)
            for data in records:
                self.digest.update(data)
                self._event(data, records.left_out)
        left_out = [f"{where}: left out {count:,} {what}." for what, count in records.left_out.items()]
        return [records.note, *left_out] if records.note else left_out

    def _event(self, data: bytes, left_out: Counter[str]) -> None:
        """Take the scalars and hyperparameters of a record, and count what is left out of it."""
        try:
            event = message("Event").FromString(data)
        except DecodeError:
            left_out["records that are not events of TensorBoard"] += 1
            return
        if 0 < event.wall_time < LATEST_S:
            self._widen((event.wall_time, event.wall_time if event.summary.value else 0.0))
        for value in event.summary.value:
            about = value.metadata.plugin_data
            number = scalar_of(value, about.plugin_name)
            if about.plugin_name == b"hparams":
                self.config |= hyperparameters_of(about.content)
                if count := self._cut(ImportBudget()):  # as it grows
                    left_out[_OVER] += count
            elif isinstance(number, str):
                left_out[number] += 1
            elif not 0 <= event.wall_time < LATEST_S:
                left_out["values without a valid time"] += 1
            else:
                self.values.add(text_of(value.tag) or "value", event.wall_time, event.step, number)

    def join(self, summary: "_Folder") -> None:
        """Take the hyperparameters and the last values of a run's summary."""
        self.config = summary.config
        self._widen(summary.span)
        for point, at in zip(summary.values.points(0.0), summary.values.moments, strict=True):
            name = point.name if point.name not in self.values.names else f"hparams/{point.name}"
            self.values.add(name, at, point.step, point.value)

    def _widen(self, span: tuple[float, float]) -> None:
        self.span = (min(self.span[0], span[0]), max(self.span[1], span[1]))

    def _cut(self, room: ImportBudget) -> int:
        """Keep the parameters that fit a run, and return the number of the others."""
        sizes = {name: len(str(value)) for name, value in self.config.items()}
        kept, _ = room.take_config(f"'{shown(self.name)}'", sizes)
        self.config = {name: self.config[name] for name in kept}
        return len(sizes) - len(kept)

    def run(self) -> ExternalRun:
        """Return the run of the folder."""
        begin, end = min(self.values.moments), max(self.values.moments)
        if end - begin < LEAST_SPAN_S and self.span[1]:
            begin, end = self.span
        name = self.name[:LONGEST_NAME] or "events"
        if count := self._cut(self.room):
            self.values.notes.append(f"'{shown(self.name)}': left out {count:,} {_OVER}.")
        return ExternalRun(
            "tensorboard",
            original_id=name,
            fingerprint=fingerprint("tensorboard", self.digest.hexdigest()),
            points=self.values.points(begin),
            point_count=len(self.values),
            created_at=moment(begin),
            ended_at=moment(end),
            seconds=end - begin,
            name=name,
            cause="Imported from TensorBoard, which records no end status.",
            config=self.config,
        )


def scalar_of(value: Any, plugin: bytes) -> float | str:
    """Return the scalar of a summary's value; of another value its kind, in words."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if value.HasField("tensor") and plugin in (b"", b"scalars"):
        found = _scalar(value.tensor, is_marked=plugin == b"scalars")
        return f"values of '{shown(text_of(value.tag))}' ({found})" if isinstance(found, str) else found
    kind = next((name for name in ("image", "histo", "audio") if value.HasField(name)), shown(text_of(plugin)))
    return f"values of kind {kind or 'unknown'}"


def _scalar(tensor: Any, *, is_marked: bool) -> float | str:
    """Return the number of a tensor; its type if that is no number, or that it has several.

    A tensor may list fewer values than its shape has: a scalar without any is 0 (tensor.proto).
    """
    if tensor.dtype not in _DTYPES:
        return _OTHER_DTYPES.get(tensor.dtype, f"type {tensor.dtype}")
    kind, field = _DTYPES[tensor.dtype]
    listed, content = getattr(tensor, field), tensor.tensor_content
    size = struct.calcsize(f"<{kind}")
    if (
        math.prod(dim.size for dim in tensor.tensor_shape.dim) != 1
        or len(listed) > 1
        or len(content) not in (0, size)
        or not (is_marked or listed or content)
    ):
        return "not one number"
    if field == "half_val":  # 16 bits each, also in the list
        content = content or struct.pack("<H", sum(listed) & 0xFFFF)
    if tensor.dtype == _BFLOAT16:  # the upper half of a float
        kind, content = "f", b"\0\0" + content
    return float(struct.unpack(f"<{kind}", content)[0] if content else sum(listed))


def hyperparameters_of(content: bytes) -> dict[str, Any]:
    """Return the hyperparameters of a session, empty without any."""
    try:
        entries = message("HParams").FromString(content).session_start_info.hparams
    except DecodeError:
        return {}
    return {
        shortened(text_of(entry.key), LONGEST_NAME): value
        for entry in entries
        if (value := _setting(entry.value)) is not None
    }


def _setting(value: Any) -> str | int | float | bool | None:
    if value.HasField("string_value"):
        return text_of(value.string_value)[:2_000]
    if value.HasField("bool_value"):
        return bool(value.bool_value)
    if not value.HasField("number_value") or not math.isfinite(number := value.number_value):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else float(number)  # it has no integers


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def moment(seconds: float) -> str:
    """Return seconds since 1970 in the store's time format."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ------------------------------------------------------------------------------------------------------------------
# Reader for TensorFlow's record files: each record has its length, the length's checksum, its bytes, and their
# checksum (masked CRC-32C). Source: TensorFlow's guide to TFRecord. A killed writer leaves a truncated record at
# the end, which is not treated as damage.

LARGEST = 1 << 20
"""Larger records hold images or graphs, not scalars, and are skipped."""
_HEAD = struct.Struct("<QI")
_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


CRC_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of bytes, as the format defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class Records:
    """The whole records of one file, up to its end or to where it is cut or damaged; afterwards `note` says where that
    is, and `left_out` counts what was left out before.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.note = ""
        self.left_out = Counter[str]()

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        while head := self.file.read(_HEAD.size):
            length, expected = _HEAD.unpack(head.ljust(_HEAD.size))
            if len(head) == _HEAD.size and masked_checksum(head[:8]) != expected:
                self.note = self._damaged(at)
                return
            record = self._read(length) if len(head) == _HEAD.size else None
            if record is None:
                self.note = (
                    f"{self.name} ends within a record, probably because its writer was killed, and was read up to "
                    "there."
                )
                return
            data, (checksum,) = record[:-4], struct.unpack("<I", record[-4:])
            if length > LARGEST:
                self.left_out["images or graphs"] += 1
            elif masked_checksum(data) != checksum:
                self.left_out["damaged records"] += 1
            else:
                yield data
            at += _HEAD.size + length + 4

    def _damaged(self, at: int) -> str:
        if at == 0:
            return (
                f"{self.name} is not a TensorBoard event file: it does not start with a record. Choose a file with "
                "'tfevents' in its name."
            )
        return f"{self.name} is damaged from byte {at:,} on and was read up to there."

    def _read(self, length: int) -> bytes | None:
        """Return a record with its checksum (for a large one, only the checksum), None at a truncated end."""
        if length <= LARGEST:
            found = self.file.read(length + 4)
            return found if len(found) == length + 4 else None
        left = length
        while left:
            piece = self.file.read(min(left, LARGEST))
            if not piece:
                return None
            left -= len(piece)
        found = self.file.read(4)
        return found if len(found) == 4 else None


# ---- Protobuf messages of TensorBoard's event files, as far as they hold scalars and hyperparameters ---------------
# Only the fields that are read are declared (numbers as in event.proto, summary.proto, tensor.proto and
# plugin_data.proto); others are ignored. They use a separate descriptor pool, so that they don't conflict with a
# package that defines them all.

_F = descriptor_pb2.FieldDescriptorProto
_DOUBLE, _FLOAT, _INT64, _INT32, _UINT64, _UINT32, _BOOL, _BYTES, _MESSAGE = (
    *(_F.TYPE_DOUBLE, _F.TYPE_FLOAT, _F.TYPE_INT64, _F.TYPE_INT32, _F.TYPE_UINT64, _F.TYPE_UINT32),
    *(_F.TYPE_BOOL, _F.TYPE_BYTES, _F.TYPE_MESSAGE),
)
_MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "Plugin": [("plugin_name", 1, _BYTES, ""), ("content", 2, _BYTES, "")],
    "Metadata": [("plugin_data", 1, _MESSAGE, "Plugin")],
    "Dim": [("size", 1, _INT64, "")],
    "Shape": [("dim", 2, _MESSAGE, "*Dim")],
    "Tensor": [
        ("dtype", 1, _INT32, ""),
        ("tensor_shape", 2, _MESSAGE, "Shape"),
        ("tensor_content", 4, _BYTES, ""),
        ("float_val", 5, _FLOAT, "*"),
        ("double_val", 6, _DOUBLE, "*"),
        ("int_val", 7, _INT32, "*"),
        ("int64_val", 10, _INT64, "*"),
        ("bool_val", 11, _BOOL, "*"),
        ("half_val", 13, _INT32, "*"),
        ("uint32_val", 16, _UINT32, "*"),
        ("uint64_val", 17, _UINT64, "*"),
    ],
    "Value": [
        ("tag", 1, _BYTES, ""),
        ("simple_value", 2, _FLOAT, "?"),
        ("image", 4, _BYTES, "?"),
        ("histo", 5, _BYTES, "?"),
        ("audio", 6, _BYTES, "?"),
        ("tensor", 8, _MESSAGE, "Tensor"),
        ("metadata", 9, _MESSAGE, "Metadata"),
    ],
    "Summary": [("value", 1, _MESSAGE, "*Value")],
    "Event": [("wall_time", 1, _DOUBLE, ""), ("step", 2, _INT64, ""), ("summary", 5, _MESSAGE, "Summary")],
    "HParam": [("number_value", 2, _DOUBLE, "?"), ("string_value", 3, _BYTES, "?"), ("bool_value", 4, _BOOL, "?")],
    "HParamEntry": [("key", 1, _BYTES, ""), ("value", 2, _MESSAGE, "HParam")],
    "Session": [("hparams", 1, _MESSAGE, "*HParamEntry")],
    "HParams": [("session_start_info", 3, _MESSAGE, "Session")],
}
"""Name, number and type of each field; then its message type, with the prefix `*` if repeated, `?` if its presence
matters.

Strings are read as bytes, since protobuf would reject a whole event for invalid UTF-8."""


@cache
def message(name: str) -> Any:
    """Return the class of a message."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"parallab.events.{name}"))


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="parallab/events.proto", package="parallab.events", syntax="proto2")
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, kind, more in fields:
            label = _F.LABEL_REPEATED if more.startswith("*") else _F.LABEL_OPTIONAL
            made.field.add(
                name=field,
                number=number,
                type=kind,
                label=label,
                type_name=f".parallab.events.{more.lstrip('*?')}" if kind == _MESSAGE else None,
            )
    return file
