"""Transformers (Vaswani et al., 2017): encoder and decoder layers, stacks of them, and both together."""
import copy
import warnings

from .. import functional as F
from .. import init
from .._functional.attention import _additive_mask
from .._native import T
from .activation import GELU, ReLU
from . import attention
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm
from ..._docs import completed

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"]


def _causal_mask(size, device=None, dtype=None):
    return T.triu(T.full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _is_causal(mask, is_causal, source, batch_first):
    """Whether `mask` is the causal one: as the caller says, or found out by comparing."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = source.size(0) if source.dim() == 2 else source.size(1 if batch_first else 0)
    causal = _causal_mask(size, mask.device, mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _get_clones(module, N):
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(name):
    if not isinstance(name, str):
        return name
    if name in ("relu", "gelu"):
        return getattr(F, name)
    raise RuntimeError(f"activation should be relu/gelu, not {name}")


@completed
class Transformer(Module):
    """An encoder that reads the source, and a decoder that reads the target so far and what the encoder made (Vaswani
    et al., 2017, "Attention Is All You Need"). Embeddings, positions and the last linear layer are yours to add.

        d_model: features of each position.
        nhead: heads of attention; d_model must be divisible by it.
        num_encoder_layers, num_decoder_layers: how many of each.
        dim_feedforward: features within the two-layer networks.
        dropout: of attention's weights and of what is added to the residual.
        activation: "relu", "gelu", or a function of a tensor.
        custom_encoder, custom_decoder: modules to use instead.
        layer_norm_eps: of the layer norms.
        batch_first: sequences are (N, T, E) instead of (T, N, E).
        norm_first: normalise before attention and networks instead of after.
        bias: whether linear layers and norms have one.
        <factory>

    Shape: src (S, N, E), tgt (T, N, E), or without N -> (T, N, E). Masks are those of `MultiheadAttention`: src_mask
    (S, S), tgt_mask (T, T), memory_mask (T, S), ``*_key_padding_mask`` (N, S) or (N, T). A RuntimeError if batches or
    features differ.

    >>> model = nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True)
    >>> causal = model.generate_square_subsequent_mask(3)
    >>> model(tede.randn(2, 5, 8), tede.randn(2, 3, 8), tgt_mask=causal).shape
    tede.Size([2, 3, 8])
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation=F.relu, custom_encoder=None,
                 custom_decoder=None, layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
                 bias: bool = True, device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                   device, dtype)
        norm = {"eps": layer_norm_eps, "bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model, **norm))
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, LayerNorm(d_model, **norm))
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src: T.Tensor, tgt: T.Tensor, src_mask: T.Tensor | None = None, tgt_mask: T.Tensor | None = None,
                memory_mask: T.Tensor | None = None, src_key_padding_mask: T.Tensor | None = None,
                tgt_key_padding_mask: T.Tensor | None = None, memory_key_padding_mask: T.Tensor | None = None,
                src_is_causal=None, tgt_is_causal=None, memory_is_causal=False) -> T.Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """The causal mask of `sz` positions: minus infinity above the diagonal, zero elsewhere, so that none sees a
        later one.

        >>> nn.Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        return _causal_mask(sz, device, dtype)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)


def _why_not_nested(layer):
    """What keeps PyTorch's encoder from its path for nested tensors; "" if nothing does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return " was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = ((layer.norm_first, ".norm_first was True"),
               (not attention.batch_first, ".self_attn.batch_first was not True(use batch_first for better inference performance)"),
               (not attention._qkv_same_embed_dim, ".self_attn._qkv_same_embed_dim was not True"),
               (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
               (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
               (layer.norm1.eps != layer.norm2.eps, ".norm1.eps was not equal to encoder_layer.norm2.eps"),
               (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"))
    return next((why for so, why in reasons if so), "")


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one behind the other.

        encoder_layer: is copied; the copies begin with the same weights, which `init` may change.
        norm: a layer for what the last gives, as `Transformer` has it.
        enable_nested_tensor, mask_check: whether evaluation with a padding mask leaves the padded positions out (they
            come out zero), as in PyTorch; and whether it is checked that they are at the end.

    Called as (src, mask=None, src_key_padding_mask=None, is_causal=None): src (T, N, E), or as the layer's batch_first
    says; masks as for `MultiheadAttention`. is_causal=None compares the mask with the causal one.

    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> nn.TransformerEncoder(layer, num_layers=2)(tede.randn(3, 5, 8)).shape
    tede.Size([3, 5, 8])
    """

    def __init__(self, encoder_layer, num_layers: int, norm=None, enable_nested_tensor: bool = True,
                 mask_check: bool = True) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        why_not = _why_not_nested(encoder_layer)
        self.use_nested_tensor = bool(enable_nested_tensor and not why_not)
        if enable_nested_tensor and why_not:
            warnings.warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer{why_not}", stacklevel=2)

    def forward(self, src: T.Tensor, mask: T.Tensor | None = None, src_key_padding_mask: T.Tensor | None = None,
                is_causal: bool | None = None) -> T.Tensor:
        """Encode `src`. Masks are those of `MultiheadAttention`."""
        padding = src_key_padding_mask
        src_key_padding_mask = _additive_mask(padding, "src_key_padding_mask", src.dtype, mask, "mask")
        mask = _additive_mask(mask, "mask", src.dtype)
        first, output = self.layers[0], src
        is_causal = _is_causal(mask, is_causal, src, first.self_attn.batch_first)
        packed = self._leaves_out_padding(src, mask, padding)
        if packed:
            output, src_key_padding_mask = T._nested_tensor_from_mask(src, padding.logical_not(), mask_check=False), None
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        if packed:
            output = output.to_padded_tensor(0.0, src.size())
        return output if self.norm is None else self.norm(output)

    def _leaves_out_padding(self, src, mask, padding):
        """Whether the layers get a nested tensor, as in PyTorch: padded positions aren't computed, and come out zero."""
        if (not getattr(self, "use_nested_tensor", False) or not attention._fast_path or padding is None or mask is not None
                or src.dim() != 3 or src.is_nested or self.layers[0].training or T.is_autocast_enabled()):
            return False
        if getattr(self, "mask_check", True) and not T._nested_tensor_from_mask_left_aligned(src, padding.logical_not()):
            return False
        return not attention._why_slow(src, self.layers[0]._weights())


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one behind the other.

        decoder_layer: is copied; the copies begin with the same weights.
        norm: a layer for what the last gives.

    Called as (tgt, memory, tgt_mask=None, memory_mask=None, ...), see `TransformerDecoderLayer`.

    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> nn.TransformerDecoder(layer, num_layers=2)(tede.randn(3, 4, 8), tede.randn(3, 5, 8)).shape
    tede.Size([3, 4, 8])
    """

    def __init__(self, decoder_layer, num_layers: int, norm=None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: T.Tensor, memory: T.Tensor, tgt_mask: T.Tensor | None = None,
                memory_mask: T.Tensor | None = None, tgt_key_padding_mask: T.Tensor | None = None,
                memory_key_padding_mask: T.Tensor | None = None, tgt_is_causal=None,
                memory_is_causal=False) -> T.Tensor:
        """Decode `tgt`, looking at `memory`. Masks are those of `MultiheadAttention`."""
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, tgt, self.layers[0].self_attn.batch_first)
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                           tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                           tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)
        return output if self.norm is None else self.norm(output)


@completed
class TransformerEncoderLayer(Module):
    """Self-attention, then a two-layer network, each with dropout, a residual and a layer norm::

        x = norm1(x + self_attn(x))                  # norm_first: x = x + self_attn(norm1(x))
        x = norm2(x + linear2(activation(linear1(x))))

        d_model: features of each position.
        nhead: heads of attention; d_model must be divisible by it.
        dim_feedforward: features within the network.
        dropout: of attention's weights, within the network, and of what is added to x.
        activation: "relu", "gelu", or a function of a tensor.
        layer_norm_eps: of both norms.
        batch_first: sequences are (N, T, E) instead of (T, N, E).
        norm_first: normalise before attention and network instead of after.
        bias: whether linear layers and norms have one.
        <factory>

    Called as (src, src_mask=None, src_key_padding_mask=None, is_causal=False): masks as for `MultiheadAttention`;
    is_causal says that src_mask is the causal one. -> the shape of src.

    >>> nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)(tede.randn(3, 5, 8)).shape
    tede.Size([3, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation=F.relu,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        where = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        activation = _get_activation_fn(activation)
        self.activation_relu_or_gelu = (1 if activation is F.relu or isinstance(activation, ReLU)
                                        else 2 if activation is F.gelu or isinstance(activation, GELU) else 0)
        self.activation = activation

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(self, src: T.Tensor, src_mask: T.Tensor | None = None, src_key_padding_mask: T.Tensor | None = None,
                is_causal: bool = False) -> T.Tensor:
        padding = _additive_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, "src_mask")
        mask = _additive_mask(src_mask, "src_mask", src.dtype)
        if not self.training and self._is_one_call(src, mask, padding):
            own = self.self_attn
            masks = own.merge_masks(mask, padding, src)
            return T._transformer_encoder_layer_fwd(
                src, own.embed_dim, own.num_heads, own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias,
                self.activation_relu_or_gelu == 2, self.norm_first, self.norm1.eps, self.norm1.weight, self.norm1.bias,
                self.norm2.weight, self.norm2.bias, self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias, *masks)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _weights(self):
        own = self.self_attn
        return (own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias,
                *(p for part in (self.norm1, self.norm2, self.linear1, self.linear2) for p in (part.weight, part.bias)))

    def _is_one_call(self, src, mask, padding):
        """Whether PyTorch takes its path for evaluation, the only one that takes nested tensors."""
        own = self.self_attn
        return (attention._fast_path and src.dim() == 3 and own.batch_first and own.in_proj_bias is not None
                and own._qkv_same_embed_dim and self.activation_relu_or_gelu != 0 and self.norm1.eps == self.norm2.eps
                and not (src.is_nested and (mask is not None or padding is not None)) and own.num_heads % 2 == 0 and not T.is_autocast_enabled()
                and not any(module._forward_hooks or module._forward_pre_hooks for module in self.modules())
                and not attention._why_slow(src, self._weights()))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                           is_causal=is_causal)[0]
        return self.dropout1(x)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to what an encoder made, then a two-layer network, each with dropout, a residual and a
    layer norm::

        x = norm1(x + self_attn(x))                  # norm_first: the norms come before, as in TransformerEncoderLayer
        x = norm2(x + multihead_attn(x, memory))
        x = norm3(x + linear2(activation(linear1(x))))

    The arguments are those of `TransformerEncoderLayer`.

    Called as (tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
    tgt_is_causal=False, memory_is_causal=False); masks as for `MultiheadAttention`. -> the shape of tgt.

    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> layer(tede.randn(3, 4, 8), tede.randn(3, 5, 8)).shape
    tede.Size([3, 4, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation=F.relu,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        where = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **where)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **where)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state):
        state.setdefault("activation", F.relu)
        super().__setstate__(state)

    def forward(self, tgt: T.Tensor, memory: T.Tensor, tgt_mask: T.Tensor | None = None,
                memory_mask: T.Tensor | None = None, tgt_key_padding_mask: T.Tensor | None = None,
                memory_key_padding_mask: T.Tensor | None = None, tgt_is_causal=False,
                memory_is_causal=False) -> T.Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
                           need_weights=False)[0]
        return self.dropout1(x)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x = self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                is_causal=is_causal, need_weights=False)[0]
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
