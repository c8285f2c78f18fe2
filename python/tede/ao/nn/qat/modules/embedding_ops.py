"""Embeddings whose rows go through fake quantization."""
import tede
from tede import nn
from tede.nn import functional as F

__all__ = ["Embedding", "EmbeddingBag"]


def _place(layer, qconfig, device, dtype):
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    if qconfig.weight().qscheme is not tede.per_channel_affine_float_qparams:
        raise AssertionError(f"{layer._TITLE} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {qconfig.weight().qscheme}")
    layer.qconfig = qconfig
    layer.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})


def _check(cls, mod):
    if type(mod) is not cls._FLOAT_MODULE:
        raise AssertionError(f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")
    if mod.qconfig.weight().qscheme is not tede.per_channel_affine_float_qparams:
        raise AssertionError(f"{cls._TITLE} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {mod.qconfig.weight().qscheme}")


class Embedding(nn.Embedding):
    _FLOAT_MODULE, _TITLE = nn.Embedding, "Embedding"

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
                 _weight=None, device=None, dtype=None, qconfig=None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device=device,
                         dtype=dtype)
        _place(self, qconfig, device, dtype)

    def forward(self, input):
        return F.embedding(input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                           self.sparse)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        _check(cls, mod)
        return cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.sparse,
                   mod.weight, qconfig=mod.qconfig)

    def to_float(self):
        return nn.Embedding(self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                            self.sparse, self.weight.detach(), device=self.weight.device)


class EmbeddingBag(nn.EmbeddingBag):
    _FLOAT_MODULE, _TITLE = nn.EmbeddingBag, "Embedding Bag"

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                 _weight=None, include_last_offset=False, padding_idx=None, qconfig=None, device=None, dtype=None):
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight, include_last_offset,
                         padding_idx, device=device, dtype=dtype)
        _place(self, qconfig, device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        _check(cls, mod)
        return cls(mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight,
                   mod.include_last_offset, mod.padding_idx, qconfig=mod.qconfig)

    def to_float(self):
        return nn.EmbeddingBag(self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                               self.sparse, self.weight.detach(), self.include_last_offset, self.padding_idx, device=self.weight.device)
