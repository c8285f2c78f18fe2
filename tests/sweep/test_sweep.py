"""What holds for every operator: it sees values, not layouts; on the meta device it gives the same shapes, strides, dtypes and
errors, and takes no memory."""
import collections
import os

import pytest
import samples
import tede

MOST = int(os.environ.get('TEDE_SWEEP', 1))     # samples of each operator


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else x


def sliced(x):
    wide = tede.zeros([2 * n + 1 for n in x.shape], dtype=x.dtype)
    return wide[tuple(slice(1, None, 2) for _ in x.shape)].copy_(x) if x.ndim else x


def reversed_(x):
    return x.flip(tuple(range(x.ndim)))[tuple(slice(None, None, -1) for _ in x.shape)] if x.ndim else x


def conjugated(x):
    return x.conj().resolve_conj().conj() if x.is_complex() else x


def negated(x):
    return (-x)._neg_view() if x.is_complex() or x.is_floating_point() else x


def expanded(x):
    """The first row in the place of all: what is compared with is made of a copy of that."""
    return x[:1].expand(x.shape) if x.ndim and x.shape[0] else x


LAYOUTS = {f.__name__.strip('_'): f for f in (transposed, sliced, reversed_, conjugated, negated, expanded)}
# What PyTorch refuses by the layout.
REFUSES = {('view_as_real', 'conjugated'), ('view_as_real_copy', 'conjugated'), ('view_as_complex', 'transposed'),
           ('view_as_complex', 'sliced'), ('view_as_complex', 'reversed'), ('view_as_complex', 'expanded'), ('view_as', 'transposed'), ('view_as', 'sliced'),
           ('view_as', 'expanded'),
           # Without a dimension both operands are viewed as vectors.
           *(('take_along_dim', name) for name in ('transposed', 'sliced', 'expanded')),
           # Random numbers are drawn in the order of memory, which the result takes over.
           *((name, 'transposed') for name in ('multinomial', 'rand_like', 'randn_like', 'randint_like'))}


def difference(got, want):
    """None, or what differs between two results."""
    got, want = samples.leaves([got]), samples.leaves([want])
    if len(got) != len(want):
        return f'{len(got)} results, not {len(want)}'
    for a, b in zip(got, want):
        if a.is_nested and b.is_nested:
            return difference(a.unbind(), b.unbind())
        if a.dtype != b.dtype or a.shape != b.shape:
            return f'{a.dtype} {tuple(a.shape)}, not {b.dtype} {tuple(b.shape)}'
        if a.layout != b.layout:
            return f'{a.layout}, not {b.layout}'
        if a.layout != tede.strided:
            a, b = a.to_dense(), b.to_dense()
        if a.is_floating_point() or a.is_complex():
            if not tede.allclose(a.resolve_conj().resolve_neg(), b, rtol=1e-3, atol=1e-4, equal_nan=True):
                return f'{a.tolist()}, not {b.tolist()}'[:300]
        elif not tede.equal(a, b):
            return f'{a.tolist()}, not {b.tolist()}'[:300]
    return None


@pytest.mark.parametrize('dtype', ['float32', 'complex64', 'int64'])
def test_a_layout_changes_no_value(dtype):
    wrong = collections.OrderedDict()
    for call in samples.calls(dtype, MOST):
        for name, layout in LAYOUTS.items():
            title = call.title.partition('[')[0].partition('.')[0]
            if (title, name) in REFUSES:
                continue
            view = call.with_tensors(lambda x: layout(x.clone()))
            plain = view.with_tensors(lambda x: x.resolve_conj().resolve_neg().clone(memory_format=tede.contiguous_format))
            try:
                want = plain()
            except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
                continue
            try:
                problem = difference(view(), want)
            except Exception as error:
                # What is written, such as running statistics, cannot be an expanded row.
                problem = None if 'more than one element of the written-to tensor' in str(error) else f'{type(error).__name__}: {error}'[:300]
            if problem:
                wrong[call.title, name] = problem
    assert not wrong


# ---- the meta device

# Values decide the result's shape, or whether there is an error; PyTorch refuses these on meta, too.
READS_VALUES = {'item', 'equal', 'allclose', 'is_nonzero', 'tolist', 'numpy', '_local_scalar_dense', 'bincount', 'nonzero',
                'masked_select', 'unique', 'unique_consecutive', 'argwhere', 'combinations', 'repeat_interleave', 'tensor_split',
                'gaussian_nll_loss', 'one_hot', 'linspace.tensor_overload', 'logspace.tensor_overload', 'narrow.Tensor', 'randint_like.Tensor',
                'tensor_split.tensor_indices_or_sections',
                *(f'{name}.{a}_{b}' for name in ('linspace', 'logspace') for a, b in (('Tensor', 'Tensor'), ('Tensor', 'Scalar'), ('Scalar', 'Tensor'))),
                '_shape_as_tensor'}         # of any device: the sizes are on the CPU


def forms(tree):
    return [(tuple(x.shape), x.dtype, x.stride()) for x in samples.leaves([tree])]


@pytest.mark.parametrize('dtype', ['float32', 'complex64', 'int64'])
def test_meta_gives_the_same_forms_and_takes_no_memory(dtype):
    wrong = collections.OrderedDict()
    for call in samples.calls(dtype, MOST):
        name = call.title.partition('[')[0]
        if name in READS_VALUES or name.rpartition('.')[2] in READS_VALUES:
            continue
        on_meta = call.with_tensors(lambda x: x.to('meta'))
        if not any(x.is_meta for x in samples.leaves([on_meta.args, on_meta.kwargs])):
            continue        # a factory
        try:
            want = forms(call())
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue
        before = tede.memory.stats()['allocated']
        try:
            result = on_meta()
            got, grown = forms(result), tede.memory.stats()['allocated'] - before
        except NotImplementedError as error:
            if 'Meta tensors' not in str(error) and 'meta' not in str(error):
                wrong[call.title] = f'NotImplementedError: {error}'[:200]
            continue
        except Exception as error:
            if 'a meta tensor without output_size' not in str(error):        # repeat_interleave's repeats are values
                wrong[call.title] = f'{type(error).__name__}: {error}'[:200]
            continue
        if got != want:
            wrong[call.title] = f'{got}, not {want}'
        elif any(not x.is_meta for x in samples.leaves([result])):
            wrong[call.title] = 'a result that is not on meta'
        elif grown > 1024 * (1 + len(got)):     # heads of tensors
            wrong[call.title] = f'{grown} bytes more are allocated'
    assert not wrong
