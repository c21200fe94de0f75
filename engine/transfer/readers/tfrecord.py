"""TensorFlow's record files: each record is its length, a checksum of that, its bytes, and a checksum of these (masked
CRC-32C).

Source: TensorFlow's guide to TFRecord. A program that was killed leaves a record cut off at the end, which is not
damage.
"""

import struct
from collections.abc import Iterator
from typing import IO

from engine.errors import ImportRefused

LARGEST = 1 << 20
"""Larger records hold pictures or graphs, never numbers, and are passed over."""
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
    """Return the CRC-32C of some bytes, turned and shifted as the format has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class Records:
    """The records of one file; `cut_off` says afterwards whether its end was missing."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.cut_off = False
        self.passed_over = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield each record; raises ImportRefused at the first that is not what was written."""
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
        """Return a record with its checksum (of a large one only that), None where the file ends before."""
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
                f"{self.name} is no TensorBoard event file: it does not begin with a record. Name a file whose "
                "name holds 'tfevents'."
            )
        return ImportRefused(
            f"{self.name} is damaged: the record at byte {at:,} does not fit its checksum. Copy it again from "
            "where it was written."
        )
