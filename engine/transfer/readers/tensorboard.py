"""Reader for TensorBoard's event files: each folder is a run, its scalars are metrics of the whole run, its
hyperparameters the config.
"""

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from google.protobuf.message import DecodeError

from engine.errors import ImportRefused
from engine.store.imports.external_import import ExternalRun
from engine.store.runs.origins import fingerprint
from engine.transfer.archives import Members, opened, shown
from engine.transfer.import_bounds import LONGEST_NAME, ImportBudget, Values
from engine.transfer.readers.event_messages import message
from engine.transfer.readers.tfrecord import Records

MARK = "tfevents"
LATEST_S = 4e9
"""Valid wall times, 1970 to 2096."""
_DTYPES = {1: "f", 2: "d"}


def event_files(names: Sequence[str]) -> list[str]:
    """Return the event files among names."""
    return [name for name in names if MARK in PurePosixPath(name).name and not name.startswith("__MACOSX/")]


def read_tensorboard(source: Members, names: Sequence[str], *, top: str = "") -> tuple[list[ExternalRun], list[str]]:
    """Return one run per folder, and notes; raises ImportRefused for a damaged or invalid event file."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(str(PurePosixPath(name).parent), []).append(name)
    runs: list[ExternalRun] = []
    notes: list[str] = []
    room = ImportBudget()
    for folder, files in folders.items():
        found = _Folder(top if folder == "." else folder, room)
        for name in sorted(files):
            notes += found.take(source, name)
        if found.values:
            runs.append(found.run())
        else:
            notes.append(f"'{shown(folder)}' was skipped: it has no scalars.")
    return runs, notes


class _Folder:
    """Contents of the event files of one folder."""

    def __init__(self, name: str, room: ImportBudget) -> None:
        self.name, self.room = name, room
        self.values = Values(f"'{shown(name)}'", room)
        self.config: dict[str, Any] = {}
        self.digest = sha256()

    def take(self, source: Members, name: str) -> list[str]:
        """Read one file and return notes on it."""
        with opened(source, name) as file:
            records = Records(file, f"'{shown(name)}'")
            for data in records:
                self.digest.update(data)
                self._event(data, name)
        said = (
            [
                (
                    f"'{shown(name)}' ends within a record, probably because its writer was killed; everything before "
                    "was imported."
                )
            ]
            if records.cut_off
            else []
        )
        return said + (
            [f"'{shown(name)}' has {records.passed_over:,} images or graphs, which were skipped."]
            if records.passed_over
            else []
        )

    def _event(self, data: bytes, name: str) -> None:
        try:
            event = message("Event").FromString(data)
        except DecodeError as error:
            raise ImportRefused(
                f"'{shown(name)}' is not a TensorBoard event file: one of its records is not an event. Choose a "
                "file that TensorBoard can read."
            ) from error
        for value in event.summary.value:
            if (number := _number(value)) is not None:
                if not 0 <= event.wall_time < LATEST_S:
                    raise ImportRefused(
                        f"'{shown(name)}' has an event with an invalid time ({event.wall_time:g} s since 1970). "
                        "Choose a file that TensorBoard can read."
                    )
                self.values.add(_text(value.tag) or "value", event.wall_time, event.step, number)
            elif value.metadata.plugin_data.plugin_name == b"hparams":
                self.config |= _config(value.metadata.plugin_data.content)
                ImportBudget().take_config(f"'{shown(self.name)}'", self._sizes())  # as it grows

    def _sizes(self) -> dict[str, int]:
        return {name: len(str(value)) for name, value in self.config.items()}

    def run(self) -> ExternalRun:
        """Return the run of the folder."""
        begin, end = min(self.values.moments), max(self.values.moments)
        name = self.name[:LONGEST_NAME] or "events"
        self.values.done()
        self.room.take_config(f"'{shown(self.name)}'", self._sizes())
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


def _number(value: Any) -> float | None:
    """Return the scalar of a summary's value, None for other values."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or value.metadata.plugin_data.plugin_name not in (b"", b"scalars"):
        return None
    tensor = value.tensor
    for listed in (tensor.float_val, tensor.double_val):
        if len(listed) == 1:
            return float(listed[0])
    kind = _DTYPES.get(tensor.dtype)
    if kind and len(tensor.tensor_content) == struct.calcsize(kind):
        return float(struct.unpack(f"<{kind}", tensor.tensor_content)[0])
    return None


def _config(content: bytes) -> dict[str, Any]:
    """Return the hyperparameters of a session, empty without any."""
    try:
        entries = message("HParams").FromString(content).session_start_info.hparams
    except DecodeError:
        return {}
    return {_text(entry.key)[:LONGEST_NAME]: value for entry in entries if (value := _setting(entry.value)) is not None}


def _setting(value: Any) -> str | float | bool | None:
    if value.HasField("string_value"):
        return _text(value.string_value)[:2_000]
    if value.HasField("bool_value"):
        return bool(value.bool_value)
    return float(value.number_value) if value.HasField("number_value") and math.isfinite(value.number_value) else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def moment(seconds: float) -> str:
    """Return seconds since 1970 in the store's time format."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
