"""TensorBoard's event files written byte by byte, apart from the code that reads them."""

import struct
from pathlib import Path

CRC32C = [0] * 256
for _value in range(256):
    _crc = _value
    for _ in range(8):
        _crc = _crc >> 1 ^ 0x82F63B78 * (_crc & 1)
    CRC32C[_value] = _crc


def masked(data: bytes) -> bytes:
    crc = 2**32 - 1
    for byte in data:
        crc = CRC32C[crc & 255 ^ byte] ^ crc >> 8
    crc ^= 2**32 - 1
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)


def varint(value: int) -> bytes:
    value %= 2**64
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(wall_time: float, step: int, summary: bytes = b"") -> bytes:
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint(step) + (field(5, summary) if summary else b"")


def scalar(tag: str, value: float) -> bytes:
    return field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def tensor(tag: str, value: float) -> bytes:
    """Return a scalar as TensorFlow 2 writes it: a tensor of one float, marked as a scalar."""
    return field(
        1,
        field(1, tag.encode())
        + field(8, b"\x08\x01" + field(4, struct.pack("<f", value)))
        + field(9, field(1, field(1, b"scalars"))),
    )


def hparams(name: str, value: float) -> bytes:
    entry = field(1, name.encode()) + field(2, b"\x11" + struct.pack("<d", value))
    return field(
        1, field(1, b"_hparams_") + field(9, field(1, field(1, b"hparams") + field(2, field(3, field(1, entry)))))
    )


def write(path: Path, *, steps: int = 5, begin: float = 1_700_000_000.0) -> Path:
    """Write a file of two metrics, one in each way, and a hyperparameter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    events = [event(begin, 0) + field(3, b"brain.Event:2"), event(begin, 0, hparams("lr", 0.25))]
    for step in range(steps):
        events += [
            event(begin + step, step, scalar("loss/train", 1 / (step + 1))),
            event(begin + step, step, tensor("accuracy", step * 0.5)),
        ]
    path.write_bytes(b"".join(map(record, events)))
    return path
