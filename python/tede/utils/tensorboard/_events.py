"""Event files: records of protocol buffers, each with its length and check sums. Written by hand: the messages are few.

A message is a list of (field number, value): ints are varints, floats doubles, `Float` single floats, strings and bytes and
messages (bytes) are length-delimited, lists are packed: doubles, `Floats` single floats, `Ints` varints.
"""
import functools
import importlib
import struct


class Float(float):
    """A float that is written with four bytes."""


class Floats(list):
    """Floats that are written with four bytes each."""


class Ints(list):
    """Whole numbers that are written as varints."""


def _varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def message(*fields):
    """The bytes of a message; fields whose value is None are left out."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, Float):
            out += _varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, float):
            out += _varint(number << 3 | 1) + struct.pack("<d", value)
        elif isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            if isinstance(value, Ints):
                value = b"".join(map(_varint, value))
            elif isinstance(value, list):
                value = struct.pack(f"<{len(value)}{'f' if isinstance(value, Floats) else 'd'}", *value)
            elif isinstance(value, str):
                value = value.encode()
            out += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(out)


class Bytes:
    """A message that can be written: what TensorBoard's class is to a writer."""

    def __init__(self, data):
        self._data = data

    def SerializeToString(self):
        return self._data


@functools.cache
def _reader(file, name):
    try:
        return getattr(importlib.import_module(f"tensorboard.compat.proto.{file}"), name).FromString
    except ImportError:
        return Bytes


def of_class(file, name, data):
    """A message as TensorBoard's class, where that is installed."""
    return _reader(file, name)(data)


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _table()


def _masked_crc(data):
    """CRC-32C, as records store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    """A message as it stands in the file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def png(pixels, height, width, channels):
    """Rows of bytes as a PNG file."""
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    stride = width * channels
    rows = b"".join(b"\0" + pixels[y * stride:(y + 1) * stride] for y in range(height))
    header = struct.pack(">2I5B", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
