"""Reader for TensorFlow's record files: each record has its length, the length's checksum, its bytes, and their
checksum (masked CRC-32C).

Source: TensorFlow's guide to TFRecord. A killed writer leaves a truncated record at the end, which is not treated as
damage.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from typing import IO

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
