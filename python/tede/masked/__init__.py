"""Tensors some of whose elements don't count: reductions and normalizations (_ops), and a class that carries the mask along
(maskedtensor)."""
from tede.masked._ops import (  # noqa: F401
    _canonical_dim, _combine_input_and_mask, _filled, _input_mask, _output_mask, _reduction_identity, _where, amax, amin, argmax, argmin,
    cumprod, cumsum, log_softmax, logaddexp, logsumexp, mean, median, norm, normalize, prod, softmax, softmin, std, sum, var)

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
           "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name in ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", "maskedtensor"):
        from importlib import import_module
        module = import_module("tede.masked.maskedtensor")
        return module if name == "maskedtensor" else getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
