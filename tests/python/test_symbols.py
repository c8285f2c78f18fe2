"""What libtede.so exports is what the public headers declare: the ABI changes only where a committed header does."""
import pathlib
import re

import tede
from tede._explain import symbols

HEADERS = sorted((pathlib.Path(__file__).resolve().parents[2] / 'include/tede').glob('*.h'))
DECLARED = re.compile(r'\bTD_API\b([^;{}]*?)\b(td_\w+)\s*\(')
DATA = re.compile(r'\bTD_API\s+extern\b[^;]*?\b(td_\w+)\s*(?:\[[^\]]*\])*;|\bextern\s+TD_API\b[^;]*?\b(td_\w+)\s*(?:\[[^\]]*\])*;')


def exported():
    """Names of the functions and data that the dynamic linker sees."""
    import struct
    data = pathlib.Path(symbols._library()).read_bytes()
    offset, = struct.unpack_from('<Q', data, 0x28)
    size, count = struct.unpack_from('<HH', data, 0x3a)
    sections = [struct.unpack_from('<IIQQQQIIQQ', data, offset + i * size) for i in range(count)]
    table = next(s for s in sections if s[1] == 11)
    names = sections[table[6]][4]
    for at in range(table[4], table[4] + table[5], table[9]):
        name, info, _, section, _, _ = struct.unpack_from('<IBBHQQ', data, at)
        if section and info & 15 in (1, 2) and info >> 4 in (1, 2):
            yield data[names + name:data.index(b'\0', names + name)].decode()


def test_exports_are_what_headers_declare():
    declared = {'TD_NONE'}          # tensor.h: the tensor that stands for none
    for header in HEADERS:
        text = re.sub(r'/\*.*?\*/', '', header.read_text(), flags=re.S)
        declared |= {name for _, name in DECLARED.findall(text)}
        declared |= {a or b for a, b in DATA.findall(text)}
    of_gcov = re.compile('__gcov_|mangle_path$')      # of a build that counts lines
    there = {name for name in exported() if not of_gcov.match(name)}
    assert tede and not sorted(there - declared), 'exported, but in no public header'
    assert not sorted(declared - there), 'declared, but not exported'
