"""Operators that libraries for PyTorch have in compiled parts of their own, in libraries of tede's (operators/): what is loaded when somebody
first names one.

The compiled part itself is linked with PyTorch's C++ library, which isn't here. To load it does nothing where all the operators that
it defines are among tede's; otherwise it is an error that names what is missing."""
import os
import re

from tede import _C, _overloads

OFFERED = {"torchvision": "torchvision", "torchaudio": "torchaudio", "_torchaudio": "torchaudio"}       # namespace -> tede's library
_loaded = set()


def operator(space, name):
    """An operator of one of these namespaces; None where there is none."""
    library = OFFERED[space]
    if library not in _loaded:
        from tede.config import folder
        _C._library_load(os.path.join(folder("lib/tede"), library + ".so"))
        _loaded.add(library)
        _overloads.defined[0] += 1
    return _overloads.OpOverloadPacket(space, name) if _C._overloads(space, name) else None


def stands_for(path):
    """Whether a file is linked with PyTorch's library, and all its operators are here: it needn't be loaded, and couldn't be. False for other
    files; OSError where an operator is missing."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return False                # the loader says what is wrong
    if not content.startswith(b"\x7fELF") or not re.search(rb"\0lib(torch|torch_cpu|torch_python|c10)\.so\0", content):
        return False
    defined = _defined_by(content)
    missing = sorted(name for name, spaces in defined.items() if not any(operator(space, name) for space in spaces))
    if defined and not missing:
        return True
    what = f"of its operators tede has no {', '.join(missing)}" if missing else "which operators it defines can't be seen"
    raise OSError(f"{path} is linked with PyTorch's C++ library, which isn't here, and {what}. tede has the operators of "
                  f"{' and '.join(dict.fromkeys(OFFERED.values()))}; others can be written for it: docs/extending.md")


def _defined_by(content):
    """{name: the namespaces of OFFERED in which it may be} of the operators whose schemas are in a file: whole, or with namespace, but then
    compilers may have split them, and joined the parts."""
    defined = {name.decode(): set(OFFERED) for name in re.findall(rb"\0(\w+)\([^\0]*\) ?-> ?[^\0]+(?=\0)", content)}
    for space, name in re.findall(rb"(?<!:)\b([A-Za-z_]\w*)::(\w+)\(Tensor[\[\]?]* \w", content):
        defined.setdefault(name.decode(), set()).update(own for own in OFFERED if space.decode().endswith(own))
    return defined
