"""Concater and Zipper under the path that PyTorch has them at."""
from tede.utils.data.datapipes.map.pipes import ConcaterMapDataPipe, ZipperMapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]
