"""Multi-head attention with projections and masks: the function behind `nn.MultiheadAttention`.

The arithmetic and its order are PyTorch's, so that results agree closely: with weights asked for, a batched product of
scaled queries and keys, softmax, dropout, a product with the values; without, `scaled_dot_product_attention`.
"""
import math
import warnings

from .._native import N, T
from .norm import dropout
from .vision import pad


def multi_head_attention_forward(query: T.Tensor, key: T.Tensor, value: T.Tensor, embed_dim_to_check: int,
                                 num_heads: int, in_proj_weight: T.Tensor, in_proj_bias: T.Tensor, bias_k: T.Tensor,
                                 bias_v: T.Tensor, add_zero_attn: bool, dropout_p: float, out_proj_weight,
                                 out_proj_bias: T.Tensor, training: bool = True,
                                 key_padding_mask: T.Tensor | None = None, need_weights: bool = True,
                                 attn_mask: T.Tensor | None = None, use_separate_proj_weight: bool = False,
                                 q_proj_weight: T.Tensor | None = None, k_proj_weight: T.Tensor | None = None,
                                 v_proj_weight: T.Tensor | None = None, static_k: T.Tensor | None = None,
                                 static_v: T.Tensor | None = None, average_attn_weights: bool = True,
                                 is_causal: bool = False) -> tuple[T.Tensor, T.Tensor | None]:
    """(output, weights or None) of attention between (length, batch, width) inputs, or (length, width) ones: the
    function behind `nn.MultiheadAttention`, whose parameters are arguments here.

        query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal: as that is
            called.
        embed_dim_to_check: the width.
        in_proj_weight, in_proj_bias, out_proj_weight: T.Tensor, out_proj_bias, bias_k, bias_v: its parameters.
        use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight: three projections instead of
            in_proj_weight.
        add_zero_attn, dropout_p, training: its settings.
        static_k, static_v: (batch * heads, length, head size): keys and values that are projected already.

    >>> layer, x = nn.MultiheadAttention(4, 2), tede.randn(3, 1, 4)
    >>> output, weights = F.multi_head_attention_forward(
    ...     x, x, x, 4, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, layer.out_proj.weight, layer.out_proj.bias)
    >>> output.shape, weights.shape
    (tede.Size([3, 1, 4]), tede.Size([1, 3, 3]))
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    key_padding_mask = _additive_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None                        # the native function makes the causal mask itself
    else:
        attn_mask = _additive_mask(attn_mask, "attn_mask", query.dtype)
        is_causal = is_causal and key_padding_mask is None
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    if head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    plain = not use_separate_proj_weight and not need_weights and bias_k is None and static_k is None and static_v is None and not add_zero_attn
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projections(query, key, value, weights, in_proj_weight, in_proj_bias, plain)

    if attn_mask is not None:
        attn_mask = _check_mask(attn_mask, (length, key.shape[0]), batch * num_heads)
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k is set but bias_v is None" if bias_v is None else "bias_v is set but bias_k is None")
    if bias_k is not None:
        for static, what in (static_k, "key"), (static_v, "value"):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {what}.")
        k, v = T.cat([k, bias_k.repeat(1, batch, 1)]), T.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)

    if plain:
        q, k, v = (x.unflatten(-1, (num_heads, head)).permute(1, 2, 0, 3) for x in (q, k, v))
    else:
        q = q.view(length, batch * num_heads, head).transpose(0, 1)
        k = _heads(k, static_k, "static_k", batch * num_heads, head)
        v = _heads(v, static_v, "static_v", batch * num_heads, head)
    if add_zero_attn:
        k, v = (T.cat([x, T.zeros((batch * num_heads, 1, head), dtype=x.dtype, device=x.device)], dim=1) for x in (k, v))
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    source = k.size(-2)

    if key_padding_mask is not None:
        spread = _spread(key_padding_mask, batch, num_heads, source)
        attn_mask = spread if attn_mask is None else attn_mask + spread
    dropout_p = dropout_p if training else 0.0

    weights = None
    if need_weights:
        output, weights = _weighted(q, k, v, attn_mask, dropout_p)
        output = output.transpose(0, 1).reshape(length * batch, width)
        weights = weights.view(batch, num_heads, length, source)
        weights = weights.mean(dim=1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    else:
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(0) if attn_mask.size(0) == 1 and attn_mask.dim() == 3 else attn_mask.view(batch, num_heads, -1, source)
        if not plain:
            q = q.view(batch, num_heads, length, head)
            k, v = (x.view(batch, num_heads, source, head) for x in (k, v))
        output = N.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
        # In training the result lies in memory as PyTorch's does: a dropout after it draws its mask in that order.
        if plain and batched and not training and _by_batches(query) is not None:
            output = output.transpose(1, 2).reshape(batch, length, width)
            return N.linear(output, out_proj_weight, out_proj_bias).transpose(0, 1), None
        output = output.permute(2, 0, 1, 3).reshape(batch * length, width)
    output = N.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(length, batch, output.size(1))
    return (output if batched else output.squeeze(1)), weights


def _projections(query, key, value, separate, weight, bias, plain):
    """q, k, v: by three weights, or by one that has them all. `plain`: whether heads can stay where the projection wrote them."""
    if separate is not None:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
        return _project(query, key, value, separate, (None,) * 3 if bias is None else bias.chunk(3))
    if key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return _in_projection_packed(query, key, value, weight, bias, plain)


def _spread(key_padding_mask, batch, num_heads, source):
    """The padding's mask for each head of each batch."""
    for place, wanted in enumerate((batch, source)):
        if key_padding_mask.shape[place] != wanted:
            raise AssertionError(f"Expected key_padded_mask.shape[{place}] to be {wanted}, but got {key_padding_mask.shape[place]}")
    return key_padding_mask.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, source)


def _weighted(q, k, v, attn_mask, dropout_p):
    """(output, weights) of attention whose weights are wanted, too."""
    scaled, keys = q * math.sqrt(1.0 / float(q.size(-1))), k.transpose(-2, -1)
    weights = (T.bmm(scaled, keys) if attn_mask is None else T.baddbmm(attn_mask, scaled, keys)).softmax(-1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return T.bmm(weights, v), weights


def _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads):
    if query.dim() not in (2, 3):
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received "
                             f"{query.dim()}-D query tensor")
    batched = query.dim() == 3
    rank = query.dim()
    what = f"For {'batched' if batched else 'unbatched'} ({rank}-D) `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"{what} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D "
                             "tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"{what} `key_padding_mask` to be `None` or {rank - 1}-D but found "
                             f"{key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                                 "instead")
        wanted = (num_heads, query.shape[0], key.shape[0])
        if not batched and attn_mask.dim() == 3 and tuple(attn_mask.shape) != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    return batched


def _additive_mask(mask, name, dtype, other=None, other_name="attn_mask"):
    """A mask to add: a boolean one becomes minus infinity where it is true."""
    if mask is None:
        return None
    if mask.dtype != T.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warnings.warn(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
                      stacklevel=4)
    if mask.dtype == T.bool:
        mask = T.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    return mask


def _check_mask(mask, flat, heads):
    wanted = flat if mask.dim() == 2 else (heads, *flat)
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _one_more(mask):
    return None if mask is None else pad(mask, (0, 1))


def _heads(projected, static, name, count, head):
    """(length, batch, width) as (batch * heads, length, head); or what the caller brought in that shape."""
    if static is None:
        return projected.view(projected.shape[0], count, head).transpose(0, 1)
    for place, wanted in ((0, count), (2, head)):
        if static.size(place) != wanted:
            raise AssertionError(f"expecting {name}.size({place}) of {wanted}, but got {static.size(place)}")
    return static


def _project(query, key, value, weights, biases):
    width = query.size(-1)
    for kind, source, weight, bias in zip(("query", "key", "value"), (query, key, value), weights, biases):
        wanted = (width, source.size(-1))
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {kind[0]}_proj_weight is None")
        if tuple(weight.shape) != wanted:
            raise AssertionError(f"expecting {kind} weights shape of {wanted}, but got {weight.shape}")
        if bias is not None and tuple(bias.shape) != (width,):
            raise AssertionError(f"expecting {kind} bias shape of {(width,)}, but got {bias.shape}")
    return tuple(N.linear(*row) for row in zip((query, key, value), weights, biases))


def _by_batches(x):
    """(batch, length, width), if that is how (length, batch, width) lies in memory, as it does with `batch_first`."""
    return x.transpose(0, 1) if not x.is_contiguous() and x.transpose(0, 1).is_contiguous() else None


def _linear(x, weight, bias):
    transposed = _by_batches(x)
    return N.linear(x, weight, bias) if transposed is None else N.linear(transposed, weight, bias).transpose(0, 1)


def _in_projection_packed(q, k, v, weight, bias=None, views=False):
    """Three projections whose weights lie in one matrix: in one product where the inputs are the same tensor. Its parts
    are copied out of it unless `views` says that parts of its rows will do."""
    width = q.size(-1)
    linear = _linear if views else N.linear

    def split(projected, parts):
        if views:
            return projected.unflatten(-1, (parts, width)).unbind(-2)
        projected = projected.unflatten(-1, (parts, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return tuple(projected[i] for i in range(parts))

    if k is v and q is k:
        return split(linear(q, weight, bias), 3)
    if k is v:
        w_q, w_kv = weight.split([width, 2 * width])
        b_q, b_kv = (None, None) if bias is None else bias.split([width, 2 * width])
        return (linear(q, w_q, b_q), *split(linear(k, w_kv, b_kv), 2))
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((q, k, v), weight.chunk(3), biases))


# Under the names that copies of PyTorch's attention import.

def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    return _project(q, k, v, (w_q, w_k, w_v), (b_q, b_k, b_v))


def _none_or_dtype(input):
    if input is not None and not isinstance(input, T.Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    other = T.empty(0, dtype=other_type) if check_other and other_type is not None else None
    return _additive_mask(mask, mask_name, target_type, other, other_name)
