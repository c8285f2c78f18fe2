"""Calls of operators with sample arguments, for tests that hold for all of them.

With PyTorch installed they are its own samples (OpInfo), turned into tede's tensors; without, the calls are made up from the
operators' schemas: arguments are tried until some are accepted."""
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


@functools.cache
def entries():
    """The operators of ops/*.yaml that are functions of tensors: [(operator of codegen, its callable)]."""
    import pathlib
    import sys
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root))
    from codegen.entries import load
    found = []
    for family, groups in load(root / 'ops').items():
        for group in groups:
            op = group[0]
            if family in ('alias', 'deprecated', 'optimizer') or op.variant != 'functional' or not op.tensors:
                continue
            packet = getattr(tede.ops.aten, op.schema.name, None)
            if packet is not None:
                found.append((op, getattr(packet, op.schema.overload or 'default')))
    return found


def made_up(dtype='float32', most=2, match=None):
    """[Call] for the operators that accept made up arguments, called by schema."""
    for op, fn in entries():
        if op.schema.name in NOT_A_FUNCTION_OF_VALUES or match and not match(op.schema.name):
            continue
        count = 0
        for shape in _SHAPES:
            if count == most:
                break
            tede.manual_seed(0)
            args = [_argument(a, shape, dtype) for a in op.schema.arguments if a.default is None and not a.keyword_only]
            call = Call(f'{op.schema.full_name}{list(shape)}', fn, args, {})
            try:
                call()
            except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
                continue
            count += 1
            yield call


def calls(dtype='float32', most=2, match=None):
    """PyTorch's samples where it is installed, made up ones where it isn't."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return made_up(dtype, most, match)
    return from_torch(dtype, most, match)
