"""Names of the library's functions by address, from the symbol table of its own file.

Kernels are static functions, so the dynamic linker doesn't know them; the table that the compiler left in the file does.
The format is ELF64, little-endian (System V ABI, "Object Files"). A stripped library gives no names."""
import bisect
import functools
import os
import struct

from tede import _C

_FUNCTION = 2                 # STT_FUNC
_SYMTAB, _DYNSYM = 2, 11      # section types


def _library():
    """The path of the mapped file that holds the library's code."""
    anchor = _C._anchor()
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, *_, path = line.rstrip("\n").split(None, 5)
            low, high = (int(part, 16) for part in span.split("-"))
            if low <= anchor < high:
                return path
    raise OSError("the library's file was not found among the mapped files")


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
def _table():
    path = _library()
    if not os.path.exists(path):
        return [], [], 0
    table = read(path)
    base = _C._anchor() - next(value for value, name in table.items() if name == "td_watch")
    addresses = sorted(table)
    return addresses, [table[a] for a in addresses], base


def name_of(address):
    """The name of the function that begins at or before `address`; "" for 0 and where no name is known."""
    if not address:
        return ""
    addresses, names, base = _table()
    at = bisect.bisect_right(addresses, address - base) - 1
    return names[at] if at >= 0 else ""
