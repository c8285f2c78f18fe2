"""nn.TransformerEncoder, its layer and nn.MultiheadAttention on nested tensors, beside PyTorch's; attention by segments in training."""
import itertools
import warnings

import pytest
import tede

torch = pytest.importorskip("torch")
warnings.filterwarnings('ignore', message='The PyTorch API of nested tensors')


def ours(x):
    return tede.tensor(x.numpy()) if isinstance(x, torch.Tensor) else x


def agree(got, expected):
    if expected is None:
        assert got is None
        return
    if expected.is_nested:
        got, expected = got.to_padded_tensor(0.), expected.to_padded_tensor(0.)
    torch.testing.assert_close(torch.as_tensor(got.detach().numpy()), expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def encoders(**options):
    made = []
    for lib in (torch, tede):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            layer = lib.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)
            made.append(lib.nn.TransformerEncoder(layer, 2).eval())
    made[1].load_state_dict({name: ours(x) for name, x in made[0].state_dict().items()})
    return made


@pytest.mark.parametrize('options', [{}, {'activation': 'gelu'}, {'norm_first': True}, {'bias': False}], ids=str)
def test_an_encoder_leaves_padding_out_in_evaluation(options):
    theirs, mine = encoders(**options)
    x, mask = torch.randn(4, 7, 16), torch.arange(7) >= torch.tensor([[3], [7], [1], [5]])
    with torch.no_grad(), tede.no_grad():
        agree(mine(ours(x), src_key_padding_mask=ours(mask)), theirs(x, src_key_padding_mask=mask))
        theirs.enable_nested_tensor = theirs.use_nested_tensor = False
        inside = (~mask)[..., None]
        agree(mine(ours(x), src_key_padding_mask=ours(mask)) * ours(inside), theirs(x, src_key_padding_mask=mask) * inside)


def test_a_row_that_is_all_padding_has_no_rows():
    theirs, mine = encoders()
    x, mask = torch.randn(2, 3, 16), torch.tensor([[False, True, True], [True, True, True]])
    with torch.no_grad(), tede.no_grad():
        agree(mine(ours(x), src_key_padding_mask=ours(mask)), theirs(x, src_key_padding_mask=mask))


@pytest.mark.parametrize('layout', ['strided', 'jagged'])
def test_layers_take_nested_tensors(layout):
    theirs, mine = encoders()
    parts = [torch.randn(n, 16) for n in (3, 1, 5)]
    n, m = torch.nested.nested_tensor(parts), tede.nested.nested_tensor([ours(x) for x in parts], layout=getattr(tede, layout))
    with torch.no_grad(), tede.no_grad():
        agree(mine.layers[0](m), theirs.layers[0](n))
        for options in ({'need_weights': False}, {}, {'average_attn_weights': False}):
            for got, expected in zip(mine.layers[0].self_attn(m, m, m, **options), theirs.layers[0].self_attn(n, n, n, **options), strict=True):
                agree(got, expected)


def test_outside_of_evaluation_attention_refuses_them():
    _, mine = encoders()
    n = tede.nested.nested_tensor([tede.randn(3, 16), tede.randn(2, 16)])
    for change, why in ((lambda: mine.train(), 'training is enabled'), (lambda: mine.eval(), 'requires_grad')):
        change()
        with pytest.raises(AssertionError, match=f'outside of its fast path.*{why}'):
            mine.layers[0].self_attn(n, n, n)
    tede.backends.mha.set_fastpath_enabled(False)
    try:
        with tede.no_grad(), pytest.raises(AssertionError, match='get_fastpath_enabled'):
            mine.layers[0].self_attn(n, n, n)
    finally:
        tede.backends.mha.set_fastpath_enabled(True)


def test_attention_in_one_call():
    w, b, p, pb = torch.randn(24, 8), torch.randn(24), torch.randn(8, 8), torch.randn(8)
    q, k, v = torch.randn(3, 2, 3, 8)
    masks = ((None, None), (torch.rand(3, 3) > .6, 0), (torch.rand(2, 3) > .6, 1), (torch.rand(2, 2, 3, 3) > .6, 2))
    for (mask, kind), weights, average, operands in itertools.product(masks, (True, False), (True, False), ((q, q, q), (q, k, k), (q, k, v))):
        expected = torch._native_multi_head_attention(*operands, 8, 2, w, b, p, pb, mask, weights, average, kind)
        mine = {id(x): ours(x) for x in operands}
        got = tede._native_multi_head_attention(*(mine[id(x)] for x in operands), 8, 2, *map(ours, (w, b, p, pb, mask)), weights, average, kind)
        for x, y in zip(got, expected, strict=True):
            agree(x, y)
    for mask, kind, why in ((ours(masks[1][0]), None, 'Mask Type should be defined'), (ours(masks[1][0]), 1, r'mask shape should be \(B, L\)')):
        with pytest.raises(RuntimeError, match=why):
            tede._native_multi_head_attention(ours(q), ours(q), ours(q), 8, 2, *map(ours, (w, b, p, pb)), mask, True, True, kind)


def test_projections_are_parted_and_scaled():
    b = torch.randn(24)
    for x in (torch.randn(2, 3, 24), torch.nested.nested_tensor([torch.randn(3, 24), torch.randn(2, 24)])):
        mine = tede.nested.nested_tensor([ours(part) for part in x.unbind()]) if x.is_nested else ours(x)
        for got, expected in zip(tede._transform_bias_rescale_qkv(mine, ours(b), 2), torch._transform_bias_rescale_qkv(x, b, 2), strict=True):
            agree(got, expected)


def test_gradients_of_attention_by_segments_are_those_of_each_component():
    lengths, parts = (3, 1, 5), [torch.randn(n, 3, 2, 4) for n in (3, 1, 5)]
    for shift in (0, 1):            # also where rows are left out between components
        packed = tede.tensor(torch.cat([torch.cat([part, torch.ones(shift, 3, 2, 4)]) for part in parts]).numpy(), requires_grad=True)
        starts = [sum(lengths[:i]) + shift * i for i in range(4)]
        n = tede.nested.nested_tensor_from_jagged(packed, tede.tensor(starts), tede.tensor(lengths) if shift else None)
        q, k, v = (n[:, :, i].transpose(1, 2) for i in range(3))
        out = tede.nn.functional.scaled_dot_product_attention(q, k, v)
        (out.values() ** 2).sum().backward()
        for part, at in zip(parts, starts):
            x = part.clone().requires_grad_()
            (torch.nn.functional.scaled_dot_product_attention(*(x[:, i].transpose(0, 1) for i in range(3))) ** 2).sum().backward()
            agree(packed.grad[at:at + len(part)], x.grad)


def test_the_cost_of_segments_is_not_that_of_padding():
    lengths = [2] * 200 + [400]
    n = tede.nested.nested_tensor([tede.randn(size, 8) for size in lengths], layout=tede.jagged, requires_grad=True)
    heads = n.unflatten(-1, [2, 4]).transpose(1, 2)
    from tede.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        tede.nn.functional.scaled_dot_product_attention(heads, heads, heads).values().sum().backward()
    largest = max(event.cpu_memory_usage for event in seen.events())
    assert largest < len(lengths) * max(lengths) * 8 * 4        # one operand, padded; scores would be 100 times as much
