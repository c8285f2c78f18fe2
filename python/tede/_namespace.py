"""Namespaces of operators, tede.linalg, tede.fft and tede.special: a family's operators under their short names."""
from tede import _C


def gather(module, operators, prefix, aliases=()):
    """Put the operators of a family into a module's namespace; aliases name operators of the package. The names, in order."""
    before = set(module)
    for name, operator in vars(operators).items():
        if not name.startswith("__"):
            module[name.removeprefix(prefix)] = operator
    for name, other in aliases:
        if name not in module and other in _C._operators:
            module[name] = _C._operators[other]
    return sorted(set(module) - before)
