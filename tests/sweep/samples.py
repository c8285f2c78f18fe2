"""Calls of operators with sample arguments, for tests that hold for all of them.

They are made up from the operators' schemas: arguments are tried until some are accepted. With PyTorch installed its own samples
(OpInfo), turned into tede's tensors, are tried too."""
import functools
import random
import warnings

import tede

# What gives another result at each call, or memory that nobody has written, or says something of the layout itself.
NOT_A_FUNCTION_OF_VALUES = {
    'empty', 'empty_like', 'empty_strided', 'empty_permuted', 'new_empty', 'new_empty_strided', 'resize_', 'resize_as_',
    'as_strided', 'as_strided_copy', 'as_strided_scatter', 'stride', 'is_contiguous', 'set_', 'view', 'view_copy', 'is_pinned',
    '_reshape_alias', 'as_strided_', 'storage_offset', 'data_ptr', 'native_layer_norm_backward',
}


class Call:
    """fn(*args, **kwargs), which `title` names; with_tensors(change) has other tensors in the same places."""

    def __init__(self, title, fn, args, kwargs):
        self.title, self.fn, self.args, self.kwargs = title, fn, args, kwargs

    def __call__(self):
        tede.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return self.fn(*self.args, **self.kwargs)

    def with_tensors(self, change):
        return Call(self.title, self.fn, mapped(self.args, change), mapped(self.kwargs, change))

    def tensors(self):
        return leaves((self.args, self.kwargs))


def mapped(tree, change):
    if isinstance(tree, tede.Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)) and type(tree) in (list, tuple):
        return type(tree)(mapped(value, change) for value in tree)
    return tree


def leaves(tree):
    if isinstance(tree, tede.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, (list, tuple)) else []


# ---- PyTorch's samples

class _Foreign(Exception):
    pass


def _to_tede(value, torch):
    go = functools.partial(_to_tede, torch=torch)
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.device.type != 'cpu':
            raise _Foreign
        plain = value.detach().resolve_conj().resolve_neg().contiguous()
        if plain.dtype == torch.bfloat16:
            return tede.from_numpy(plain.view(torch.int16).numpy()).clone().view(tede.bfloat16)
        return tede.from_numpy(plain.numpy()).clone()
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return getattr(tede, str(value).rpartition('.')[2])
    if isinstance(value, torch.device):
        return tede.device(str(value))
    if isinstance(value, dict):
        return {key: go(item) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return tede.Size(value)
    if isinstance(value, (list, tuple)):
        return type(value)(go(item) for item in value) if type(value) in (list, tuple) else type(value)(*map(go, value))
    if value is None or isinstance(value, (bool, int, float, complex, str, slice, type(Ellipsis))):
        return value
    raise _Foreign


def from_torch(dtype='float32', most=4, match=None, seed=0):
    """[Call] from PyTorch's operator database, for the operators whose names tede has."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if match and not match(op.name) or getattr(torch, dtype) not in op.dtypes or op.name.startswith('ops.'):
            continue
        fn = tede
        for part in op.name.split('.'):
            fn = getattr(fn, part, None)
        if fn is None and op.method_variant:
            fn = getattr(tede.Tensor, op.name, None)
        plain = torch
        for part in op.name.split('.'):
            plain = getattr(plain, part, None)
        if plain is not op.op and plain is not None and not op.name.startswith('nn.functional'):
            continue                    # the database calls it through a function of its own
        if not callable(fn) or op.name.rpartition('.')[2] in NOT_A_FUNCTION_OF_VALUES:
            continue
        random.seed(seed), torch.default_generator.manual_seed(seed)
        samples = op.sample_inputs('cpu', getattr(torch, dtype))
        count = 0
        while count < most:
            try:
                sample = next(samples)
            except StopIteration:
                break
            except Exception:
                break
            try:
                call = Call(f'{op.name}{"." + op.variant_test_name if op.variant_test_name else ""}[{count}]', fn,
                            (_to_tede(sample.input, torch), *_to_tede(sample.args, torch)), _to_tede(sample.kwargs, torch))
            except _Foreign:
                continue
            count += 1
            yield call


# ---- calls made up from schemas

# What an argument without a default is given, by its name; the first that an operator accepts with the others is taken.
_INTS = {'dim': 0, 'dim0': 0, 'dim1': 1, 'axis0': 0, 'axis1': 1, 'n': 2, 'k': 1, 'groups': 1, 'num_classes': 5, 'chunks': 2, 'p': 1}
_LISTS = {'dim': [0], 'dims': [0, 1], 'shifts': [1], 'repeats': [2, 2, 2], 'pad': [1, 1], 'permute': [1, 0], 'kernel_size': [2, 2],
          'output_size': [2, 2], 'source': [0], 'destination': [1], 'split_sizes': [1, 2]}
_WORDS = {'reduce': 'sum', 'mode': 'constant', 'UPLO': 'L', 'indexing': 'ij', 'rounding_mode': 'floor', 'ord': 'fro'}
_INDICES = {'index', 'indices', 'target', 'repeats', 'pivots', 'LU_pivots'}
_SHAPES = (3, 4), (3, 3), (4,), (2, 3, 4), (2, 3, 4, 4), (2, 3, 3), ()
_EDGES = (), (0,), (0, 3), (2, 0, 3)

# Arguments of operators whose shapes depend on each other: numbers as they are, tensors as lists of sizes, i[...] of indices.
_RECIPES = {
    'convolution': 't(2, 4, 6, 6), t(3, 4, 3, 3), None, [1, 1], [1, 0], [1, 1], False, [0, 0], 1',
    'conv3d': 't(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2)', 'conv_transpose1d': 't(2, 3, 6), t(3, 2, 3)',
    'conv_transpose2d.input': 't(2, 3, 5, 5), t(3, 2, 3, 3)', 'conv_transpose3d.input': 't(1, 2, 3, 3, 3), t(2, 3, 2, 2, 2)',
    'conv_tbc': 't(6, 2, 3), t(3, 3, 4), t(4)', 'col2im': 't(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]',
    'clamp': 't(3, 4), 0, 1', 'clamp.Tensor': 't(3, 4), t(3, 4), t(4)', '_fft_c2r': 'c(3, 4), [1], 0, 6', '_fft_c2c': 'c(3, 4), [0], 0, True',
    'scatter.reduce': "t(3, 4), 0, i(3, 4), t(3, 4), reduce='add'", 'index_reduce': "t(3, 4), 0, i(2), t(2, 4), 'prod'",
    'index.Tensor': 't(3, 4), [i(2), i(2)]', 'linalg_cholesky': 'spd(3)', 'cholesky': 'spd(3)', 'linalg_lu_solve': 't(3, 3), pivots(3), t(3, 2)',
    'lu_solve': 't(3, 2), t(3, 3), pivots(3)', 'lu_unpack': 't(3, 3), pivots(3)', 'linalg_solve_triangular': 't(3, 3), t(3, 2), upper=True',
    'ormqr': 't(3, 2), t(2), t(3, 4)', 'linalg_ldl_solve': 'spd(3), pivots(3), t(3, 2)', 'cross_entropy_loss': 't(4, 5), i(4)',
    'nll_loss': 't(4, 5), i(4)', 'nll_loss2d': 't(2, 3, 4, 4), i(2, 4, 4)', 'nll_loss_nd': 't(4, 5), i(4)', 'mv': 't(3, 4), t(4)',
    'cosine_embedding_loss': 't(4, 5), t(4, 5), t(4)', 'addmv': 't(3), t(3, 4), t(4)', 'addbmm': 't(3, 5), t(2, 3, 4), t(2, 4, 5)',
    'einsum': "'ij,jk->ik', [t(3, 4), t(4, 2)]", 'tensordot': 't(3, 4), t(4, 2), [1], [0]', '_safe_softmax': 't(3, 4), 1',
    'layer_norm': 't(3, 4), [4], t(4), t(4)', 'native_layer_norm': 't(3, 4), [4], t(4), t(4), 1e-5', 'rms_norm': 't(3, 4), [4], t(4)',
    'batch_norm': 't(3, 4), t(4), t(4), t(4), t(4), True, 0.1, 1e-5, False', 'native_batch_norm': 't(3, 4), t(4), t(4), None, None, True, 0.1, 1e-5',
    'instance_norm': 't(2, 3, 4), t(3), t(3), None, None, True, 0.1, 1e-5, False', 'native_group_norm': 't(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5',
    'embedding_bag': 't(5, 3), i(6), offsets(6)', 'reflection_pad2d': 't(2, 3, 4, 4), [1, 1, 2, 0]', 'reflection_pad3d': 't(1, 2, 3, 4, 4), [1, 1, 1, 0, 1, 1]',
    'replication_pad2d': 't(2, 3, 4, 4), [1, 1, 2, 0]', 'replication_pad3d': 't(1, 2, 3, 4, 4), [1, 1, 1, 0, 1, 1]', 'one_hot': 'i(4), 5',
    'div.Tensor_mode': "t(3, 4), t(3, 4), rounding_mode='floor'", 'max_pool1d': 't(2, 3, 6), [2]', 'max_pool3d': 't(1, 2, 4, 4, 4), [2, 2, 2]',
    'adaptive_max_pool1d': 't(2, 3, 6), [2]', 'adaptive_max_pool3d': 't(1, 2, 4, 4, 4), [2, 2, 2]', 'avg_pool1d': 't(2, 3, 6), [2]',
    'avg_pool3d': 't(1, 2, 4, 4, 4), [2, 2, 2]', 'adaptive_avg_pool1d': 't(2, 3, 6), [2]', 'adaptive_avg_pool3d': 't(1, 2, 4, 4, 4), [2, 2, 2]',
    'unflatten.int': 't(3, 4), 1, [2, 2]', 'diagonal_scatter': 't(3, 4), t(3)', 'select_scatter': 't(3, 4), t(4), 0, 1', 'split.sizes': 't(3, 4), [1, 2]',
    'cumulative_trapezoid.x': 't(3, 4), t(4)', 'narrow.Tensor': 't(3, 4), 0, n(1), 2', 'slice.Tensor': 't(3, 4), 1, 1, 4, 2', 'imag': 'c(3, 4)',
    'lstm.input': 't(5, 2, 3), [t(1, 2, 4), t(1, 2, 4)], [t(16, 3), t(16, 4), t(16), t(16)], True, 1, 0.0, False, False, False',
    'gru.input': 't(5, 2, 3), t(1, 2, 4), [t(12, 3), t(12, 4), t(12), t(12)], True, 1, 0.0, False, False, False',
    'gru_cell': 't(2, 3), t(2, 4), t(12, 3), t(12, 4), t(12), t(12)', 'lstm_cell': 't(2, 3), [t(2, 4), t(2, 4)], t(16, 3), t(16, 4), t(16), t(16)',
    'sum_to_size': 't(3, 4), [1, 4]', 'bincount': 'i(6)', 'sort.stable': 't(3, 4), stable=True', 'argsort.stable': 't(3, 4), stable=True',
    'upsample_nearest1d': 't(2, 3, 4), [6]', 'upsample_linear1d': 't(2, 3, 4), [6], False', 'upsample_nearest3d': 't(1, 2, 3, 3, 3), [5, 4, 6]',
    'upsample_trilinear3d': 't(1, 2, 3, 3, 3), [5, 4, 6], True', 'grid_sampler_2d': 't(2, 3, 4, 4), t(2, 3, 3, 2), 0, 0, False',
    'grid_sampler_3d': 't(1, 2, 3, 3, 3), t(1, 2, 2, 2, 3), 0, 0, False', 'affine_grid_generator': 't(2, 2, 3), [2, 1, 4, 4], False',
    'fractional_max_pool2d': 't(1, 2, 6, 6), [2, 2], [3, 3], t(1, 2, 2)', 'max_unpool3d': 't(1, 2, 2, 2, 2), i(1, 2, 2, 2, 2), [4, 4, 4], [2, 2, 2], [0, 0, 0]',
    'ctc_loss.Tensor': 't(6, 2, 5), i(2, 3) + 1, lengths(2, 6), lengths(2, 3)', 'segment_reduce': "t(6, 2), 'sum', lengths=lengths(2, 3)",
}


def _tensor(name, shape, dtype):
    if name in _INDICES:
        return tede.zeros(shape, dtype=tede.int64)
    if name in ('mask', 'condition'):
        return tede.rand(shape) > 0.5
    if dtype == 'bool':
        return tede.rand(shape) > 0.5
    if dtype.startswith('complex'):
        return tede.randn(shape, dtype=getattr(tede, dtype))
    return tede.rand(shape).to(getattr(tede, dtype)) if dtype.startswith('float') else tede.randint(0, 5, shape, dtype=getattr(tede, dtype))


def _argument(a, shape, dtype):
    if a.is_tensor:
        one = _tensor(a.name, shape, dtype)
        return [one, one.clone()] if a.list else one
    if a.list:
        return _LISTS.get(a.name, [2, 2] if len(shape) != 1 else [2])
    if a.type == 'str':
        return _WORDS.get(a.name, '')
    return {'int': _INTS.get(a.name, 1), 'float': 0.5, 'bool': False, 'Scalar': 1, 'ScalarType': tede.float32}.get(a.type)


def _from_recipe(text, dtype):
    def t(*shape):
        return _tensor('', shape, dtype)

    def i(*shape):
        return tede.arange(max(1, product(shape)))[:product(shape)].reshape(shape) % 3
    tools = {
        't': t, 'i': i, 'c': lambda *shape: tede.randn(shape, dtype=tede.complex64), 'n': lambda n: tede.tensor(n),
        'spd': lambda n: (lambda a: a @ a.mT.conj() + n * tede.eye(n, dtype=a.dtype))(t(n, n)), 'offsets': lambda n: tede.tensor([0, n // 2]),
        'pivots': lambda n: tede.arange(1, n + 1, dtype=tede.int32), 'lengths': lambda n, each: tede.full((n,), each, dtype=tede.int64),
    }
    return eval(f'(lambda *args, **kwargs: (list(args), kwargs))({text})', tools)


def product(shape):
    return functools.reduce(lambda a, b: a * b, shape, 1)


@functools.cache
def groups():
    """The entries of ops/*.yaml, expanded by codegen."""
    import pathlib
    import sys
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root))
    from codegen.entries import load
    return [(family, group) for family, found in load(root / 'ops').items() for group in found]


def callable_of(op):
    packet = getattr(tede.ops.aten, op.schema.name, None)
    return packet and getattr(packet, op.schema.overload or 'default', None)


@functools.cache
def entries():
    """The operators that are functions of dense tensors: [(operator of codegen, its callable)]."""
    return [(group[0], callable_of(group[0])) for family, group in groups()
            if family not in ('alias', 'deprecated', 'optimizer') and not family.startswith('sparse') and group[0].variant == 'functional' and group[0].tensors
            and callable_of(group[0])]


def is_internal(op):
    """Helpers of gradient formulas get what the operator that they belong to made: they are swept through it."""
    return 'internal' in (op.entry.get('python'), *op.entry.get('flags', []))


def made_up(dtype='float32', most=2, match=None):
    """[Call] for the operators that accept made up arguments, called by schema."""
    for op, fn in entries():
        if is_internal(op) or op.schema.name in NOT_A_FUNCTION_OF_VALUES or match and not match(op.schema.name):
            continue
        yield from _tried(op, fn, dtype, most)


def _accepted(call):
    try:
        call()
        return True
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return False


def _tried(op, fn, dtype, most):
    name = op.schema.full_name
    if name in _RECIPES:
        tede.manual_seed(0)
        try:
            call = Call(name, fn, *_from_recipe(_RECIPES[name], dtype))
        except NotImplementedError:         # no such arguments of this dtype
            return []
        return [call] if _accepted(call) else []
    found = []
    for shape in _SHAPES if most < 3 else _SHAPES + _EDGES:
        if len(found) < most or shape in _EDGES:
            tede.manual_seed(0)
            args = [_argument(a, shape, dtype) for a in op.schema.arguments if a.default is None and not a.keyword_only]
            call = Call(f'{name}{list(shape)}', fn, args, {})
            found += [call] * _accepted(call)
    return found


def calls(dtype='float32', most=2, match=None):
    """Made up ones, among them empty and 0-d operands, and PyTorch's samples where it is installed."""
    yield from made_up(dtype, max(most, 3), match)
    try:
        import torch  # noqa: F401
    except ImportError:
        return
    yield from from_torch(dtype, most, match)
