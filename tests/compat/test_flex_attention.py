"""flex_attention: scores and masks as functions of places."""
import importlib

import pytest


@pytest.fixture
def flex(lib):
    return importlib.import_module(lib.__name__ + ".nn.attention.flex_attention")


@pytest.fixture
def qkv(lib):
    return [lib.randn(2, 4, 6, 8) for _ in range(3)]


@pytest.mark.filterwarnings("ignore")
def test_a_causal_mask_is_causal_attention(lib, F, flex, qkv):
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 6, 6, device="cpu")
    found = flex.flex_attention(*qkv, block_mask=mask)
    wanted = F.scaled_dot_product_attention(*qkv, is_causal=True)
    lib.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore")
def test_scores_by_place(lib, F, flex, qkv):
    slopes = lib.rand(4)
    found = flex.flex_attention(*qkv, score_mod=lambda s, b, h, q, k: s + slopes[h] * (k - q))
    distance = lib.arange(6)[None, :] - lib.arange(6)[:, None]
    wanted = F.scaled_dot_product_attention(*qkv, attn_mask=slopes[:, None, None] * distance)
    lib.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore")
def test_rows_with_nothing_left_are_zeros(lib, flex, qkv):
    mask = flex.create_block_mask(lambda b, h, q, k: q > k, None, None, 6, 6, device="cpu")
    assert (flex.flex_attention(*qkv, block_mask=mask)[:, :, 0] == 0).all()


def test_blocks(lib, flex):
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256, device="cpu", BLOCK_SIZE=64)
    assert mask.shape == (1, 1, 256, 256) and mask.sparsity() == 37.5
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 2, 3]]]
    assert mask.to_dense()[0, 0].tolist() == lib.ones(4, 4).tril().int().tolist()


def test_masks_combine(lib, flex):
    def causal(b, h, q, k):
        return q >= k

    def near(b, h, q, k):
        return q - k < 2
    both = flex.create_mask(flex.and_masks(causal, near), 1, 1, 4, 4, device="cpu")[0, 0]
    assert both.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert flex.create_mask(flex.or_masks(causal, near), 1, 1, 4, 4, device="cpu").all()


def test_grouped_heads_need_saying_so(lib, flex):
    q, k = lib.randn(1, 4, 3, 8), lib.randn(1, 2, 3, 8)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex.flex_attention(q, k, k)
