"""Stands before any other `torch` on the path of a program under tede.as_torch: importing it gives tede."""
from tede import as_torch

as_torch.install()
