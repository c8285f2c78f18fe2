"""flex_attention: attention whose scores and mask are functions of indices: score_mod(score, b, h, q, k), mask_mod(b, h, q, k).

Both are mapped over all indices (vmap), and attention is computed from the whole table of scores. A BlockMask says which blocks
of the table a mask leaves; here it is kept for programs that look at it or combine masks, nothing is skipped by it.
"""
import math
from typing import NamedTuple

from .._native import T

__all__ = ["BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "create_block_mask", "create_mask", "or_masks", "and_masks",
           "noop_mask", "create_nested_block_mask"]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What is wanted besides the output."""
    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an AuxRequest; None for the rest."""
    lse: object = None
    max_scores: object = None


def noop_mask(batch, head, token_q, token_kv):
    """A mask that leaves everything."""
    return batch.new_ones(size=(), dtype=T.bool, device=batch.device)


def _identity(score, batch, head, token_q, token_kv):
    return score


def or_masks(*mask_mods):
    """A mask_mod that leaves what one of these leaves."""
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def either(b, h, q_idx, kv_idx):
        result = b.new_zeros((), dtype=T.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q_idx, kv_idx)
        return result
    return either


def and_masks(*mask_mods):
    """A mask_mod that leaves what all of these leave."""
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def both(b, h, q_idx, kv_idx):
        result = b.new_ones((), dtype=T.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q_idx, kv_idx)
        return result
    return both


def _mapped(mod, with_score):
    """A mod over all indices: the last index is mapped innermost."""
    score = (0,) if with_score else ()
    from tede.func import vmap
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mod = vmap(mod, in_dims=score + dims)

    def apply(*args):
        from ._indices import TransformGetItemToIndex
        with TransformGetItemToIndex():
            return mod(*args)
    return apply


def _places(B, H, Q_LEN, KV_LEN, device):
    return [T.arange(n, device=device) for n in (B, H, Q_LEN, KV_LEN)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The whole table [B, H, Q_LEN, KV_LEN] of a mask_mod; or of a score_mod, applied to zeros."""
    import inspect
    B, H = B or 1, H or 1
    places = _places(B, H, Q_LEN, KV_LEN, device)
    count = sum(p.default is p.empty for p in inspect.signature(mod_fn).parameters.values())
    with T.no_grad():
        if count == 5:
            zeros = T.zeros(B, H, Q_LEN, KV_LEN, device=device)
            return T.where(T.isneginf(_mapped(mod_fn, True)(zeros, *places)), False, True)
        return _mapped(mod_fn, False)(*places).expand(B, H, Q_LEN, KV_LEN)


class BlockMask:
    """The blocks of a mask: per row of blocks how many there are and which, those that are left whole apart ("full")."""

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, BLOCK_SIZE, mask_mod):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None, compute_q_blocks=True):
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * sizes[0], kv_indices.shape[-1] * sizes[1])
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, sizes, mask_mod or noop_mask)

    @property
    def shape(self):
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        return math.prod(self.shape)

    def _dense(self, counts, indices):
        order = T.arange(indices.shape[-1], device=indices.device) < counts.unsqueeze(-1)
        dense = T.zeros(indices.shape, dtype=T.int32, device=indices.device)
        return dense.scatter_add(-1, indices.long(), order.int()).clamp(max=1)

    def to_dense(self):
        """Which blocks there are, as a table of 0 and 1."""
        dense = self._dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | self._dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def sparsity(self):
        """How many percent of the blocks are left out."""
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / dense.numel())

    def to(self, device):
        moved = [x if x is None else x.to(device) for x in
                 (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def __getitem__(self, index):
        parts = [x if x is None else x[index] for x in
                 (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)]
        return BlockMask(self.seq_lengths, *parts, self.BLOCK_SIZE, None)

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _ordered(dense):
    """A table of blocks as counts and, per row, the columns, those that count first."""
    return dense.sum(-1).int(), T.argsort(dense.int(), dim=-1, descending=True, stable=True).int()


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False,
                      separate_full_blocks=True):
    """The BlockMask of a mask_mod; B and H may be None where the mask doesn't depend on them."""
    B, H = 1 if B is None else B, 1 if H is None else H
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = T.nn.functional.pad(mask.to(T.int32), (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    counts = mask.view(B, H, mask.shape[2] // rows, rows, mask.shape[3] // columns, columns).sum((3, 5))
    full = counts == rows * columns if separate_full_blocks else T.zeros_like(counts, dtype=T.bool)
    partial = (counts > 0) & ~full
    return BlockMask((Q_LEN, KV_LEN), *_ordered(partial), *(_ordered(full) if separate_full_blocks else (None, None)),
                     (rows, columns), mask_mod)


def create_nested_block_mask(*args, **kwargs):
    raise NotImplementedError("create_nested_block_mask: tede has no nested tensors")


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """Attention over [B, H, L, E], with scores changed by score_mod and left out where the mask_mod of block_mask says no."""
    for x in (query, key, value):
        if x.dim() != 4:
            raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError("Expect query and key/value to have the same embedding dimension but got "
                         f"E={query.shape[-1]} and E={key.shape[-1]}.")
    if (not enable_gqa) and query.shape[1] != key.shape[1]:
        raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and "
                         f"Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA.")
    if enable_gqa and query.shape[1] != key.shape[1]:
        if query.shape[1] % key.shape[1]:
            raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={query.shape[1]} and "
                             f"Hkv={key.shape[1]}.")
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    wide = T.float32 if query.dtype in (T.float16, T.bfloat16) else query.dtype
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    places = _places(*scores.shape, query.device)
    if score_mod is not None:
        scores = _mapped(score_mod, True)(scores, *places).to(wide)
    if block_mask is not None:
        if (query.shape[-2], key.shape[-2]) != tuple(block_mask.seq_lengths):
            q, k = block_mask.seq_lengths
            if query.shape[-2] > q or key.shape[-2] > k:
                raise ValueError(f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={query.shape[-2]} and "
                                 f"kv_len={key.shape[-2]}. As the block mask was created for a smaller length than you're using it "
                                 "for, you likely need to create a new block mask.")
        if block_mask.mask_mod is not None:
            keep = _mapped(block_mask.mask_mod, False)(*places)
            scores = scores.masked_fill(~keep, -math.inf)
    lse = T.logsumexp(scores, -1)
    weights = T.softmax(scores, -1).masked_fill((lse == -math.inf).unsqueeze(-1), 0)      # nothing left: zeros, not NaN
    out = (weights @ value.to(wide)).to(query.dtype)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
