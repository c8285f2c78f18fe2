"""Operands for tests that compare quantized results with PyTorch's, which must be installed."""
import tede
import torch


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def here(x):
    return tede.tensor(x.detach().numpy())


def pair(x, scale, zero, dtype="quint8"):
    return tede.quantize_per_tensor(here(x), scale, zero, getattr(tede, dtype)), torch.quantize_per_tensor(x, scale, zero, getattr(torch, dtype))
