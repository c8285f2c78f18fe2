"""torch.nn.functional: the functions that the layers of `tede.nn` call, without state.

Functions with a Python part (checks, older arguments, a choice between native functions) are in
`_functional/`, one file per family, loaded when first named. The others *are* native functions: looked up when first
asked for, so a call costs no Python frame.
"""
import sys

from ._native import N, T

TYPE_CHECKING = False
if TYPE_CHECKING:       # what __getattr__ gives, for those who read without running
    from tede._C._nn import *                                                       # noqa: F403
    from ._functional.activation import *                                           # noqa: F403
    from ._functional.attention import *                                            # noqa: F403
    from ._functional.loss import *                                                 # noqa: F403
    from ._functional.norm import *                                                 # noqa: F403
    from ._functional.pooling import *                                              # noqa: F403
    from ._functional.vision import *                                               # noqa: F403

_FAMILIES = {
    "activation":
        "celu elu glu gumbel_softmax hardsigmoid hardswish hardtanh leaky_relu log_softmax mish relu relu6 rrelu "
        "selu sigmoid silu softmax softmin softsign tanh tanhshrink threshold",
    "attention":
        "multi_head_attention_forward",
    "loss":
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss "
        "gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy margin_ranking_loss "
        "mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss "
        "smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss",
    "norm":
        "alpha_dropout batch_norm dropout dropout1d dropout2d dropout3d embedding embedding_bag "
        "feature_alpha_dropout group_norm instance_norm layer_norm local_response_norm normalize rms_norm",
    "pooling":
        "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices "
        "adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices "
        "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool1d_with_indices "
        "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d "
        "max_unpool3d",
    "products":
        "grouped_mm scaled_grouped_mm scaled_mm",
    "vision":
        "affine_grid fold grid_sample interpolate pad unfold upsample upsample_bilinear upsample_nearest",
}
_HOME = {name: family for family, names in _FAMILIES.items() for name in names.split()}
# Not for everybody, but programs that copy from PyTorch's layers import them.
_INNER = {"_canonical_mask": "attention", "_get_softmax_dim": "activation", "_in_projection": "attention",
          "_in_projection_packed": "attention", "_none_or_dtype": "attention", "_unpool_output_size": "pooling",
          "_verify_batch_size": "norm"}
_NATIVE = {
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
    "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "native_channel_shuffle", "one_hot",
    "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
}
_RENAMED = {"logsigmoid": "log_sigmoid"}
__all__ = sorted({*_HOME, *_NATIVE, "logsigmoid"})


def __getattr__(name):
    if name in _HOME or name in _INNER:
        module = f"{__package__}._functional.{_HOME.get(name) or _INNER[name]}"
        __import__(module)
        value = getattr(sys.modules[module], name)
        if name in _HOME:       # classes and modes are passed the function, not the operators within
            value = T._C.overridable(value, __name__)
    elif name in _NATIVE or name in _RENAMED:
        value = getattr(N, _RENAMED.get(name, name))
    elif name in ("_single", "_pair", "_triple", "_list_with_default"):
        from .modules import utils
        value = getattr(utils, name)
    elif name == "_Reduction":
        from . import _reduction as value
    elif name == "grad":
        from . import grad as value
    elif name == "Tensor":
        value = T.Tensor
    elif "_torch_function" in name:
        from .. import _override
        value = getattr(_override, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return __all__
