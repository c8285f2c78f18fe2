"""Paths, as PyTorch's own tools ask for them; its hooks for other build systems have no other meaning here."""
import os
import tempfile

import tede


def get_file_path(*path_components):
    """The path of a file of the package."""
    return os.path.join(os.path.dirname(os.path.abspath(tede.__file__)), *path_components)


def get_file_path_2(*path_components):
    return os.path.join(*path_components)


def get_writable_path(path):
    """The path, or a new folder where nothing may be written to it."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))
