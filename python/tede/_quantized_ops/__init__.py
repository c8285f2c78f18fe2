"""torch.ops.quantized: operators on quantized tensors, made of the core's, with PyTorch's schemas.

They are defined when the namespace is first used. Those whose arguments are tensors and numbers are operators of the dispatcher like any
other; the rest take or give packed weights (packed.py), which are objects of Python, and are called by objects that look like operators'
(define.py). A result is computed in float32 as PyTorch's kernels do it, so that integers are equal."""
from tede._quantized_ops import arithmetic, embeddings, layers, products, recurrent  # noqa: F401
from tede._quantized_ops.define import packet  # noqa: F401
from tede._quantized_ops.embeddings import _choose_qparams_per_tensor, _saturate_weight_to_fp16, choose_qparams_optimized  # noqa: F401
from tede._quantized_ops.layers import quantized_batch_norm, quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d  # noqa: F401
from tede._quantized_ops.recurrent import quantized_gru, quantized_lstm  # noqa: F401
