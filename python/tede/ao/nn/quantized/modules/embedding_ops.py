"""Embeddings whose rows are bytes, or 4 bits an element."""
import tede
from tede import nn

from .utils import _quantize_weight, repr_without

__all__ = ["EmbeddingPackedParams", "Embedding", "EmbeddingBag"]


def _empty(rows, columns, dtype):
    scales, zeros = tede.ones(rows, dtype=tede.float), tede.zeros(rows, dtype=tede.float)
    return tede.quantize_per_channel(tede.zeros(rows, columns), scales, zeros, 0, dtype)


class EmbeddingPackedParams(nn.Module):
    """The rows, packed for the operators."""
    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=tede.quint8):
        super().__init__()
        self.dtype = dtype
        if dtype not in (tede.quint8, tede.quint4x2):
            raise NotImplementedError(f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}")
        self.set_weight(_empty(num_embeddings, embedding_dim, dtype))

    def set_weight(self, weight):
        self._packed_weight = tede.ops.quantized.embedding_bag_prepack(weight)

    def _weight(self):
        return tede.ops.quantized.embedding_bag_unpack(self._packed_weight)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self):
        return repr(self._weight())


def _rows_of(mod, given):
    """A float layer's weight, quantized by rows."""
    observer = getattr(mod, "weight_fake_quant", None)
    if observer is not None:
        observer = getattr(observer, "activation_post_process", observer)
    elif getattr(mod, "qconfig", None) is not None and mod.qconfig.weight is not None:
        observer = mod.qconfig.weight()
    else:
        from tede.ao.quantization.qconfig import float_qparams_weight_only_qconfig
        observer = float_qparams_weight_only_qconfig.weight()
    if observer.dtype not in (tede.quint8, tede.quint4x2):
        raise AssertionError(f"The only supported dtype for nnq.{given.__name__} is torch.quint8 and torch.quint4x2, got {observer.dtype}")
    if observer.qscheme is not tede.per_channel_affine_float_qparams:
        raise AssertionError(f"{given.__name__} quantization is only supported with float_qparams_weight_only_qconfig.")
    observer(mod.weight)
    return observer.dtype, _quantize_weight(mod.weight.float(), observer)


class Embedding(nn.Module):
    """Rows by their numbers, as floats."""
    _version = 1

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
                 _weight=None, dtype=tede.quint8):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        if _weight is None:
            _weight = _empty(num_embeddings, embedding_dim, dtype)
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        self._packed_params.set_weight(_weight)

    def forward(self, indices):
        look_up = tede.ops.quantized.embedding_4bit if self.dtype is tede.quint4x2 else tede.ops.quantized.embedding_byte
        return look_up(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self):
        return repr_without(self, EmbeddingPackedParams)

    def extra_repr(self):
        return (f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self._packed_params.dtype}, "
                f"qscheme={self.weight().qscheme()}")

    def set_weight(self, w):
        self._packed_params.set_weight(w)

    def weight(self):
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        dtype, rows = _rows_of(mod, cls)
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=dtype)
        made.set_weight(rows)
        return made

    @classmethod
    def from_reference(cls, ref_embedding):
        return cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, _weight=ref_embedding.get_quantized_weight(),
                   dtype=ref_embedding.weight_dtype)


class EmbeddingBag(Embedding):
    """Sums of rows."""
    _version = 1

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="sum", sparse=False,
                 _weight=None, include_last_offset=False, dtype=tede.quint8):
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        look_up = tede.ops.quantized.embedding_bag_4bit if self.dtype is tede.quint4x2 else tede.ops.quantized.embedding_bag_byte
        return look_up(self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
                       compressed_indices_mapping, self.include_last_offset)

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        dtype, rows = _rows_of(mod, cls)
        made = cls(mod.num_embeddings, mod.embedding_dim, max_norm=mod.max_norm, norm_type=mod.norm_type,
                   scale_grad_by_freq=mod.scale_grad_by_freq, mode=mod.mode, sparse=mod.sparse, include_last_offset=mod.include_last_offset,
                   dtype=dtype)
        made.set_weight(rows)
        return made

    @classmethod
    def from_reference(cls, ref_embedding_bag):
        return cls(ref_embedding_bag.num_embeddings, ref_embedding_bag.embedding_dim, ref_embedding_bag.max_norm, ref_embedding_bag.norm_type,
                   ref_embedding_bag.scale_grad_by_freq, ref_embedding_bag.mode, ref_embedding_bag.sparse,
                   ref_embedding_bag.get_quantized_weight(), ref_embedding_bag.include_last_offset, ref_embedding_bag.weight_dtype)
