"""Attention whose projections are layers that can be observed; the scores are computed in floats between them."""
import warnings

import tede
from tede import nn
from tede.ao.nn import _steps
from tede.ao.nn.quantized.modules.functional_modules import FloatFunctional
from tede.ao.quantization.stubs import DeQuantStub, QuantStub
from tede.nn import functional as F

__all__ = ["MultiheadAttention"]

_PROJECTIONS = ("linear_Q", "linear_K", "linear_V")


def _as_bool(mask, name):
    if mask is not None and mask.dtype is tede.uint8:
        warnings.warn(f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated. Use bool tensor instead.", stacklevel=4)
        return mask.to(tede.bool)
    return mask


def _widened(mask):
    """A mask for one more key."""
    return None if mask is None else F.pad(mask, (0, 1))


class MultiheadAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention with a linear layer for each of query, key and value."""
    _FLOAT_MODULE = nn.MultiheadAttention
    __constants__ = ["batch_first"]

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
                 batch_first=False, device=None, dtype=None):
        where = {"device": device, "dtype": dtype}
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, **where)
        for name, inputs in zip(_PROJECTIONS, (self.embed_dim, self.kdim, self.vdim), strict=True):
            setattr(self, name, nn.Linear(inputs, self.embed_dim, bias=bias, **where))
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **where)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output, self.quant_attn_output_weights = QuantStub(), QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = DeQuantStub(), DeQuantStub(), DeQuantStub()

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        made = cls(other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None, other.bias_k is not None, other.add_zero_attn,
                   other.kdim, other.vdim, other.batch_first)
        made.bias_k, made.bias_v, made.qconfig = other.bias_k, other.bias_v, other.qconfig
        made.out_proj.weight, made.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        weights = other.in_proj_weight.chunk(3) if other._qkv_same_embed_dim else (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for name, weight, bias in zip(_PROJECTIONS, weights, biases, strict=True):
            layer = getattr(made, name)
            layer.weight = nn.Parameter(weight, weight.requires_grad)
            layer.bias = None if bias is None else nn.Parameter(bias, bias.requires_grad)
        return _steps.prepare_as(made, False)

    @classmethod
    def from_observed(cls, other):
        raise NotImplementedError("It looks like you are trying to prepare an MHA module. Please, see the examples on quantizable MHAs.")

    def dequantize(self):
        """A float layer with the numbers that the quantized weights stand for."""
        layers = [getattr(self, name)._weight_bias() for name in _PROJECTIONS]
        made = self._FLOAT_MODULE._FLOAT_MODULE if self._FLOAT_MODULE is not nn.MultiheadAttention else nn.MultiheadAttention
        made = made(self.embed_dim, self.num_heads, self.dropout, layers[0][1] is not None, self.bias_k is not None, self.add_zero_attn, self.kdim,
                    self.vdim, self.batch_first)
        for name in ("bias_k", "bias_v"):
            given = getattr(self, name)
            if given is not None:
                setattr(made, name, nn.Parameter(given.dequantize()))
        weight, bias = self.out_proj._weight_bias()
        made.out_proj.weight = nn.Parameter(weight.dequantize())
        if bias is not None:
            made.out_proj.bias = nn.Parameter(bias.detach())
        weights = [weight.dequantize() for weight, _ in layers]
        if made._qkv_same_embed_dim:
            made.in_proj_weight = nn.Parameter(tede.cat(weights))
        else:
            for name, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True):
                setattr(made, name, nn.Parameter(weight))
        if made.in_proj_bias is not None:
            made.in_proj_bias = nn.Parameter(tede.cat([bias.detach() for _, bias in layers]))
        return made

    def _check_mask(self, mask, batch, targets, sources):
        """A mask in three dimensions."""
        mask = _as_bool(mask, "attn_mask")
        if mask is None:
            return None
        if not mask.is_floating_point() and mask.dtype is not tede.bool:
            raise AssertionError(f"Only float and bool types are supported for attn_mask, not {mask.dtype}")
        if mask.dim() not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
        if mask.dim() == 2:
            mask = mask.unsqueeze(0)
            if mask.shape != (1, targets, sources):
                raise RuntimeError("The size of the 2D attn_mask is not correct.")
        elif mask.shape != (batch * self.num_heads, targets, sources):
            raise RuntimeError("The size of the 3D attn_mask is not correct.")
        return mask

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        if is_causal:
            raise AssertionError("causal mask not supported by AO MHA module" if attn_mask is None else "Only allow causal mask or attn_mask")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        targets, batch, width = query.shape
        if width != self.embed_dim:
            raise AssertionError(f"embed_dim mismatch: {self.embed_dim} != {width}")
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}")
        heads, head = self.num_heads, self.embed_dim // self.num_heads
        mask, padding = self._check_mask(attn_mask, batch, targets, key.size(0)), _as_bool(key_padding_mask, "key_padding_mask")
        q, k, v = self.q_scaling_product.mul_scalar(self.linear_Q(query), head ** -0.5), self.linear_K(key), self.linear_V(value)
        if (self.bias_k is None) != (self.bias_v is None):
            raise AssertionError("bias_k and bias_v must both be None or both have values")
        if self.bias_k is not None:
            k, v = tede.cat([k, self.bias_k.repeat(1, batch, 1)]), tede.cat([v, self.bias_v.repeat(1, batch, 1)])
            mask, padding = _widened(mask), _widened(padding)
        q, k, v = (x.contiguous().view(-1, batch * heads, head).transpose(0, 1) for x in (q, k, v))
        if padding is not None and padding.shape != (batch, k.size(1)):
            raise AssertionError(f"key_padding_mask must be of size {[batch, k.size(1)]}, got {list(padding.shape)}")
        # Out of the integers here, and back in below.
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
            mask, padding = _widened(mask), _widened(padding)
        scores = tede.bmm(q, k.transpose(1, 2))
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf")) if mask.dtype is tede.bool else scores + mask
        if padding is not None:
            scores = scores.view(batch, heads, targets, -1).masked_fill(padding[:, None, None], float("-inf")).view(batch * heads, targets, -1)
        weights = F.dropout(F.softmax(scores, dim=-1), p=self.dropout, training=self.training)
        made = tede.bmm(weights, v).transpose(0, 1).reshape(targets, batch, self.embed_dim)
        made = self.out_proj(self.quant_attn_output(made))
        weights = self.quant_attn_output_weights(weights)
        if self.batch_first:
            made = made.transpose(0, 1)
        if not need_weights:
            return made, None
        weights = weights.view(batch, heads, targets, -1)
        return made, weights.mean(dim=1) if average_attn_weights else weights
