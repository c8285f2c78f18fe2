"""NumPy's .npy and .npz files as tensors, without NumPy.

    x = tede.npy.load("x.npy")              # a tensor
    tensors = tede.npy.load("all.npz")      # a dict of them

A .npy file is mapped: nothing is read before it is used, and writing to the tensor changes no file. Numbers that were saved in another
byte order are copied, and so are tensors of an archive whose place doesn't suit their alignment.
"""
from tede import _C


def load(file):
    """The tensor of the .npy file of that path, or a dict of the tensors of a .npz archive. NumPy isn't needed.

        file: a path.

    >>> import numpy
    >>> import tede.npy
    >>> numpy.save("x.npy", numpy.arange(3))
    >>> tede.npy.load("x.npy")
    tensor([0, 1, 2])
    """
    with open(file, "rb") as opened:
        is_archive = opened.read(2) == b"PK"
    return _C._npz_load(file) if is_archive else _C._npy_load(file)
