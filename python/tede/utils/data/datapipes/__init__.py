"""Datasets as pipes: each takes its items from the pipe before it, and has a method for every step that can follow."""
from tede.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
