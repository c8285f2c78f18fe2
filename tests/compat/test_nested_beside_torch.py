"""Nested tensors beside PyTorch's: values and gradients of operators on both layouts, sizes as they are shown, and what is refused."""
import warnings

import pytest
import tede

torch = pytest.importorskip("torch")

LIBRARIES = {'tede': tede, 'torch': torch}
warnings.filterwarnings('ignore', message='The PyTorch API of nested tensors')


def inputs(lib, layout, seed=0, shapes=((3, 4), (1, 4), (5, 4))):
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(shape, generator=generator).numpy() for shape in shapes]
    return lib.nested.nested_tensor([lib.tensor(x) for x in parts], layout=getattr(lib, layout), requires_grad=True)


def weights(lib, *shape):
    return lib.tensor(torch.randn(*shape, generator=torch.Generator().manual_seed(9)).numpy(), requires_grad=True)


def parts(x):
    """Dense tensors, as PyTorch's, of a result."""
    if isinstance(x, (list, tuple)):
        return [part for item in x for part in parts(item)]
    items = list(x.unbind()) if x.is_nested else [x]
    return [torch.as_tensor(item.detach().cpu().numpy()) for item in items]


def both(function, layout, gradient=True, **options):
    """(result, gradients of its elements' squares) by library."""
    seen = {}
    for name, lib in LIBRARIES.items():
        n = inputs(lib, layout, **options)
        n = n if gradient else n.detach()
        w = weights(lib, 6, 4)
        result = function(lib, n, w)
        first = result[0] if isinstance(result, (list, tuple)) else result
        dense = first.to_padded_tensor(0.) if first.is_nested and layout == 'strided' else first.values() if first.is_nested else first
        gradients = lib.autograd.grad((dense * dense).sum(), [n, w], allow_unused=True) if gradient and dense.requires_grad else ()
        seen[name] = parts(result), parts([g for g in gradients if g is not None])
    return seen['tede'], seen['torch']


def agree(got, expected):
    for mine, theirs in zip(got, expected, strict=True):
        assert len(mine) == len(theirs)
        for x, y in zip(mine, theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)


ON_JAGGED = {
    'sum of two': lambda lib, n, w: n + n * 2,
    'number first': lambda lib, n, w: 1 - n,
    'row': lambda lib, n, w: n * w[0],
    'of each component': lambda lib, n, w: n + w[:3].unsqueeze(1),
    'padded': lambda lib, n, w: n + lib.ones(3, 5, 4),
    'power': lambda lib, n, w: n ** 2,
    'where': lambda lib, n, w: lib.where(n > 0, n, n * 2),
    'clamp': lambda lib, n, w: n.clamp(-0.5, 0.5),
    'linear': lambda lib, n, w: lib.nn.functional.linear(n, w),
    'product': lambda lib, n, w: n @ w.t(),
    'product with a matrix each': lambda lib, n, w: n @ w.t().expand(3, 4, 6),
    'product over the ragged dimension': lambda lib, n, w: n.transpose(1, 2) @ n,
    'layer_norm': lambda lib, n, w: lib.nn.functional.layer_norm(n, (4,), w[0], w[1]),
    'rms_norm': lambda lib, n, w: lib.nn.functional.rms_norm(n, (4,), w[0]),
    'softmax': lambda lib, n, w: n.softmax(-1),
    'softmax along the ragged dimension': lambda lib, n, w: n.softmax(1),
    'log_softmax': lambda lib, n, w: n.log_softmax(-1),
    'sum': lambda lib, n, w: n.sum(),
    'sum of components': lambda lib, n, w: n.sum(1),
    'sum of batch and ragged': lambda lib, n, w: n.sum((0, 1), keepdim=True),
    'sum of rows': lambda lib, n, w: n.sum(-1),
    'mean of components': lambda lib, n, w: n.mean(1),
    'mean': lambda lib, n, w: n.mean(),
    'amax': lambda lib, n, w: n.amax(1),
    'max': lambda lib, n, w: n.max(-1),
    'transposed': lambda lib, n, w: n.transpose(1, 2) * 2,
    'permuted': lambda lib, n, w: n.unflatten(-1, (2, 2)).permute(0, 2, 1, 3),
    'heads': lambda lib, n, w: n.unflatten(-1, (2, 2)).transpose(1, 2).transpose(1, 2).flatten(2),
    'unsqueeze': lambda lib, n, w: n.unsqueeze(-1),
    'cat': lambda lib, n, w: lib.cat([n, n * 2], -1),
    'stack': lambda lib, n, w: lib.stack([n, n], -1),
    'chunk': lambda lib, n, w: n.chunk(2, -1),
    'chunk of the batch': lambda lib, n, w: n.chunk(2, 0),
    'split': lambda lib, n, w: n.split([1, 3], -1),
    'select': lambda lib, n, w: n.select(-1, 1),
    'component': lambda lib, n, w: n[-1],
    'narrow': lambda lib, n, w: n.narrow(-1, 1, 2),
    'unbind': lambda lib, n, w: n.unbind(),
    'padded tensor': lambda lib, n, w: n.to_padded_tensor(-1.),
    'padded to a size': lambda lib, n, w: n.to_padded_tensor(0., (3, 7, 4)),
    'dropout': lambda lib, n, w: lib.nn.functional.dropout(n, 0.5, False),
    'in place': lambda lib, n, w: (n * 1).mul_(n).add_(1),
    'attention': lambda lib, n, w: lib.nn.functional.scaled_dot_product_attention(
        *[n.unflatten(-1, (2, 2)).transpose(1, 2)] * 3).transpose(1, 2).flatten(2),
}
# PyTorch has none, or one in which components meet (the softmax), or ends the process (split).
WITHOUT_TORCHS_GRADIENT = {'softmax along the ragged dimension', 'log_softmax', 'sum of components', 'sum of batch and ragged', 'sum of rows',
                           'mean of components', 'unsqueeze', 'split', 'select', 'narrow'}
ON_STRIDED = {
    'sum of two': lambda lib, n, w: n + n * 2,
    'number': lambda lib, n, w: n * 3 + 1,
    'gelu': lambda lib, n, w: lib.nn.functional.gelu(n),
    'linear': lambda lib, n, w: lib.nn.functional.linear(n, w, w[:, 0]),
    'layer_norm': lambda lib, n, w: lib.nn.functional.layer_norm(n, (4,), w[0], w[1]),
    'softmax': lambda lib, n, w: n.softmax(-1),
    'sum of rows': lambda lib, n, w: n.sum(-1, keepdim=True),
    'product': lambda lib, n, w: lib.bmm(n, n.transpose(1, 2)),
    'matmul': lambda lib, n, w: lib.matmul(n, n.transpose(1, 2)),
    'reshape': lambda lib, n, w: n.reshape(3, -1, 2, 2),
    'padded tensor': lambda lib, n, w: n.to_padded_tensor(-1.),
    'unbind': lambda lib, n, w: n.unbind(),
    'component': lambda lib, n, w: n[1],
}


@pytest.mark.parametrize('name', ON_JAGGED)
def test_a_jagged_result_and_its_gradient_are_torchs(name):
    agree(*both(ON_JAGGED[name], 'jagged', gradient=name not in WITHOUT_TORCHS_GRADIENT))


@pytest.mark.parametrize('name', sorted(WITHOUT_TORCHS_GRADIENT - {'sum of batch and ragged'}))
def test_a_gradient_is_that_of_the_components(name):
    """Beside PyTorch's strided tensors, one by one."""
    function = ON_JAGGED[name]
    n, w = inputs(tede, 'jagged'), weights(tede, 6, 4)
    first = ON_JAGGED[name](tede, n, w)
    first = first[0] if isinstance(first, (list, tuple)) else first
    packed = first.values() if first.is_nested else first
    mine = tede.autograd.grad((packed * packed).sum(), n)[0]
    total = 0
    own = [x.clone().requires_grad_() for x in parts(inputs(torch, 'jagged'))]
    for x in own:
        alone = function(torch, x.unsqueeze(0), weights(torch, 6, 4))
        alone = alone[0] if isinstance(alone, (list, tuple)) else alone
        total = total + (alone * alone).sum()
    for got, expected in zip(parts(mine), torch.autograd.grad(total, own), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('name', ON_STRIDED)
def test_a_result_of_the_strided_layout_and_its_gradient_are_torchs(name):
    agree(*both(ON_STRIDED[name], 'strided'))


def shown(text):
    """Without the symbol's number, or that of an object in memory."""
    import re
    return re.sub(r'j\d+', 'j', text)


LOOKS = {
    'size': lambda n: (n.size(0), n.size(-1)), 'dim': lambda n: n.dim(), 'numel': lambda n: n.numel(), 'is_nested': lambda n: n.is_nested,
    'repr': lambda n: shown(repr(n)), 'repr detached': lambda n: shown(repr(n.detach())), 'is_contiguous': lambda n: n.is_contiguous(),
    'layout': lambda n: str(n.layout).rpartition('.')[2]}


@pytest.mark.parametrize('layout', ['jagged', 'strided'])
@pytest.mark.parametrize('name', LOOKS)
def test_a_look_at_a_nested_tensor(layout, name):
    assert LOOKS[name](inputs(tede, layout)) == LOOKS[name](inputs(torch, layout))


def test_a_ragged_size_is_a_symbol_that_views_take():
    for lib in LIBRARIES.values():
        n = inputs(lib, 'jagged')
        assert shown(str(tuple(n.shape))) == '(3, j, 4)'
        assert shown(str(n.shape[1] * 2)) == '2*j'
        assert n.shape[1] == (n * 2).shape[1] != inputs(lib, 'jagged').shape[1]
        assert tuple(n.view(3, n.shape[1], 2, 2).shape[2:]) == (2, 2)


REFUSED = {
    'other structure': lambda lib, n: n + inputs(lib, 'jagged'),
    'rank': lambda lib, n: n + lib.ones(1, 3, 1, 4),
    'batch alone': lambda lib, n: n.sum(0),
    'ragged and more': lambda lib, n: n.sum((1, 2)),
    'unbind': lambda lib, n: n.unbind(1),
    'transpose of the batch': lambda lib, n: n.transpose(0, 1),
    'view': lambda lib, n: n.view(3, 4, n.shape[1]),
    'no components': lambda lib, n: lib.nested.nested_tensor([], layout=lib.jagged),
    'ranks': lambda lib, n: lib.nested.nested_tensor([lib.ones(2), lib.ones(2, 2)]),
    'two ragged dimensions': lambda lib, n: lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(3, 2)], layout=lib.jagged),
    'neither offsets nor lengths': lambda lib, n: lib.nested.nested_tensor_from_jagged(lib.ones(3)),
    'no list': lambda lib, n: lib.nested.as_nested_tensor(3),
    'too small': lambda lib, n: lib.nested.nested_tensor([lib.ones(3), lib.ones(2)]).to_padded_tensor(0., (2, 2)),
}


@pytest.mark.parametrize('name', REFUSED)
def test_what_torch_refuses_is_refused(name):
    kinds = []
    for lib in LIBRARIES.values():
        with pytest.raises((RuntimeError, ValueError, TypeError, NotImplementedError)) as caught:
            REFUSED[name](lib, inputs(lib, 'jagged'))
        kinds.append(type(caught.value))
    assert issubclass(kinds[1], kinds[0]) or issubclass(kinds[0], kinds[1])


def test_functions_of_torch_nested():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 5, 2, generator=generator)
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]).bool()
    for make in (
            lambda lib, x, mask: lib.nested.narrow(x, 1, lib.tensor([0, 1, 2]), lib.tensor([2, 3, 1]), layout=lib.jagged) * 2,
            lambda lib, x, mask: lib.nested.narrow(x, 0, 1, 2) * 2,
            lambda lib, x, mask: lib.nested.masked_select(x[:, :, 0], mask) * 2,
            lambda lib, x, mask: lib.nested.nested_tensor_from_jagged(x[0], lib.tensor([0, 2, 5])).sum(1),
            lambda lib, x, mask: lib.nested.nested_tensor_from_jagged(x[0], lengths=lib.tensor([1, 4])).mean(1),
            lambda lib, x, mask: lib._nested_tensor_from_mask(x, mask) * 2,
            lambda lib, x, mask: lib._nested_tensor_from_mask_left_aligned(x, mask) + lib.zeros(1)):
        mine, theirs = (make(lib, lib.tensor(x.numpy()), lib.tensor(mask.numpy())) for lib in LIBRARIES.values())
        torch.testing.assert_close(parts(mine), parts(theirs))


def test_gradients_lead_to_the_list_of_as_nested_tensor():
    for layout in ('jagged', 'strided'):
        found = []
        for lib in LIBRARIES.values():
            a, b = (lib.tensor([[1., 2.]] * n, requires_grad=True) for n in (2, 3))
            n = lib.nested.as_nested_tensor([a, b], layout=getattr(lib, layout))
            (n * n).to_padded_tensor(0.).sum().backward()
            found.append([a.grad.tolist(), b.grad.tolist()])
        assert found[0] == found[1]


@pytest.mark.parametrize('layout', ['jagged', 'strided'])
def test_a_file_of_ours_is_read_by_torch(layout, tmp_path):
    mine = inputs(tede, layout)
    tede.save(mine, tmp_path / 'n.pt')
    theirs = torch.load(tmp_path / 'n.pt', weights_only=False)
    assert theirs.is_nested and str(theirs.layout) == f'torch.{layout}'
    again = tede.load(tmp_path / 'n.pt')
    for x, y, z in zip(parts(mine), parts(theirs), parts(again), strict=True):
        assert torch.equal(x, y) and torch.equal(x, z)


MORE_ON_JAGGED = {
    'all true': lambda lib, n: lib._is_all_true(n > -100),
    'index_put': lambda lib, n: lib.index_put(n, (lib.tensor([0, 1, 2]), lib.tensor([0, 0, 4]), lib.tensor([1, 3, 2])), lib.tensor([7., 8., 9.])),
    'index_put of rows': lambda lib, n: n.index_put((lib.tensor([2, 2, 0]), lib.tensor([0, 0, 1])), lib.ones(3, 4), accumulate=True),
    'masked_select': lambda lib, n: n.select(2, 1).masked_select(n.select(2, 1) > 0),
    'split': lambda lib, n: n.split(3, -1),
    'unsafe_view': lambda lib, n: lib.ops.aten._unsafe_view(n, (3, -1, 2, 2)),
    'contiguous clone': lambda lib, n: n.transpose(1, 2).clone(memory_format=lib.contiguous_format).transpose(1, 2),
    'layer_norm over rows': lambda lib, n: lib.nn.functional.layer_norm(n, n.shape[1:]),
    'padded and back': lambda lib, n: lib.ops.aten._padded_dense_to_jagged_forward(
        lib.ops.aten._jagged_to_padded_dense_forward(n.values(), [n.offsets()], [6], 2.), [n.offsets()]),
}


@pytest.mark.parametrize('what', MORE_ON_JAGGED)
def test_more_of_a_jagged_tensor_is_torchs(what):
    got, expected = (MORE_ON_JAGGED[what](lib, inputs(lib, 'jagged').detach()) for lib in LIBRARIES.values())
    agree([parts(got)], [parts(expected)])


def test_layer_norm_over_the_ragged_dimension_and_what_it_refuses():
    for lib in LIBRARIES.values():
        n = inputs(lib, 'jagged').detach()
        for shape, why in ((n.shape, 'normalizing over the batch dimension'), (n.shape[1:], None)):
            if why:
                with pytest.raises(RuntimeError, match=why):
                    lib.nn.functional.layer_norm(n, shape)
        with pytest.raises(RuntimeError, match='2 or fewer dimensions'):
            lib.nn.functional.layer_norm(n.select(2, 0), n.shape[1:2])
        with pytest.raises(RuntimeError, match='not supported for NestedTensor on ragged dim'):
            n.split(2, 1)
        with pytest.raises((RuntimeError, IndexError), match='out of bounds'):
            n.index_put((lib.tensor([1]), lib.tensor([1]), lib.tensor([0])), lib.tensor([7.]))
        with pytest.raises(RuntimeError, match='expected each tensor in given list to be nested'):
            lib.cat([lib.nested.nested_tensor([lib.ones(2, 3)]), lib.ones(1, 2, 3)], -1)
        with pytest.raises(RuntimeError, match='Found dimension 1 for Tensor at index 2 and dimension 0 for Tensor at index 1'):
            lib.nested.nested_tensor([lib.tensor(1.), lib.tensor(2.), lib.ones(2)])
        with pytest.raises(RuntimeError, match="doesn't support strides"):
            lib.nested.nested_tensor([lib.ones(2)]).stride()


def test_private_names_of_pytorchs_class_are_there():
    for lib in LIBRARIES.values():
        n = inputs(lib, 'jagged').detach()
        assert n._ragged_idx == 1 and n._lengths is None and n._offsets.tolist() == [0, 3, 4, 9] and n._values.shape == (9, 4)
        assert n._max_seqlen == 5 and n._min_seqlen == 1 and n._get_max_seqlen() == 5
        assert {name: x.shape[0] for name, x in n._metadata_cache.items()} == {'min_seqlen': 1, 'max_seqlen': 5}
        other = lib.nested.nested_tensor_from_jagged(n._values, n._offsets.clone())
        assert other._metadata_cache == {} and other._max_seqlen_tensor is None
        assert not hasattr(lib.ones(2), '_ragged_idx') and callable(lib.ones(2)._values)


def test_lists_that_are_absent_have_no_length():
    parts = [tede.randn(2, 3, requires_grad=True), tede.randn(1, 3, requires_grad=True)]
    assert tede.autograd.gradcheck(lambda *x: tede.nested.to_padded_tensor(tede.nested.as_nested_tensor(list(x)).abs(), 0),
                                   [x.double().detach().requires_grad_() for x in parts])


def test_a_component_is_assigned_to():
    x = tede.nested.nested_tensor([tede.zeros(2, 3), tede.zeros(1, 3)], layout=tede.jagged)
    x[0, 1, 2] = 5.
    x[1] = tede.ones(1, 3)
    assert x.values().tolist() == [[0, 0, 0], [0, 0, 5], [1, 1, 1]]
    with pytest.raises(NotImplementedError, match='first index is a number'):
        x[:, 0] = 1.
    with pytest.raises(NotImplementedError, match='requires a gradient'):
        x.clone().requires_grad_()[0] = 1.


def test_convolutions_see_one_component_and_statistics_all():
    parts = [tede.randn(2, n) for n in (5, 3, 7)]
    x = tede.nested.nested_tensor(parts, layout=tede.jagged, requires_grad=True)
    layer = tede.nn.Conv1d(2, 3, 2)
    made = layer(x)
    for one, part in zip(made.unbind(), parts, strict=True):
        assert tede.allclose(one, layer(part))
    made.values().square().sum().backward()
    dense = [part.clone().requires_grad_() for part in parts]
    sum(layer(part).square().sum() for part in dense).backward()
    assert tede.allclose(x.grad.values(), tede.cat([part.grad for part in dense], 1), atol=1e-6)
    norm = tede.nn.BatchNorm1d(2)
    assert tede.allclose(norm(x).values(), norm(tede.cat(parts, 1)[None])[0], atol=1e-6)


def test_equal_new_and_meta():
    x = tede.nested.nested_tensor([tede.ones(2, 3), tede.ones(1, 3)], layout=tede.jagged)
    same = tede.nested.nested_tensor([tede.ones(2, 3), tede.ones(1, 3)], layout=tede.jagged)
    assert tede.equal(x, same) and tede.allclose(x, same) and not tede.equal(x, same * 2) and not tede.equal(x, x.values())
    assert x.new_zeros(2, 5).shape == (2, 5) and x.new_zeros(x.shape).is_nested and x.new_full((2,), 3.).tolist() == [3., 3.]
    meta = x.to('meta')
    assert meta.device.type == 'meta' and (meta * 2).is_nested and meta.to_padded_tensor(0.).shape == (2, 2, 3)
    assert tede.nested.nested_tensor([]).dim() == 1


def test_nested_tensors_have_sizes_of_their_own_kind(lib):
    nested, dense = lib.nested.nested_tensor([lib.ones(2, 4), lib.ones(3, 4)]), lib.ones(3, 4)
    for a, b in ((nested, dense), (dense, nested)):
        with pytest.raises(RuntimeError, match="Expected both self and other to be nested tensors."):
            a.is_same_size(b)
