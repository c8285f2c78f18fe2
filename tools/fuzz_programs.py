"""Random programs of 3 to 15 operators, run line by line in PyTorch and in tede, which must agree after each line.

    python tools/fuzz_programs.py --seed 1 --programs 20000
    python tools/fuzz_programs.py --seed 17 --programs 1 --show       # the program itself
    python tools/fuzz_programs.py --match '^index_' --seconds 60      # with operators of such names

A program is text that runs on either library: tensors of all dtypes and layouts, calls with arguments that are drawn by the names
and types in PyTorch's schemas, in-place forms on views, out=, index assignment, gradients and their gradients. Compared are which
calls are refused, types of errors, dtypes, shapes, strides, aliasing, flags of autograd, versions, values and gradients. The
first difference ends a program, which is then shortened and printed; differences are counted by operator and kind. Those that the
table "Found by random programs" of docs/differences.md names are expected; more than --most others make the exit status 1.

A worker process runs the programs, so that a crash or a hang is a difference, too."""
import argparse
import collections
import ctypes
import inspect
import itertools
import keyword
import math
import os
import pathlib
import random
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOOKED_FOR = set()          # of the kinds in MINOR
LARGEST = 4000              # elements of a tensor that takes part
SECONDS = 20                # for one program; one that takes longer hangs
HEAD = 'import torch\nfrom math import inf, nan\n'
DTYPES = dict(float32=45, float64=14, int64=10, bool=6, complex64=5, int32=4, uint8=4, bfloat16=4, float16=3, int16=2, int8=2,
              complex128=2, uint16=1, uint32=1, uint64=1)
# How far results may be apart, beside the largest of a tensor. Rounding isn't what this looks for: docs/accuracy.md has the figures.
TOLERANCE = dict(float64=1e-7, complex128=1e-7, float32=1e-3, complex64=1e-3, float16=1e-2, complex32=1e-2, bfloat16=6e-2)


# ---- what is called

# Not functions of their arguments' values; other layouts, devices and dtypes; what changes the process.
LEFT_OUT = re.compile(r'''
    ^_ | ^empty | ^new_empty | quantize | ^q_ | ^int_repr | fbgemm | mkldnn | cudnn | miopen | sparse | ^values | crow_ | ccol_ | ^(row|col)_indices
    | ^coalesce | ^dense_dim | ^indices | nested | cuda | ^xpu | ^is_(pinned|vulkan|distributed|leaf) | pin_memory | ^record_stream | ^set_ | ^resize
    | ^data_ptr | ^storage | ^untyped | ^share_memory | ^from_ | ^to_dense | backward$ | ^register | ^refine_names | ^rename | ^align | ^names |
    ^set_default | ^get_ | compile | ^init | ^import | ^sym_ | ^vmap | ^rnn | ^lstm | ^gru | ^export | ^align | ^smm | ^sspaddmm | ^hspmm | ^apply_?$
    | ^map_ | ^unflatten_dense | ^flatten_dense | ^wait | ^fork | ^save | ^load | ^data$ | ^item$ | ^retain_grad | ^choose_qparams | ^as_strided_?$ |
    ^segment_reduce | ^ctc_loss | ^grouped_mm | ^scaled_ | multi_head_attention | ^to_padded | ^tolist$ |
    ^batch_norm_ | fused_moving | qscheme | ^index$ | ^native_norm | slice_inverse | ^(initial_)?seed$ | ^eigh?$ | ^svd$ | lowrank | lobpcg |
    _symint$ | ^assert | ^chalf$ | sobol''', re.X)


class Operator:
    """A public callable: its path, whether it is a method, and the signatures that it has."""

    def __init__(self, path, name, signatures):
        self.path, self.name, self.signatures = path, name, signatures
        self.method = path.startswith('Tensor.')
        self.in_place = self.method and name.endswith('_') and not name.endswith('__')


class Argument:
    def __init__(self, name, type, required, keyword=False, out=False):
        self.name, self.type, self.required, self.keyword, self.out = name, type, required, keyword, out


def operators(torch, match=None):
    """[Operator]: everything public that has a schema in PyTorch, or a signature with types (torch.nn.functional)."""
    schemas = collections.defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith('aten::'):
            schemas[schema.name[6:]].append([
                Argument(a.name, str(a.type), not a.has_default_value(), a.kwarg_only, a.is_out) for a in schema.arguments])
    found = []
    for name, signatures in schemas.items():
        if LEFT_OUT.search(name):
            continue
        signatures = [s for s in signatures if not any('torch.classes' in a.type or a.type in ('Storage', 't', 'List[t]') for a in s)]
        plain = [s for s in signatures if not any(a.out for a in s) or not name.endswith('_')]
        prefix, _, rest = name.partition('_')
        if prefix in ('linalg', 'fft', 'special') and hasattr(getattr(torch, prefix), rest) and not LEFT_OUT.search(rest):
            found.append(Operator(f'torch.{prefix}.{rest}', rest, plain))
        if callable(getattr(torch, name, None)):
            found.append(Operator(f'torch.{name}', name, plain))
        elif callable(getattr(torch.nn.functional, name, None)) and not inspect.isfunction(getattr(torch.nn.functional, name)):
            found.append(Operator(f'torch.nn.functional.{name}', name, plain))
        if callable(getattr(torch.Tensor, name, None)):
            of_tensor = [s[1:] for s in plain if s and s[0].type == 'Tensor' and not any(a.out for a in s)]
            if of_tensor:
                found.append(Operator(f'Tensor.{name}', name, of_tensor))
    for name, function in vars(torch.nn.functional).items():
        if inspect.isfunction(function) and function.__module__ in ('torch.nn.functional', 'torch._jit_internal') \
                and not LEFT_OUT.search(name) and name not in ('boolean_dispatch', 'handle_torch_function'):
            signature = typed(function)
            if signature and hasattr(torch.nn.functional, name):
                found.append(Operator(f'torch.nn.functional.{name}', name, [signature]))
    found = [o for o in found if o.signatures]
    return [o for o in found if match.search(o.name)] if match else found


def typed(function):
    """[Argument] of a Python function with annotations, or None."""
    arguments = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.name == 'args':                    # one of two functions, chosen by return_indices=: the schema says the rest
                return None
            continue
        text = str(p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, '__name__', p.annotation))
        text = text.replace('typing.', '').replace('torch.', '')
        if p.annotation is not p.empty and 'Optional' in str(p.annotation) or '| None' in str(p.annotation):
            inner = re.sub(r'typing\.|torch\.|Optional\[(.*)\]|\| None', r'\1', str(p.annotation)).strip()
            text = f'Optional[{inner}]'
        for word, simple in (('BroadcastingList', 'List[int]'), ('list[int]', 'List[int]'), ('Tensor', 'Tensor'), ('bool', 'bool'), ('str', 'str'),
                             ('float', 'float'), ('int', 'int'), ('DType', 'dtype'), ('dtype', 'dtype')):
            if word in text:
                text = f'Optional[{simple}]' if 'Optional' in text else simple
                break
        else:
            if p.annotation is p.empty and p.default is not p.empty:
                text = {bool: 'bool', int: 'int', float: 'float', str: 'str'}.get(type(p.default), 'Optional[int]')
        arguments.append(Argument(p.name, text, p.default is p.empty, p.kind is p.KEYWORD_ONLY))
    return arguments


# ---- how arguments are drawn

WORDS = {
    'reduction': ['mean', 'sum', 'none'], 'reduce': ['sum', 'prod', 'mean', 'amax', 'amin', 'add', 'multiply'], 'norm': ['backward', 'ortho', 'forward'],
    'rounding_mode': ['floor', 'trunc'], 'indexing': ['ij', 'xy'], 'UPLO': ['L', 'U'], 'side': ['left', 'right'], 'approximate': ['none', 'tanh'],
    'interpolation': ['linear', 'lower', 'higher', 'midpoint', 'nearest'], 'driver': ['gels', 'gelsy', 'gelsd', 'gelss'], 'padding': ['same', 'valid'],
    'ord': ['fro', 'nuc'], 'p': ['fro', 'nuc'], 'padding_mode': ['zeros', 'border', 'reflection'], 'pad_mode': ['reflect', 'constant'],
    'mode': ['constant', 'reflect', 'replicate', 'circular', 'nearest', 'bilinear', 'linear', 'bicubic', 'area', 'mean', 'max', 'sum', 'reduced', 'complete', 'r'],
    'equation': ['ij,jk->ik', 'ii', '...i->...', 'i,i', 'ij->ji', 'bij,bjk->bik'],
}
# Shapes that depend on each other: a letter is a size, * any leading ones; a number before < is the end of the indices drawn.
SHAPES = dict(entry.strip().split(': ') for entry in '''
    mm: a b, b c; bmm: n a b, n b c; mv: a b, b; dot: a, a; vdot: a, a; inner: * b, c b; ger: a, b; outer: a, b; matmul: * a b, b c;
    __matmul__: * a b, b c; __rmatmul__: * a b, c a; addmm: a c, a b, b c; addmv: a, a b, b; addr: a b, a, b; addbmm: a c, n a b, n b c;
    baddbmm: n a c, n a b, n b c; linear: * b, c b, c; bilinear: n a, n b, c a b, c; conv1d: n c 5, d c 2, d; conv2d: n c 4 5, d c 2 2, d;
    conv3d: n c 3 3 3, d c 2 2 2, d; conv_transpose1d: n c 4, c d 2, d; conv_transpose2d: n c 3 4, c d 2 2, d; conv_tbc: 5 n c, 2 c d, d;
    conv_transpose3d: n c 2 3 2, c d 2 2 2, d; cdist: * a c, * b c; kron: a b, c d; chain_matmul: a b; multi_dot: a b; embedding: 4<a b, 4 c;
    embedding_bag: 4<a b, 4 c; cross_entropy: a 3, 3<a, 3; nll_loss: a 3, 3<a, 3; nll_loss_nd: a 3, 3<a, 3; multi_margin_loss: a 3, 3<a;
    multilabel_margin_loss: a 3, 3<a 3; batch_norm: 2 c 3, c, c, c, c; layer_norm: * c; group_norm: 2 4 3, 4, 4; instance_norm: 2 c 3, c, c, c, c;
    rms_norm: * c; scaled_dot_product_attention: n h a e, n h b e, n h b e; cross: * 3, * 3; grid_sample: 1 c 3 4, 1 2 2 2;
    grid_sampler: 1 c 3 4, 1 2 2 2; affine_grid: 1 2 3; solve: * a a, a b; cholesky_solve: a b, a a; triangular_solve: a b, a a;
    solve_triangular: a a, a b; lu_solve: a b, a a, a; lstsq: a b, a c; searchsorted: a, b; bucketize: a b, c; pairwise_distance: * c, * c;
    cosine_similarity: * c, * c; cosine_embedding_loss: a c, a c, a; triplet_margin_loss: a c, a c, a c; prelu: 2 c 3, c; max_pool1d: n c 6;
    max_pool2d: n c 4 5; max_pool3d: n c 3 4 3; avg_pool1d: n c 6; avg_pool2d: n c 4 5; avg_pool3d: n c 3 4 3; pixel_shuffle: 2 4 a b;
    pixel_unshuffle: n c 4 2; fold: 2 4 6; unfold: n c 4 5; im2col: n c 4 5; householder_product: a b, b; ormqr: a b, b, a c; cov: a b; corrcoef: a b;
    histogram: a, 4; tensordot: a b, b c; ldl_solve: a a, a, a b; vecdot: * c, * c; vander: a; inverse: a a; inv: a a; det: a a; logdet: a a;
    slogdet: a a; eigh: a a; eigvalsh: a a; eigvals: a a; cholesky: a a; cholesky_inverse: a a; matrix_exp: a a; matrix_power: a a; lu_factor: a a;
    ldl_factor: a a; trace: a b; block_diag: a b; upsample_nearest1d: n c 4; upsample_nearest2d: n c 3 4; upsample_bilinear2d: n c 3 4;
    upsample_bicubic2d: n c 3 4; interpolate: n c 3 4; adaptive_avg_pool1d: n c 5; adaptive_avg_pool2d: n c 4 5; adaptive_max_pool2d: n c 4 5;
    adaptive_max_pool1d: n c 5; channel_shuffle: 2 4 a b; istft: 5 4; stft: 9; lu_unpack: a a, a; lp_pool2d: n c 4 4; lp_pool1d: n c 6;
    local_response_norm: n 3 a; native_channel_shuffle: 2 4 a b; adaptive_avg_pool3d: n c 3 4 3; adaptive_max_pool3d: n c 3 4 3;
    upsample_linear1d: n c 4; upsample_trilinear3d: n c 2 3 2; upsample_nearest3d: n c 2 3 2; native_layer_norm: * c; native_group_norm: 2 4 3, 4, 4;
    native_batch_norm: 2 c 3, c, c, c, c; reflection_pad1d: c 4; reflection_pad2d: n c 3 4; replication_pad1d: c 4; replication_pad2d: n c 3 4;
    glu: a 4; tensorinv: a a; tensorsolve: a a, a; pinverse: a b; svd: a b; qr: a b'''.split(';'))
# Lists of so many sizes as the operator has dimensions of space; what isn't named here has one for each dimension.
SPACE = re.compile(r'[123](?=d)')
INDICES = {'index', 'indices', 'target', 'offsets', 'pivots', 'LU_pivots', 'repeats', 'ipiv', 'bits'}


class Drawing:
    """Lines of a program; what PyTorch's tensors are at the time decides which arguments fit."""

    def __init__(self, seed, surface, torch):
        self.random, self.surface, self.torch = random.Random(seed), surface, torch
        self.space = {'torch': torch, 'inf': math.inf, 'nan': math.nan}
        self.pool, self.count = [], 0       # the expressions that name tensors

    # -- tensors

    def often(self, share):
        return self.random.random() < share

    def dtype(self):
        return self.random.choices(list(DTYPES), DTYPES.values())[0]

    def shape(self):
        return self.random.choice([(), (0,), (1,), (3,), (4,), (2, 3), (3, 3), (2, 2), (3, 1), (1, 4), (0, 3), (2, 0), (2, 3, 2), (1, 2, 2), (2, 2, 3, 3),
                                   (1, 3, 4, 4), (2, 3, 4), (3, 3, 3)])

    def number(self, dtype):
        r = self.random
        if dtype == 'bool':
            return r.choice(['True', 'False'])
        if dtype.startswith('complex'):
            return f'{r.randint(-12, 12) / 4}{r.randint(-12, 12) / 4:+}j'
        if dtype.startswith('uint'):
            return str(r.randint(0, 9))
        if dtype.startswith('int'):
            return str(r.randint(-5, 9))
        return r.choice(['nan', 'inf', '-inf', '-0.0']) if self.often(0.02) else str(r.randint(-12, 12) / 4)

    def literal(self, shape, dtype, end=None):
        n = math.prod(shape)
        numbers = [str(self.random.randrange(end)) if end else self.number(dtype) for _ in range(n)]
        text = f"torch.tensor([{', '.join(numbers)}], dtype=torch.{dtype})"
        return text if shape == (n,) else f'{text}.reshape({shape})' if shape else f'torch.tensor({numbers[0]}, dtype=torch.{dtype})'

    def factory(self, shape=None, dtype=None):
        """A tensor of that shape, in one of many layouts."""
        r = self.random
        shape = self.shape() if shape is None else shape
        dtype = dtype or self.dtype()
        how = r.random()
        if how < 0.1 and len(shape) > 1:
            text = self.literal(shape[::-1], dtype) + f'.permute({list(range(len(shape)))[::-1]})'
        elif how < 0.16 and len(shape):
            text = self.literal((*shape[:-1], shape[-1] * 2), dtype) + '[..., ::2]'
        elif how < 0.22 and len(shape) and 0 not in shape:
            text = self.literal((1, *shape[1:]), dtype) + f'.expand({shape})'
        elif how < 0.26 and len(shape) == 4:
            text = self.literal(shape, dtype) + '.contiguous(memory_format=torch.channels_last)'
        elif how < 0.3 and len(shape):
            text = self.literal((shape[0] + 1, *shape[1:]), dtype) + '[1:]'
        else:
            text = self.literal(shape, dtype)
        if dtype in TOLERANCE and self.often(0.45):
            text += '.requires_grad_()'
            if self.often(0.4):
                text += r.choice([' * 1', '.clone()', ' + 0', '.view_as({0})', '.mul(2)']).replace('.view_as({0})', '[...]')
                text = f'({text})' if text.endswith(('1', '0')) else text
        return text

    def value(self, text):
        """PyTorch's tensor of an expression that has no effect."""
        return eval(text, self.space)

    def tensor(self, shape=None, dtype=None, kind=None):
        """An expression: one from the pool that fits, or a new one."""
        fits = [p for p in self.pool if (shape is None or tuple(self.value(p).shape) == shape)
                and (dtype is None or self.value(p).dtype == getattr(self.torch, dtype))]
        return self.random.choice(fits) if fits and self.often(0.8) else self.factory(shape, dtype)

    def indices(self, context, name):
        torch, r, x = self.torch, self.random, context.get('self')
        x = x if isinstance(x, torch.Tensor) else next((v for v in context.values() if isinstance(v, torch.Tensor)), None)
        dim = context.get('dim') if isinstance(context.get('dim'), int) else None
        shape, end = (r.randint(0, 3),), 3
        if x is not None:
            fits = dim is not None and -x.dim() <= dim < x.dim()
            end = x.size(dim) if fits else max(x.numel(), 1)
            if context['name'].startswith(('gather', 'scatter', 'take_along')):
                shape = tuple(min(n, r.randint(1, 3)) if self.often(0.5) else n for n in x.shape)
            elif not context['name'].startswith('index') and self.often(0.5):
                shape = tuple(x.shape)
        return self.literal(shape, 'int64' if self.often(0.9) else r.choice(['int32', 'bool', 'float32', 'uint8']), end=max(end, 1) + self.often(0.05))

    def other(self, a, context):
        """A tensor beside those that the call has already."""
        r, torch = self.random, self.torch
        have = [v for v in context.values() if isinstance(v, torch.Tensor)]
        if not have:
            return self.tensor()
        first = have[0]
        dtype, shape = str(first.dtype)[6:], tuple(first.shape)
        if a.name in INDICES:
            return self.indices(context, a.name)
        if 'mask' in a.name or a.name == 'condition':
            return self.factory(shape if self.often(0.8) else shape[1:], 'bool' if self.often(0.9) else 'uint8')
        if a.name in ('source', 'src') and isinstance(context.get('index'), torch.Tensor):
            index, dim = context['index'], context.get('dim')
            if isinstance(dim, int) and context['name'].startswith('index') and -len(shape) <= dim < len(shape):
                sizes = list(shape)
                sizes[dim] = index.numel()
                return self.tensor(tuple(sizes), dtype)
            return self.tensor(tuple(index.shape), dtype)
        how = r.random()
        if how < 0.6:
            return self.tensor(shape, dtype if self.often(0.85) else None)
        if how < 0.75 and shape:
            return self.tensor(shape[1:] if self.often(0.5) else tuple(1 if self.often(0.5) else n for n in shape), dtype)
        return self.tensor((), dtype) if how < 0.85 else self.tensor(None, dtype) if how < 0.95 else self.tensor()

    # -- what isn't a tensor

    def whole(self, a, context):
        """An int, by its name."""
        r = self.random
        x = next((v for v in context.values() if isinstance(v, self.torch.Tensor)), None)
        dims = x.dim() if x is not None else 2
        if a.name.startswith(('dim', 'axis', 'start_dim', 'end_dim')) or a.name in ('source', 'destination'):
            return r.randint(-dims, dims - 1) if dims and self.often(0.92) else r.choice([dims, -dims - 1, 0, -1, 2 ** 31 if self.often(0.1) else 1])
        if a.name in ('index', 'start', 'end', 'step', 'length', 'split_size', 'chunks', 'k', 'offset', 'diagonal', 'n', 'dim_size'):
            return r.choice([0, 1, 1, 2, -1, 3, 5])
        if a.name == 'reduction':
            return r.randint(0, 2)
        return r.choice([1, 1, 2, 2, 3, 0, -1, 4]) if self.often(0.97) else r.choice([7, 100, -5, 2 ** 31, -2 ** 63])

    def wholes(self, a, context):
        """A list of ints, by its name."""
        r, x = self.random, next((v for v in context.values() if isinstance(v, self.torch.Tensor)), None)
        dims = x.dim() if x is not None else 2
        space = SPACE.search(context['name'])
        if a.name.startswith(('dim', 'axis', 'axes')):
            chosen = r.sample(range(dims), dims if context['name'] in ('permute', 'permute_copy') and self.often(0.9) else r.randint(0, dims))
            chosen = [d - dims if self.often(0.3) else d for d in chosen]
            return chosen + [0] * self.often(0.04)
        if a.name in ('size', 'shape', 'sizes', 'normalized_shape') and x is not None:
            if a.name == 'normalized_shape':
                return list(x.shape[r.randint(0, dims):])
            if self.often(0.75):
                sizes = r.choice([list(x.shape), list(x.shape[::-1]), [x.numel()], [1, *x.shape], [-1], [*x.shape, 1], [-1, *x.shape[1:]], [2, *x.shape]])
                return sizes
        if a.name in ('pad', 'padding') and 'pool' not in context['name'] and 'conv' not in context['name']:
            return [r.choice([0, 1, 1, 2, -1]) for _ in range(2 * int(space.group()) if space else r.choice([2, 2, 4, 3]))]
        low = 0 if a.name in ('padding', 'output_padding', 'shifts', 'size', 'shape', 'sizes', 'output_size') else 1
        count = int(space.group()) if space else max(dims, r.randint(1, 2))
        numbers = [r.choice([low, 1, 2, 2, 3]) if self.often(0.96) else r.choice([-1, 0, 5]) for _ in range(count)]
        return numbers[0] if numbers and self.often(0.1) else numbers[:1] if self.often(0.1) else numbers

    def scalar(self, context):
        r, x = self.random, next((v for v in context.values() if isinstance(v, self.torch.Tensor)), None)
        if self.often(0.06):
            return r.choice(['1j', '(1+2j)', 'inf', 'nan', '130', '2**31', '-2**63', '1e10', '-1e-10', '1e40'])
        if x is not None and not x.is_floating_point() and not x.is_complex() and self.often(0.7):
            return str(r.choice([0, 1, 2, -1, 3, True]))
        return str(r.choice([0, 1, 2, -1, 0.5, -1.5, 2.5, 3, True, 0.0]))

    def argument(self, a, context):
        """The text of an argument, or None to leave it out."""
        r = self.random
        optional = a.type.startswith('Optional[')
        kind = a.type[9:-1] if optional else a.type
        if a.name in ('layout', 'pin_memory', 'generator', 'names', 'inplace', 'non_blocking') or kind in ('Device', 'Generator'):
            return "'cpu'" if a.required and 'Device' in kind else None
        if not a.required and self.often(0.55):
            return None
        if optional and self.often(0.2):
            return 'None'
        if 'dtype' in a.name or kind == 'dtype':
            return f'torch.{self.dtype()}'
        if a.name == 'memory_format':
            return 'torch.' + r.choice(['contiguous_format', 'preserve_format', 'channels_last', 'channels_last_3d'])
        if a.name == 'requires_grad':
            return r.choice(['True', 'False'])
        if kind == 'Tensor':
            return self.other(a, context)
        if kind in ('List[Tensor]', 'List[Optional[Tensor]]'):
            given, inner = [], dict(context)
            for k in range(r.choice([0, 1, 2, 2, 2, 3]) if self.often(0.9) else 1):
                given.append(self.indices(inner, 'index') if a.name == 'indices' else self.other(a, inner))
                inner[f'{a.name} {k}'] = self.value(given[-1])
            return f"[{', '.join(given)}]" if a.name != 'indices' else f"({''.join(g + ', ' for g in given)})"
        if kind == 'str':
            return repr(r.choice(WORDS.get(a.name, ['sum', 'no such word'])) if self.often(0.97) else 'foo')
        if kind == 'bool':
            return r.choice(['True', 'False'])
        if kind == 'int' and a.name == 'reduction' and 'functional' in context['path']:
            return repr(r.choice(WORDS['reduction']))
        if kind == 'int':
            return str(self.whole(a, context))
        if kind == 'List[int]':
            return str(self.wholes(a, context))
        if kind in ('List[float]', 'List[number]'):
            return str([r.choice([1.0, 2.0, 0.5]) for _ in range(r.randint(1, 2))])
        if kind == 'List[bool]':
            return str([self.often(0.5) for _ in range(r.randint(1, 3))])
        if kind == 'float':
            return str(r.choice([0.0, 0.5, 1.0, 2.0, -1.0, 1e-5])) if self.often(0.97) else r.choice(['inf', 'nan', '1e10'])
        return self.scalar(context)

    def shaped(self, pattern, arguments):
        """{name: text} of tensors whose shapes are bound to each other by SHAPES."""
        r, texts, sizes = self.random, {}, collections.defaultdict(lambda: r.randint(1, 3))
        dtype, lead = None, None
        names = [a for a in arguments if a.type in ('Tensor', 'Optional[Tensor]')]
        for a, part in zip(names, pattern.split(', '), strict=False):
            part, end = (part.split('<')[1], int(part[0])) if '<' in part else (part, None)
            letters = part.split()
            if dtype is None and end is None and self.pool and self.often(0.5):
                fits = [p for p in self.pool if len(letters) == self.value(p).dim() and all(not c.isdigit() or int(c) == n
                        for c, n in zip(letters, self.value(p).shape, strict=False))]
                if fits and '*' not in letters:
                    texts[a.name] = r.choice(fits)
                    x = self.value(texts[a.name])
                    dtype = str(x.dtype)[6:]
                    sizes.update((c, n) for c, n in zip(letters, x.shape, strict=False) if not c.isdigit())
                    continue
            if dtype is None and end is None:
                dtype = self.dtype()
            lead = lead if lead is not None else r.choice([(), (), (2,), (2, 1), (0,)])
            shape = tuple(itertools.chain.from_iterable(lead if c == '*' else (int(c),) if c.isdigit() else (sizes[c],) for c in letters))
            if not a.required and self.often(0.3):
                continue
            texts[a.name] = self.literal(shape, 'int64', end) if end else self.factory(shape, dtype if self.often(0.95) else None)
        return texts

    # -- lines

    def call(self, operator):
        """A call's text, with or without out=."""
        r = self.random
        signature = r.choice(operator.signatures)
        outs = [a for a in signature if a.out]
        context = {'name': operator.name, 'path': operator.path}
        arguments = [a for a in signature if not a.out]
        if operator.method:
            arguments = [Argument('self', 'Tensor', True), *arguments]
        texts = {}
        shapes = SHAPES.get(operator.name.rstrip('_'))
        if shapes and self.often(0.9):
            texts = self.shaped(shapes, arguments)
            context.update((name, self.value(text)) for name, text in texts.items())
        given, by_name = [], False
        for a in arguments:
            text = texts[a.name] if a.name in texts else self.argument(a, context)
            if text is None:
                by_name = True
                continue
            if a.type in ('Tensor', 'Optional[Tensor]', 'int', 'List[int]', 'Optional[int]') and a.name not in texts:
                context[a.name] = eval(text, self.space)
            if keyword.iskeyword(a.name) and (by_name or a.keyword):
                continue
            named = by_name or a.keyword or (not a.required and self.often(0.3))
            given.append((a.name if named and a.name != 'self' and not keyword.iskeyword(a.name) else None, text))
            by_name = by_name or given[-1][0] is not None
        if operator.method:
            owner = given.pop(0)[1]
            owner = f'({owner})' if owner.startswith('-') else owner
        spelled = [f'{name}={text}' if name else text for name, text in given]
        path = f'{owner}.{operator.name}' if operator.method else operator.path
        if outs:
            out = self.out(f"{path}({', '.join(spelled)})", len(outs))
            if out:
                spelled.append(f'out={out}')
        return f"{path}({', '.join(spelled)})"

    def out(self, text, count):
        """What out= gets: something that fits or nearly does."""
        r, torch = self.random, self.torch
        state = torch.random.get_rng_state()
        try:
            with torch.no_grad():
                results = eval(text, self.space)
        except Exception:
            results = None
        torch.random.set_rng_state(state)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        given = []
        for k in range(count):
            x = results[k] if k < len(results) else None
            shape, dtype = (tuple(x.shape), str(x.dtype)[6:]) if isinstance(x, torch.Tensor) and x.numel() < 200 else ((2,), 'float32')
            how = r.random()
            fits = [p for p in self.pool if tuple(self.value(p).shape) == shape and (self.often(0.3) or str(self.value(p).dtype)[6:] == dtype)]
            if how < 0.35:
                given.append(f'torch.zeros({shape}, dtype=torch.{dtype})')
            elif how < 0.5:
                given.append(f'torch.zeros(0, dtype=torch.{dtype})')
            elif how < 0.6:
                given.append(f'torch.zeros({shape}, dtype=torch.{self.dtype()})')
            elif how < 0.85 and fits:
                given.append(r.choice(fits))
            else:
                given.append(self.factory(shape if self.often(0.7) else None, dtype))
        return given[0] if count == 1 else f"({', '.join(given)})"

    def index(self, x):
        """What stands between brackets."""
        r, parts = self.random, []
        for n in x.shape:
            if self.often(0.25):
                break
            parts.append(r.choice([':', '...' if '...' not in parts else ':',
                                   'None', f'{r.randint(-n - 1, n)}', f'{r.randint(0, n)}', f'{r.randint(-n, n)}:', f'::{r.randint(1, 2)}',
                                   f':{r.randint(-2, n)}',
                                   self.literal((r.randint(0, 2),), 'int64', max(n, 1)), self.literal((n,), 'bool'), str([r.randrange(max(n, 1)) for _ in range(2)]),
                                   'True' if self.often(0.3) else '0']))
        if not parts and self.often(0.3):
            parts = [self.literal(tuple(x.shape), 'bool')]
        return ', '.join(parts) or '...'

    def line(self):
        """The next line."""
        r = self.random
        self.count += 1
        name = f'v{self.count}'
        how = r.random()
        if not self.pool or len(self.pool) < 2 or how < 0.06:
            return f'{name} = {self.factory()}'
        some = r.choice(self.pool)
        x = self.value(some)
        if how < 0.1:
            return f'{name} = {some}[{self.index(x)}]'
        if how < 0.14:
            what = self.scalar({'self': x}) if self.often(0.5) else r.choice(self.pool)
            return f'{some}[{self.index(x)}] {r.choice(["=", "=", "=", "+=", "*="])} {what}'
        if how < 0.17:
            sign = r.choice(['+', '-', '*', '/', '//', '%', '**', '@', '&', '|', '^', '<<', '>>', '<', '<=', '>', '>=', '==', '!='])
            other = self.other(Argument('other', 'Tensor', True), {'self': x}) if self.often(0.6) else self.scalar({'self': x})
            if self.often(0.3) and sign in ('+', '-', '*', '/', '//', '%', '**', '&', '|', '^', '<<', '>>'):
                return f'{some} {sign}= {other}'
            return f'{name} = {some} {sign} {other}' if self.often(0.7) else f'{name} = {other} {sign} {some}'
        if how < 0.19:
            what = ['detach()', 'requires_grad_()', 'requires_grad_(False)', 'detach_()', 'T', 'mT', 'H', 'mH', 'real', 'imag', 'data', 'retain_grad()']
            return f'{name} = {some}.{r.choice(what)}'
        if how < 0.22:
            return self.backward(name)
        text = self.call(r.choice(self.surface))
        if self.often(0.06):
            return f"with torch.{r.choice(['no_grad', 'no_grad', 'inference_mode', 'enable_grad'])}(): {name} = {text}"
        return f'{name} = {text}'

    def backward(self, name):
        """Gradients of something that has a history; one time in two so that they have one, too."""
        r = self.random
        tracked = [p for p in self.pool if self.value(p).requires_grad and (self.value(p).is_floating_point() or self.value(p).is_complex())]
        if not tracked:
            return f'{name} = {r.choice(self.pool)}.requires_grad_()'
        y = r.choice(tracked[-3:])
        graph = r.choice(['', ', create_graph=True', ', retain_graph=True'])
        total = f'{y}.sum()' if not self.value(y).is_complex() else f'{y}.abs().sum()'
        if self.often(0.4):
            return f'{total}.backward({graph[2:]})'
        inputs = r.sample(tracked, min(len(tracked), r.randint(1, 3)))
        if self.often(0.4):
            return f'{name} = torch.autograd.grad({y}, [{", ".join(inputs)}], torch.ones_like({y}){graph}, allow_unused=True)'
        return f'{name} = torch.autograd.grad({total}, [{", ".join(inputs)}]{graph}, allow_unused=True)'


# ---- running a line in both libraries

class Difference(Exception):
    def __init__(self, kind, detail):
        self.kind, self.detail = kind, detail


class Pair:
    """PyTorch's variables and tede's, after the same lines."""

    def __init__(self, torch, tede, notify=lambda lib: None):
        self.torch, self.tede, self.notify = torch, tede, notify
        self.spaces = [{'torch': lib, 'inf': math.inf, 'nan': math.nan} for lib in (torch, tede)]
        self.pool = []
        self.written = False            # whether the line has an out=
        self.fresh = {}                 # versions of results when they came: what operators wrote to them inside is their affair
        self.counted = {}               # versions since then, after the last line
        for lib in torch, tede:
            lib.manual_seed(5)

    def run(self, line):
        """Run it; a Difference if the libraries do not agree. Whether it was accepted."""
        code, outcomes = compile(line, 'program', 'exec'), []
        self.written = 'out=' in line
        try:
            overwritten, self.expanded, self.computed = self.overwrites_operand(line), self.takes_expanded(line), self.computed_in(line)
        except RuntimeError:                # a dead view
            overwritten, self.expanded, self.computed = False, False, 0
        for lib, space in zip((self.torch, self.tede), self.spaces, strict=True):
            self.notify(lib)
            try:
                exec(code, space)
                outcomes.append(None)
            except (NameError, AttributeError) as error:
                if lib is self.torch and isinstance(error, NameError):
                    raise
                outcomes.append(error)
            except Exception as error:
                outcomes.append(error)
        theirs, ours = outcomes
        if (theirs is None) != (ours is None):
            raise Difference('refused', message(ours)) if theirs is None else Difference('accepted', message(theirs))
        if 'error type' in LOOKED_FOR and type(theirs) is not type(ours) and type(theirs).__name__ != type(ours).__name__:
            raise Difference('error type', f'{message(theirs)} / {message(ours)}')
        if theirs is not None:          # numbers drawn by a call that is refused are nobody's promise
            for lib in self.torch, self.tede:
                lib.manual_seed(5)
        found = re.match(r'(?:with .*: )?(\w+) = ', line)
        if found and theirs is None:
            self.bind(found[1], *(space[found[1]] for space in self.spaces))
        if theirs is not None:
            written = set(re.findall(r'\bv\d+', line.partition('out=')[2]))       # they may have another shape by now
            written = {id(eval(name, self.spaces[0])) for name in self.pool if name.partition('[')[0] in written}
            self.pool[:] = [name for name in self.pool if id(eval(name, self.spaces[0])) not in written]
        self.compare(theirs is None and not overwritten)
        return theirs is None

    def overwrites_operand(self, line):
        """Whether a line writes to memory that it reads through another operand: what comes of that is nobody's promise."""
        assigned = re.match(r'(v\d+)(\[.*\])? (\S*=) (.*)', line)
        if assigned and (assigned[2] or assigned[3] != '='):        # x -= y, x[...] = y; x -= x is every element for itself
            part = assigned[2]
            targets = [name for name in self.pool if name.partition('[')[0] == assigned[1]]
            read = [name for name in self.pool if name.partition('[')[0] in re.findall(r'\bv\d+', assigned[4])]
            return any(shares(a, b, self.spaces) and (part or not self.same_place(a, b)) for a in targets for b in read)
        line = re.sub(r'^(with .*?: )?v\d+(\[\d+\])? = ', '', line)
        before, out, after = line.partition('out=')
        if out:
            written = re.findall(r'\bv\d+(?:\[\d+\])?', after)
        else:
            in_place = re.match(r'(v\d+(?:\[\d+\])?)\.\w+_\((.*)', line) or re.match(r'torch\.\w+_\((v\d+(?:\[\d+\])?), (.*)', line)
            written, before = ([in_place[1]], in_place[2]) if in_place else ([], '')
        read = re.findall(r'\bv\d+(?:\[\d+\])?', before)
        return any(isinstance(eval(a, self.spaces[0]), self.torch.Tensor) and isinstance(eval(b, self.spaces[0]), self.torch.Tensor)
                   and shares(a, b, self.spaces) for a in written for b in read if {a.partition('[')[0], b.partition('[')[0]} <= set(self.spaces[0]))

    def same_place(self, one, other):
        a, b = (eval(name, self.spaces[0]) for name in (one, other))
        return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()

    def takes_expanded(self, line):
        """Whether elements of an operand may share memory."""
        space, torch = self.spaces[0], self.torch
        held = [space[name] for name in re.findall(r'\bv\d+', line.partition(' = ')[2]) if name in space]
        tensors = [x for one in held for x in (one if isinstance(one, (tuple, list)) else [one]) if isinstance(x, torch.Tensor)]
        return '.expand(' in line or any(n > 1 and not s for x in tensors for n, s in zip(x.shape, x.stride(), strict=True))

    def computed_in(self, line):
        """The tolerance of the operands: a result of a wider dtype may show what was computed in theirs."""
        held = [getattr(x, 'dtype', None) for x in (self.spaces[0].get(name) for name in re.findall(r'\bv\d+', line.partition(' = ')[2]))]
        dtypes = [str(dtype)[6:] for dtype in held] + re.findall(r'torch\.(\w+\d+)\b', line)
        return max((TOLERANCE.get(dtype, 0) for dtype in dtypes if dtype != 'float32'), default=0)

    def bind(self, name, theirs, ours):
        """Tensors of a result go to the pool; what isn't a tensor must be equal."""
        torch, tede = self.torch, self.tede
        if isinstance(theirs, torch.Tensor) and isinstance(ours, tede.Tensor):
            if theirs.layout is torch.strided and theirs.numel() <= LARGEST:
                self.pool.append(name)
        elif isinstance(theirs, (tuple, list)) and not isinstance(theirs, torch.Size):
            if type(theirs).__name__ != type(ours).__name__ or len(theirs) != len(ours):
                raise Difference('type', f'{type(theirs).__name__} of {len(theirs)} / {brief(ours)}')
            for k, pair in enumerate(zip(theirs, ours, strict=True)):
                self.bind(f'{name}[{k}]', *pair)
        elif isinstance(theirs, (torch.dtype, torch.device, torch.layout)):
            if str(theirs).rpartition('.')[2] != str(ours).rpartition('.')[2]:
                raise Difference('values', f'{theirs} / {ours}')
        elif type(theirs).__name__ != type(ours).__name__:
            raise Difference('type', f'{type(theirs).__name__} / {type(ours).__name__}')
        elif isinstance(theirs, (bool, int, float, complex, str, torch.Size)) and not close(theirs, ours, 1e-5, 1):
            raise Difference('values', f'{theirs} / {ours}')

    def compare(self, values):
        """What a call that is refused has written until then is nobody's promise."""
        seen = [{}, {}]             # the first variable with a storage, for each library
        same = [{}, {}]
        for name in list(self.pool):
            theirs, ours = (eval(name, space) for space in self.spaces)
            if name not in self.fresh:
                own = [version(theirs), version(ours)]          # .data begins again at 0
                self.fresh[name] = next((self.fresh[p] for p in self.fresh if p in self.pool and shares(p, name, self.spaces)
                                         and all(a <= b for a, b in zip(self.fresh[p], own, strict=True))), None) or own
            for kind, of in FACTS.items():
                a, b = fact(of, theirs), fact(of, ours)
                if kind == 'version':
                    before = self.counted.get(name, (0, 0))
                    a, b = a - self.fresh[name][0], b - self.fresh[name][1]
                    if self.written and a > before[0] and b > before[1]:        # how often an out= is written is the operator's affair, too
                        self.fresh[name][1] += b - a
                        b = a
                    self.counted[name] = a, b
                if a != b and (kind not in MINOR or kind in LOOKED_FOR):
                    raise Difference(kind, f'{name}: {a} / {b}' + ' of nothing' * (kind == 'strides' and not theirs.numel())
                                     + ' in dimensions of size 1' * (kind == 'strides' and theirs.numel() and alike(theirs.shape, a, b))
                                     + ' of integers' * (kind == 'requires_grad' and not (theirs.is_floating_point() or theirs.is_complex())))
            leaf = fact(FACTS['is_leaf'], theirs)
            if leaf not in (True, False):
                continue
            if theirs.numel():
                places = [fact(lambda t: t.untyped_storage().data_ptr(), x) for x in (theirs, ours)]
                first = [s.setdefault(place, name) for s, place in zip(seen, places, strict=True)]
                if first[0] != first[1] and 'RuntimeError' not in places:
                    raise Difference('aliasing', f'{name} shares the storage of {first[0]} / {first[1]}')
            first = [s.setdefault(id(x), name) for s, x in zip(same, (theirs, ours), strict=True)]
            if first[0] != first[1]:
                raise Difference('identity', f'{name} is {first[0]} / {first[1]}')
            self.values(name, theirs, ours, 'values', values)
            if leaf and theirs.requires_grad:
                mine, yours = theirs.grad, ours.grad
                if (mine is None) != (yours is None):
                    raise Difference('grad', f'{name}.grad: {brief(mine)} / {brief(yours)}')
                if mine is not None:
                    for kind in ('dtype', 'shape', 'strides', 'requires_grad'):
                        a, b = FACTS[kind](mine), FACTS[kind](yours)
                        if a != b:
                            raise Difference(f'grad {kind}', f'{name}.grad: {a} / {b}'
                                             + ' in dimensions of size 1' * (kind == 'strides' and mine.numel() and alike(mine.shape, a, b)))
                    self.values(f'{name}.grad', mine, yours, 'grad values')

    def values(self, name, theirs, ours, kind, strict=True):
        if theirs.layout is not self.torch.strided or ours.layout is not self.tede.strided:     # gradients of a lookup
            if str(theirs.layout).rpartition('.')[2] != str(ours.layout).rpartition('.')[2]:
                raise Difference(kind, f'{name}: layout {theirs.layout} / {ours.layout}')
            theirs, ours = theirs.detach().to_dense(), ours.detach().to_dense()
        try:
            a = theirs.detach().resolve_conj().resolve_neg().tolist()
        except RuntimeError:                # PyTorch: "unallocated storage"
            return
        b = ours.detach().resolve_conj().resolve_neg().tolist()
        if a == b:
            return
        dtype = str(theirs.dtype)[6:]
        # A result of float64 may show what was computed in float32.
        tolerance = max(TOLERANCE.get(dtype, 0), self.computed if self.written and dtype in TOLERANCE else 0,
                        2e-6 if dtype in ('float64', 'complex128') else 0)
        if strict and not close(a, b, tolerance, scale(a)):
            raise Difference(kind, f'{name}{apart(a, b, tolerance, scale(a))}' + ' of an expanded tensor' * self.expanded)
        # PyTorch's bits from here on, so that differences of rounding don't grow from line to line.
        storages = [x.untyped_storage() for x in (theirs, ours)]
        if (dtype in TOLERANCE or not strict) and storages[0].nbytes() == storages[1].nbytes() and theirs.is_neg() == ours.is_neg():
            ctypes.memmove(storages[1].data_ptr(), storages[0].data_ptr(), storages[0].nbytes())
        elif not strict and name in self.pool:
            self.pool.remove(name)          # it stays different


# Where several things are wrong with a call, which one is reported first is nobody's promise; and _is_view() isn't public.
MINOR = {'error type', 'is_view'}
FACTS = {
    'dtype': lambda x: str(x.dtype).rpartition('.')[2],
    'shape': lambda x: tuple(x.shape),
    'strides': lambda x: x.stride(),
    'offset': lambda x: x.storage_offset() if x.numel() else 0,
    'requires_grad': lambda x: x.requires_grad,
    'is_leaf': lambda x: x.is_leaf,
    'is_view': lambda x: x._is_view(),
    'inference': lambda x: x.is_inference(),
    'version': lambda x: version(x),
    'lazy bits': lambda x: (x.is_conj(), x.is_neg()),
}


def fact(of, x):
    """of(x), or the error's name: a view may learn from its flags that it can't be used any more."""
    try:
        return of(x)
    except RuntimeError as error:
        return type(error).__name__


def version(x):
    return 0 if x.is_inference() else x._version


def alike(shape, one, other):
    """Whether strides differ in dimensions of size 1 alone, where they say nothing."""
    return all(n == 1 or a == b for n, a, b in zip(shape, one, other, strict=True))


def shares(one, other, spaces):
    """Whether two variables have one storage, and so one version."""
    a, b = (eval(name, spaces[0]) for name in (one, other))
    try:
        return a.numel() and b.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    except RuntimeError:                    # PyTorch: "an invalid python storage"
        return False


def scale(a):
    """The largest finite magnitude, at least 1."""
    if isinstance(a, list):
        return max(map(scale, a), default=1.)
    size = max(abs(a.real), abs(a.imag)) if isinstance(a, complex) else abs(a)
    return size if 1 < size < math.inf else 1.


def close(a, b, tolerance, size):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, tolerance, size) for x, y in zip(a, b, strict=True))
    if a == b or not tolerance:
        return a == b
    if isinstance(a, complex) or isinstance(b, complex):
        a, b = complex(a), complex(b)
        if any(map(math.isnan, (a.real, a.imag))) or abs(a) == math.inf:      # which parts become NaN is nobody's promise
            return not (math.isfinite(b.real) and math.isfinite(b.imag))
        return math.hypot(a.real - b.real, a.imag - b.imag) <= tolerance * size
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isnan(a) and math.isnan(b) or abs(a - b) <= tolerance * size
    return False


def apart(a, b, tolerance, size):
    """The first elements that differ, behind their index."""
    if isinstance(a, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            if not close(x, y, tolerance, size):
                return f'[{k}]' + apart(x, y, tolerance, size)
    return f': {brief(a)} / {brief(b)}'


def message(error):
    return f'{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ""}'


def brief(x):
    text = str(x).replace('\n', ' ')
    return text if len(text) < 200 else text[:200] + '...'


# ---- programs

def called(line):
    """The operator that a line calls, for counting: with = where there is out=."""
    if 'autograd.grad(' in line or '.backward(' in line:
        return 'backward'
    line = re.sub(r'^with .*?: ', '', line)
    text = re.sub(r'^v\d+(\[\d+\])? (=|\S+=) ', '', line)
    if re.match(r'v\d+(\[\d+\])?\[.*\] \S*= ', line):
        return '__setitem__'
    names = re.findall(r'\.(\w+)\(', re.sub(r'\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)', '()', text))
    names = [n for n in names if n not in ('tensor', 'reshape', 'requires_grad_', 'expand', 'permute')] or names
    return (names[-1] + ('=' if 'out=' in text else '')) if names else re.sub(r'v\d+(\[\d+\])?|\[.*\]|[\d.\'"()]+', '', text).strip() or '__getitem__'


def replay(lines, libraries):
    """The Difference that the last of these lines makes, or None; what comes before must agree."""
    pair = Pair(*libraries)
    for k, line in enumerate(lines):
        try:
            pair.run(line)
        except Difference as found:
            return found if k == len(lines) - 1 else None
        except Exception:
            return None
    return None


def shortened(lines, kind, libraries):
    """Fewer lines with the same last one and a difference of the same kind."""
    k = len(lines) - 2
    while k >= 0:
        fewer = lines[:k] + lines[k + 1:]
        found = replay(fewer, libraries)
        if found and found.kind == kind:
            lines = fewer
        k -= 1
    return lines


def program(seed, surface, libraries, report):
    """Draw and run one; ('ok' or a kind, operator, detail, lines)."""
    drawing = Drawing(seed, surface, libraries[0])
    pair = Pair(*libraries, notify=lambda lib: report('running ' + lib.__name__))
    drawing.space, drawing.pool = pair.spaces[0], pair.pool
    lines, calls, refused = [], 0, 0
    for _ in range(drawing.random.randint(3, 15) + 2):
        try:
            line = drawing.line()
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError):
            continue                # an argument that PyTorch itself couldn't make
        lines.append(line)
        report('line ' + line)
        try:
            accepted = pair.run(line)
        except Difference as found:
            lines = shortened(lines, found.kind, libraries)
            found = replay(lines, libraries) or found
            names = [called(text) for text in lines]
            name = names[-1] if names[-1] != 'backward' else 'backward of ' + next((n for n in reversed(names) if n not in ('backward', 'tensor')), '')
            return found.kind, name, found.detail, lines, calls, refused
        calls += 1
        refused += not accepted
        pair.pool[:] = [p for p in pair.pool if pair.spaces[0].get(p.partition('[')[0]) is not None][-12:]
    return 'ok', '', '', lines, calls, refused


def work(options, seeds, out):
    """A worker: programs with these seeds, each line announced, so that whoever reads knows where it died."""
    import torch
    import tede
    torch.set_num_threads(1)
    warnings.simplefilter('ignore')
    resource.setrlimit(resource.RLIMIT_DATA, (5 << 30, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    surface = operators(torch, options.match)
    report = (lambda text: os.write(out, text.encode() + b'\n')) if out else lambda text: None
    for seed in seeds:
        report(f'program {seed}')
        result = program(seed, surface, (torch, tede), report)
        report(f'result {result!r}')
        if options.show:
            print(HEAD + '\n'.join(result[3]))


def watched(options, seeds):
    """Results of all programs, from one worker after another."""
    seeds = list(seeds)
    while seeds:
        come, go = os.pipe()
        worker = os.fork()
        if not worker:
            os.close(come)
            status = 1
            try:
                work(options, seeds, go)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(go)
        buffer, lines, library, seed = b'', [], '', None
        hangs = False
        while True:
            ready, _, _ = select.select([come], [], [], SECONDS + 40 * (seed is None))
            chunk = os.read(come, 1 << 16) if ready else b''
            hangs = not ready
            if not chunk:
                break
            *whole, buffer = (buffer + chunk).split(b'\n')
            for text in whole:
                word, _, rest = text.decode().partition(' ')
                if word == 'program':
                    seed, lines = int(rest), []
                elif word == 'line':
                    lines.append(rest)
                elif word == 'running':
                    library = rest
                else:
                    seeds.remove(seed)
                    yield seed, *eval(rest)
                    seed = 'between'
        if hangs:
            os.kill(worker, signal.SIGKILL)
        os.close(come)
        status = os.waitpid(worker, 0)[1]
        if seeds and seed not in (None, 'between'):
            seeds.remove(seed)
            if library == 'torch':          # it died of itself: nothing to compare with
                yield seed, 'ok', '', '', lines, len(lines), 0
            else:
                yield seed, 'hang' if hangs else 'crash', called(lines[-1]) if lines else '', f'status {status}', lines, len(lines), 0
        elif seeds:
            raise SystemExit(f'the worker ended with {status}')


def expected():
    """[(operator, kind, detail, line, program)]: regular expressions, from the table in docs/differences.md."""
    text = (ROOT / 'docs' / 'differences.md').read_text()
    _, _, section = text.partition('## Found by random programs')
    rows = re.findall(r'^\| `([^`]+)` \| ((?:[^|\\]|\\\|)+) \| `([^`]+)` \|', section.split('\n## ')[0], re.M)
    found = []
    for name, kind, report in rows:
        detail, _, whole = report.replace('\\|', '|').partition(' @@ ')
        detail, _, line = detail.partition(' @ ')
        name, kind = (text.replace('\\|', '|').strip() + '$' for text in (name, kind))
        found.append(tuple(map(re.compile, (name, kind, detail, line, whole))))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--programs', type=int, default=2000)
    parser.add_argument('--seconds', type=float, default=math.inf, help='begin no program later')
    parser.add_argument('--match', type=re.compile, help='call operators of such names alone')
    parser.add_argument('--show', action='store_true', help='print every program')
    parser.add_argument('--each', type=int, default=1, help='how many programs of each kind of difference to print')
    parser.add_argument('--most', type=int, default=0, help='so many differences that are not documented are no failure; a crash or a hang is one')
    parser.add_argument('--also', choices=sorted(MINOR), action='append', default=[], help='look for these differences, too')
    options = parser.parse_args()
    LOOKED_FOR.update(options.also)
    try:
        import torch    # noqa: F401
    except ImportError:
        return print('PyTorch is not there, nothing to compare with')
    known, groups, began = expected(), collections.defaultdict(list), time.monotonic()
    first = options.seed * 1_000_000
    count = calls = refused = named = 0
    for seed, kind, name, detail, lines, made, not_done in watched(options, range(first, first + options.programs)):
        count, calls, refused = count + 1, calls + made, refused + not_done
        if kind != 'ok':
            last = lines[-1] if lines else ''
            if any(a.match(name) and b.match(kind) and c.search(detail) and d.search(last) and e.search('\n'.join(lines)) for a, b, c, d, e in known):
                named += 1
            else:
                groups[kind, name].append((seed, detail, lines))
        if time.monotonic() - began > options.seconds:
            break
    kinds = collections.Counter()
    for (kind, name), found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        kinds[kind] += len(found)
        for _, detail, lines in sorted(found, key=lambda f: len(f[2]))[:options.each]:
            print(f'---- {kind}: {name} ({len(found)})  # {detail}\n' + '\n'.join(lines))
    print(f'{count} programs, {calls} lines, {refused} of them refused by both; differences: {sum(kinds.values())}', dict(kinds.most_common()),
          f'and {named} that docs/differences.md names')
    return sum(kinds.values()) > options.most or kinds['crash'] + kinds['hang'] > 0


if __name__ == '__main__':
    sys.exit(main())
