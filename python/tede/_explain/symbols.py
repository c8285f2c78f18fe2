"""Names of functions by address, from the symbol table of the file that holds them: the library's own, or a plug-in's.

Kernels are static functions, so the dynamic linker doesn't know them; the table that the compiler left in the file does.
The format is ELF64, little-endian (System V ABI, "Object Files"). A stripped library gives no names."""
import bisect
import functools
import os
import struct

from tede import _C

_FUNCTION = 2                 # STT_FUNC
_SYMTAB, _DYNSYM = 2, 11      # section types


_spans = []                   # (first address, end, path, first address of the file), of what is mapped from files


def _mapped(address):
    """(path, first address) of the file that is mapped there. The map is read again for what was loaded since."""
    for fresh in (False, True):
        if fresh:
            _spans[:] = _read_map()
        for low, high, path, first in _spans:
            if low <= address < high:
                return path, first
    return "", 0


def _read_map():
    spans, firsts = [], {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, _, _, _, *path = line.rstrip("\n").split(None, 5)
            if path and path[0].startswith("/"):
                low, high = (int(part, 16) for part in span.split("-"))
                spans.append((low, high, path[0], firsts.setdefault(path[0], low)))
    return spans


def _library():
    """The path of the mapped file that holds the library's code."""
    path, _ = _mapped(_C._anchor())
    if not path:
        raise OSError("the library's file was not found among the mapped files")
    return path


def read(path):
    """{address in the file: name} of the functions of an ELF64 file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit little-endian ELF file")
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    found = {}
    for _, kind, _, _, start, length, link, _, _, step in sections:
        if kind not in (_SYMTAB, _DYNSYM) or not step:
            continue
        names = sections[link][4]
        for at in range(start, start + length, step):
            name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == _FUNCTION and value:
                found[value] = data[names + name:data.index(b"\0", names + name)].decode()
    return found


@functools.cache
def _table(path):
    table = read(path) if os.path.exists(path) else {}
    addresses = sorted(table)
    return addresses, [table[a] for a in addresses]


def name_of(address):
    """The name of the function that begins at or before `address`; "" for 0 and where no name is known."""
    path, first = _mapped(address) if address else ("", 0)
    if not path:
        return ""
    addresses, names = _table(path)
    at = bisect.bisect_right(addresses, address - first) - 1
    return names[at] if at >= 0 else ""
