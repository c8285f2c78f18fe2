"""TorchVersion: a version that is a string and compares as a version."""
import re

__all__ = ["TorchVersion"]


def _key(version):
    return tuple(int(n) for n in re.match(r"\d+(\.\d+)*", str(version)).group().split("."))


def _compare(version, other):
    a, b = (other if isinstance(other, tuple) else _key(other) for other in (version, other))
    n = max(len(a), len(b))
    a, b = (tuple(x) + (0,) * (n - len(x)) for x in (a, b))
    return (a > b) - (a < b)


class TorchVersion(str):
    """A version that compares with strings and tuples: ``TorchVersion("2.13.0") > "2.4"``, ``>= (2, 13)``.

    >>> from tede.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.4"
    True
    """

    def __lt__(self, other):
        return _compare(self, other) < 0

    def __le__(self, other):
        return _compare(self, other) <= 0

    def __gt__(self, other):
        return _compare(self, other) > 0

    def __ge__(self, other):
        return _compare(self, other) >= 0

    def __eq__(self, other):
        try:
            return _compare(self, other) == 0
        except (AttributeError, TypeError):
            return NotImplemented

    __hash__ = str.__hash__
