"""MultiheadAttention (Vaswani et al., 2017) as a layer."""
from .. import functional as F
from .. import init
from .._functional.attention import _additive_mask
from .._native import T
from ...overrides import has_torch_function
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module
from ..._docs import completed


_fast_path = True           # torch.backends.mha: whether nested tensors are taken


_FAST_ON = ("cpu", "cuda", "xpu")


def _why_slow(x, parameters):
    """What of the tensors keeps PyTorch from its path for evaluation, the only one that takes nested tensors; "" if nothing does."""
    if x.device.type not in _FAST_ON:
        return "some Tensor argument's device is neither one of cpu, cuda or privateuse1"
    if has_torch_function((x, *parameters)):
        return "some Tensor argument has_torch_function"
    if T.is_grad_enabled() and any(p is not None and p.requires_grad for p in (x, *parameters)):
        return "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad"
    return ""


@completed
class MultiheadAttention(Module):
    """``softmax(q k^T / sqrt(head size)) v`` in several subspaces at once, joined and projected (Vaswani et al., 2017,
    "Attention Is All You Need"); q, k, v are linear maps of query, key and value.

        embed_dim: features of query and output.
        num_heads: how many subspaces; embed_dim must be divisible by it (AssertionError).
        dropout: of the weights after softmax, while training.
        bias: whether the linear maps have one.
        add_bias_kv: append one learned key and value to every sequence.
        add_zero_attn: append a key and a value of zeros.
        kdim, vdim: features of key and value, else embed_dim.
        batch_first: tensors are (N, T, E) instead of (T, N, E).
        <factory>

    Called as (query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
    is_causal=False):

        query (T, N, E), key (S, N, kdim), value (S, N, vdim), or all without N.
        key_padding_mask (N, S): True, or minus infinity, where a key is padding.
        attn_mask (T, S) or (N * num_heads, T, S): True where a query may not look; numbers are added to the products.
        need_weights: False gives None for them, and is faster: `F.scaled_dot_product_attention` runs.
        average_attn_weights: the weights' mean over the heads instead of all.
        is_causal: says that attn_mask is the causal one; it must be given, too.

    -> (output (T, N, E), weights (N, T, S), or (N, num_heads, T, S)). A row whose keys are all masked is NaN.

    >>> attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    >>> x = tede.randn(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (tede.Size([3, 5, 8]), tede.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: T.Tensor | None
    bias_v: T.Tensor | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(T.empty((3 * embed_dim, embed_dim), **where))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(T.empty((embed_dim, embed_dim), **where))
            self.k_proj_weight = Parameter(T.empty((embed_dim, self.kdim), **where))
            self.v_proj_weight = Parameter(T.empty((embed_dim, self.vdim), **where))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", Parameter(T.empty(3 * embed_dim, **where)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        if add_bias_kv:
            self.bias_k = Parameter(T.empty((1, 1, embed_dim), **where))
            self.bias_v = Parameter(T.empty((1, 1, embed_dim), **where))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(self, query: T.Tensor, key: T.Tensor, value: T.Tensor, key_padding_mask: T.Tensor | None = None,
                need_weights: bool = True, attn_mask: T.Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[T.Tensor, T.Tensor | None]:
        """(output, weights or None). A mask says with True where not to look, or is added to the scores."""
        nested = query.is_nested or key.is_nested or value.is_nested
        why_slow = "training is enabled" if self.training else self._why_slow(query, key, value, key_padding_mask, attn_mask)
        if nested and why_slow:
            raise AssertionError("MultiheadAttention does not support NestedTensor outside of its fast path. "
                                 f"The fast path was not hit because {why_slow}")
        key_padding_mask = _additive_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask)
        attn_mask = _additive_mask(attn_mask, "attn_mask", query.dtype)
        if not why_slow:
            return T._native_multi_head_attention(query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
                                                  self.out_proj.weight, self.out_proj.bias, *self._one_mask(attn_mask, key_padding_mask, query,
                                                                                                           need_weights, average_attn_weights))
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            # What was one tensor must stay one: the projection looks for that.
            first = query
            query = query.transpose(1, 0)
            same_value = key is value
            key = query if key is first else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (output.transpose(1, 0) if transposed else output), weights

    def _one_mask(self, attn_mask, key_padding_mask, query, *about_weights):
        """The last arguments of the native function."""
        mask, kind = self.merge_masks(attn_mask, key_padding_mask, query)
        return mask, *about_weights, kind

    def _why_slow(self, query, key, value, key_padding_mask, attn_mask):
        """What keeps PyTorch from attention in one call, for evaluation; "" if nothing does."""
        masks = [mask for mask in (attn_mask, key_padding_mask) if mask is not None]
        weight, bias = self.in_proj_weight, self.in_proj_bias
        reasons = ((any(mask.is_floating_point() for mask in masks), "floating-point masks are not supported for fast path."),
                   (not _fast_path, "torch.backends.mha.get_fastpath_enabled() was not True"),
                   (query.dim() != 3, "input not batched; expected query.dim() of 3"),
                   (query is not key or key is not value,
                    "non-self attention was used (query, key, and value are not the same Tensor)"),
                   (bias is not None and query.dtype != bias.dtype, "dtypes of query and self.in_proj_bias don't match"),
                   (weight is None, "in_proj_weight was None"),
                   (weight is not None and query.dtype != weight.dtype, "dtypes of query and self.in_proj_weight don't match"),
                   (self.num_heads % 2 != 0, "self.num_heads is not even"),
                   (not self.batch_first, "batch_first was not True"),
                   (self.bias_k is not None, "self.bias_k was not None"),
                   (self.bias_v is not None, "self.bias_v was not None"),
                   (self.add_zero_attn, "add_zero_attn was enabled"),
                   (not self._qkv_same_embed_dim, "_qkv_same_embed_dim was not True"),
                   (query.is_nested and masks,
                    "supplying both src_key_padding_mask and src_mask at the same time is not supported with NestedTensor input"),
                   (T.is_autocast_enabled(), "autocast is enabled"),
                   (bias is None, "self.in_proj_bias was None"))
        return (next((why for so, why in reasons if so), "")
                or _why_slow(query, (weight, bias, self.out_proj.weight, self.out_proj.bias)))

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """(mask, kind) of both masks in one: kind 1 is padding alone, 2 has an attention mask, None is no mask."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2
