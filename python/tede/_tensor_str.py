"""Printing tensors (torch._tensor_str): print options, and the text of the elements alone."""
import contextlib
import re

from tede import _C
from tede._C import set_printoptions  # noqa: F401


class _Options:
    """The options as attributes, read where they are kept."""

    def __getattr__(self, name):
        try:
            return _C._get_printoptions()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        set_printoptions(**{**_C._get_printoptions(), name: value})


PRINT_OPTS = _Options()


def get_printoptions():
    """The options as a dict: precision, threshold, edgeitems, linewidth, sci_mode."""
    return _C._get_printoptions()


@contextlib.contextmanager
def printoptions(**kwargs):
    """Other options for a while."""
    before = get_printoptions()
    set_printoptions(**{**before, **kwargs})
    try:
        yield
    finally:
        set_printoptions(**before)


def _tensor_str(self, indent):
    """The elements in their brackets, lines after the first indented by `indent`."""
    text = repr(self.detach())
    found = re.match(r"[\w.]*\((.*?)(,\s+(?:dtype|device|size|layout)=.*)?\)$", text, re.S)
    return found[1].replace("\n" + " " * 7, "\n" + " " * indent)


def _str(self, *, tensor_contents=None):
    """repr(self), with other contents if they are given."""
    return self.__repr__(tensor_contents=tensor_contents) if tensor_contents is not None else repr(self)
