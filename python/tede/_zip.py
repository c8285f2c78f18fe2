"""The zip archives that checkpoints are: stored records, each one's bytes at a multiple of 64 so that they can be mapped.

Python's zipfile would do for reading, but not for aligned writing, and it trusts what a file says more than a reader of
strangers' files should: here every offset and size is checked against the file before anything is allocated.
"""
import struct
import zlib

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_ALIGNMENT = 64
_FULL = 0xFFFFFFFF


def _failed(what):
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {what}")


class Writer:
    """Writes records into `file`, which needs no more than a method write."""

    def __init__(self, file, name, crc32=True):
        self._write, self._prefix, self._at, self._entries, self._crc32 = file.write, name + "/", 0, [], crc32

    def _put(self, data):
        self._write(data)
        self._at += len(data)

    def record(self, name, data):
        """`data`: anything with a buffer of bytes."""
        view = memoryview(data).cast("B") if len(data) else b""
        raw, crc, size, start = (self._prefix + name).encode(), zlib.crc32(view) if self._crc32 else 0, len(view), self._at
        large = size >= _FULL
        extra = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        padding = -(start + _LOCAL.size + len(raw) + len(extra) + 4) % _ALIGNMENT
        extra += struct.pack("<2s H", b"FB", padding) + b"Z" * padding
        shown = _FULL if large else size
        self._put(_LOCAL.pack(b"PK\x03\x04", 45 if large else 0, 0x800, 0, 0, 0, crc, shown, shown, len(raw), len(extra)) +
                  raw + extra)
        for k in range(0, size, 1 << 30):           # a write of more than 2 GB is short on some systems
            self._put(view[k:k + (1 << 30)])
        self._entries.append((raw, crc, size, start))

    def close(self):
        """Write the directory of the records."""
        begin = self._at
        for raw, crc, size, start in self._entries:
            wide = [n for n in (size, size, start) if n >= _FULL]
            extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            shown, place = min(size, _FULL), min(start, _FULL)
            self._put(_CENTRAL.pack(b"PK\x01\x02", 45, 45 if wide else 0, 0x800, 0, 0, 0, crc, shown, shown, len(raw),
                                    len(extra), 0, 0, 0, 0, place) + raw + extra)
        length, count, end = self._at - begin, len(self._entries), self._at
        if count >= 0xFFFF or length >= _FULL or begin >= _FULL:
            self._put(_END64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, begin))
            self._put(_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
        self._put(_END.pack(b"PK\x05\x06", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), min(length, _FULL),
                            min(begin, _FULL), 0))


class Reader:
    """The records of an archive that lasts from the file's position to its end."""

    def __init__(self, file):
        self._file, self._start = file, file.tell()
        file.seek(0, 2)
        self.size = file.tell() - self._start
        self._records, self.prefix = {}, ""
        self._directory()
        for name in self._records:
            if name.endswith(("/data.pkl", "/constants.pkl")) or "/" in name:
                self.prefix = name.split("/", 1)[0] + "/"
                break
        for name in self._records:
            if not name.startswith(self.prefix):
                raise RuntimeError(f"file in archive is not in a subdirectory {self.prefix}: {name}")

    def _read(self, offset, size):
        if offset < 0 or size < 0 or offset + size > self.size:
            raise _failed("invalid header or archive is corrupted")
        self._file.seek(self._start + offset)
        data = self._file.read(size)
        if len(data) != size:
            raise _failed("invalid header or archive is corrupted")
        return data

    def _directory(self):
        tail_at = max(self.size - (1 << 16) - _END.size, 0)
        tail = self._read(tail_at, self.size - tail_at)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise _failed("failed finding central directory")
        count, length, begin = _END.unpack_from(tail, at)[4:7]
        end = tail_at + at
        if end >= _LOCATOR.size and self._read(end - _LOCATOR.size, 4) == b"PK\x06\x07":
            where = _LOCATOR.unpack(self._read(end - _LOCATOR.size, _LOCATOR.size))[2]
            record = _END64.unpack(self._read(where, _END64.size))
            if record[0] != b"PK\x06\x06":
                raise _failed("failed finding central directory")
            count, length, begin = record[7:10]
        data, at = self._read(begin, length), 0
        for _ in range(count):
            if at + _CENTRAL.size > length:
                raise _failed("invalid header or archive is corrupted")
            field = _CENTRAL.unpack_from(data, at)
            if field[0] != b"PK\x01\x02":
                raise _failed("invalid header or archive is corrupted")
            method, packed, size, n, extra, comment, start = field[4], *field[8:13], field[16]
            at += _CENTRAL.size
            name = data[at:at + n].decode("utf-8", "replace")
            more = data[at + n:at + n + extra]
            at += n + extra + comment
            size, packed, start = self._widened(more, size, packed, start)
            self._records[name] = method, packed, size, start

    @staticmethod
    def _widened(extra, size, packed, start):
        at = 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, at)
            if kind == 1:
                values = iter(struct.unpack_from(f"<{length // 8}Q", extra[at + 4:at + 4 + length].ljust(length, b"\0")))
                size = next(values, size) if size == _FULL else size
                packed = next(values, packed) if packed == _FULL else packed
                start = next(values, start) if start == _FULL else start
            at += 4 + length
        return size, packed, start

    def names(self):
        return [name.removeprefix(self.prefix) for name in self._records]

    def has(self, name):
        return self.prefix + name in self._records

    def _entry(self, name):
        try:
            return self._records[self.prefix + name]
        except KeyError:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found") from None

    def length(self, name):
        """The bytes of a record."""
        return self._entry(name)[2]

    def is_packed(self, name):
        """Whether a record is compressed."""
        return self._entry(name)[0] != 0

    def offset(self, name):
        """Where a record's bytes begin in the archive."""
        start = self._entry(name)[3]
        field = _LOCAL.unpack(self._read(start, _LOCAL.size))
        if field[0] != b"PK\x03\x04":
            raise _failed("invalid header or archive is corrupted")
        return start + _LOCAL.size + field[9] + field[10]

    def read(self, name):
        """A record's bytes."""
        method, packed, size, _ = self._entry(name)
        data = self._read(self.offset(name), packed)
        if method == 0:
            return data
        if method != 8:
            raise _failed(f"compression method {method} of {name} is not supported")
        try:
            data = zlib.decompressobj(-15).decompress(data, size + 1)
        except zlib.error as error:
            raise _failed(f"{name}: {error}") from None
        if len(data) != size:
            raise _failed(f"{name}: decompressed to another size than declared")
        return data

    def read_into(self, name, target):
        """Fill a writable buffer with the beginning of a record."""
        view = memoryview(target)
        method, packed, size, _ = self._entry(name)
        if len(view) > size:
            raise _failed(f"{name} has {size} bytes, but {len(view)} are needed")
        if method != 0:
            view[:] = self.read(name)[:len(view)]
            return
        offset = self.offset(name)
        if packed != size or offset + size > self.size:
            raise _failed("invalid header or archive is corrupted")
        self._file.seek(self._start + offset)
        fill(self._file, view)


def fill(file, view):
    """Read exactly as many bytes as `view` has."""
    readinto, at = getattr(file, "readinto", None), 0
    while at < len(view):
        if readinto is not None:
            n = readinto(view[at:at + (1 << 30)])
        else:
            data = file.read(min(len(view) - at, 1 << 24))
            n = len(data)
            view[at:at + n] = data
        if not n:
            raise EOFError(f"the file ends {len(view) - at} bytes early")
        at += n


class PyTorchFileReader:
    """The records of a checkpoint, under PyTorch's names for them."""

    def __init__(self, name_or_buffer):
        self._own = open(name_or_buffer, "rb") if isinstance(name_or_buffer, str) or hasattr(name_or_buffer, "__fspath__") else None
        self._reader = Reader(self._own or name_or_buffer)

    def get_record(self, name):
        return bytes(self._reader.read(name))

    def has_record(self, name):
        return self._reader.has(name)

    def get_all_records(self):
        return self._reader.names()

    def get_record_size(self, name):
        return self._reader.length(name)

    def get_record_offset(self, name):
        return self._reader.offset(name)

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor of the first elements of a record."""
        import tede
        data = bytearray(self._reader.length(name))
        self._reader.read_into(name, data)
        return tede.frombuffer(data, dtype=dtype, count=numel) if numel else tede.empty(0, dtype=dtype)

    def version(self):
        return int(self.get_record("version"))

    def serialization_id(self):
        return self.get_record(".data/serialization_id").decode() if self.has_record(".data/serialization_id") else ""


class PyTorchFileWriter:
    """Writes a checkpoint record by record; `write_end_of_file` is the last call."""

    def __init__(self, name_or_buffer, compute_crc32=True, alignment=64):
        import os
        self._own = open(name_or_buffer, "wb") if isinstance(name_or_buffer, str) or hasattr(name_or_buffer, "__fspath__") else None
        name = os.path.splitext(os.path.basename(name_or_buffer))[0] if self._own else "archive"
        self._writer, self._names = Writer(self._own or name_or_buffer, name, compute_crc32), []

    def write_record(self, name, data, size=None):
        if hasattr(data, "nbytes") and callable(data.nbytes):           # a storage
            data = bytes(data)
        data = data.encode() if isinstance(data, str) else data
        self._names.append(name)
        self._writer.record(name, memoryview(data)[:size] if size is not None else data)

    def write_record_metadata(self, name, size):
        """A record of zeros, to be written over."""
        self.write_record(name, bytes(size))

    def get_all_written_records(self):
        return list(self._names)

    def write_end_of_file(self):
        if "version" not in self._names:
            self.write_record("version", b"3\n")
        self._writer.close()
        if self._own:
            self._own.close()
