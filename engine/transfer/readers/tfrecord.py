"""Reader for TensorFlow's record files: each record has its length, the length's checksum, its bytes, and their
checksum (masked CRC-32C).

Source: TensorFlow's guide to TFRecord. A killed writer leaves a truncated record at the end, which is not treated as
damage.
"""

import struct
from collections.abc import Iterator
from typing import IO

from engine.errors import ImportRefused

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


_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of bytes, as the format defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class Records:
    """The records of one file; afterwards `cut_off` is set if its end was truncated."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.cut_off = False
        self.passed_over = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record; raises ImportRefused at the first with a wrong checksum."""
        at = 0
        while head := self.file.read(_HEAD.size):
            if len(head) < _HEAD.size:
                self.cut_off = True
                return
            length, expected = _HEAD.unpack(head)
            if masked_checksum(head[:8]) != expected:
                raise self._damaged(at)
            record = self._read(length)
            if record is None:
                self.cut_off = True
                return
            data, (checksum,) = record[:-4], struct.unpack("<I", record[-4:])
            if length > LARGEST:
                self.passed_over += 1
            elif masked_checksum(data) != checksum:
                raise self._damaged(at)
            else:
                yield data
            at += _HEAD.size + length + 4

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

    def _damaged(self, at: int) -> ImportRefused:
        if at == 0:
            return ImportRefused(
                f"{self.name} is not a TensorBoard event file: it does not start with a record. Choose a file with "
                "'tfevents' in its name."
            )
        return ImportRefused(
            f"{self.name} is damaged: wrong checksum of the record at byte {at:,}. Copy it from the source again."
        )
