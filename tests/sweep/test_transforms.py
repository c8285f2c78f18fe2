"""What holds for every operator under the transforms: vmap is a loop over the members, and a tangent and a gradient are two sides of
one derivative (<u, J v> = <J^T u, v>).  Calls are made up from the schemas, so nothing beside tede is needed."""
import pytest
import samples
import tede
from tede.autograd import forward_ad
from valid_calls import valid_calls

REFUSED = RuntimeError, NotImplementedError, ValueError, IndexError, TypeError
# Of random numbers each member has its own; what depends on memory or on counts has no members to speak of.
RANDOM = ('bernoulli', 'dropout', 'rand', 'normal', 'multinomial', 'poisson', 'binomial', 'rrelu', 'gamma', 'dirichlet', 'exponential', 'cauchy', 'uniform',
          'geometric', 'empty', 'fractional', 'native_dropout')
# Several elements may be written to one place, where any may win; gradients scaled by how often an index comes; factors without derivatives.
NO_ONE_DERIVATIVE = {'scatter.src', 'index_copy', 'index_put', '_unsafe_index_put', 'put', 'max_unpool2d', 'max_unpool3d', 'embedding_dense_backward',
                     'embedding_bag.padding_idx', '_linalg_lstsq', '_fused_rms_norm'}
# They read one triangle of their operand.
SYMMETRIC = ('cholesky', 'eigh')


def all_calls():
    yield from samples.made_up('float64', 1)
    found = {op.schema.full_name: fn for op, fn in samples.entries()}
    for name, args, kwargs in valid_calls():
        if name in found:
            yield samples.Call(name, found[name], args, kwargs)


def wide(x):
    return x.double() if x.is_floating_point() else x.to(tede.complex128) if x.is_complex() else x


def cases():
    calls = (call.with_tensors(wide) for call in all_calls() if call.tensors() and not any(word in call.title for word in RANDOM))
    return [call for call in calls if samples._accepted(call)]


def with_leaves(call, new):
    new = iter(new)
    return call.with_tensors(lambda _: next(new))()


def numbers(tree):
    return [x for x in samples.leaves(tree) if x.is_floating_point() or x.is_complex()]


def close(got, want):
    got, want = got.resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg()
    return got.dtype == want.dtype and got.shape == want.shape and tede.allclose(got, want, rtol=1e-6, atol=1e-8, equal_nan=True)


def members(call):
    """Three sets of operands: the numbers differ, indices and masks stay."""
    return [[x * factor if x.is_floating_point() or x.is_complex() else x.clone() for x in call.tensors()] for factor in (1, 0.875, 0.75)]


def looped(fn, sets):
    results = [samples.leaves(fn(*one)) for one in sets]
    return [tede.stack(parts) for parts in zip(*results, strict=True)]


def compared(fn, sets, batched):
    """None if vmap over the operands that are batched gives what the loop gives, else what differs; REFUSED where either is refused."""
    sets = [[x if together else fixed for x, fixed, together in zip(one, sets[0], batched, strict=True)] for one in sets]
    want = looped(fn, sets)
    operands = [tede.stack([one[i] for one in sets]) if together else sets[0][i] for i, together in enumerate(batched)]
    got = samples.leaves(tede.func.vmap(fn, in_dims=tuple(0 if together else None for together in batched))(*operands))
    if len(got) != len(want):
        return f'{len(got)} results, not {len(want)}'
    for a, b in zip(got, want, strict=True):
        if not close(a, b):
            return f'{a}, not {b}'[:300]
    return None


def sweep(check, ways=('first', 'all')):
    """check(call, batched) over all calls: ({title: what is wrong}, how many were compared, {title: why it is refused})."""
    wrong, done, refused = {}, 0, {}
    for call in cases():
        count = len(call.tensors())
        for way in ways if count > 1 else ways[-1:]:
            batched = [way == 'all' or i == 0 for i in range(count)]
            try:
                problem = check(call, batched)
            except REFUSED as error:
                refused[call.title, way] = f'{type(error).__name__}: {error}'[:160]
                continue
            done += 1
            if problem:
                wrong[call.title, way] = problem
    return wrong, done, refused


@pytest.mark.filterwarnings('ignore')
def test_vmap_is_a_loop():
    wrong, done, refused = sweep(lambda call, batched: compared(lambda *xs: with_leaves(call, xs), members(call), batched))
    assert not wrong
    assert done > 900, refused


@pytest.mark.filterwarnings('ignore')
def test_vmap_of_gradients_is_a_loop():
    def gradients(call):
        places = [i for i, x in enumerate(call.tensors()) if x.is_floating_point()]

        def weighed(*xs):
            return sum((x * tede.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape)).real.sum() for x in numbers(with_leaves(call, xs)))
        return tede.func.grad(weighed, argnums=tuple(places)) if places else None

    def check(call, batched):
        fn = gradients(call)
        if fn is None:
            raise ValueError('nothing to derive by')
        return compared(fn, members(call), batched)
    wrong, done, refused = sweep(check, ways=('all',))
    assert not wrong
    assert done > 300, refused


@pytest.mark.filterwarnings('ignore')
def test_tangents_and_gradients_agree():
    wrong, done, refused = {}, 0, {}
    for call in cases():
        if call.title.partition('[')[0] in NO_ONE_DERIVATIVE:
            continue
        leaves = [x.detach().clone() for x in call.tensors()]
        places = [i for i, x in enumerate(leaves) if x.is_floating_point() or x.is_complex()]
        tede.manual_seed(1)
        directions = {i: tede.randn_like(leaves[i]) for i in places}
        if any(name in call.title for name in SYMMETRIC):
            directions = {i: x + x.mT.conj() if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x for i, x in directions.items()}
        try:
            outs = [x for x in numbers(with_leaves(call, [x.requires_grad_() if i in places else x for i, x in enumerate(leaves)])) if x.requires_grad]
            if not outs:
                continue
            weights = [tede.randn_like(x) for x in outs]
            grads = tede.autograd.grad(outs, [leaves[i] for i in places], weights, allow_unused=True)
            backward = sum(((g.conj() * directions[i]).real.sum() for g, i in zip(grads, places, strict=True) if g is not None), tede.zeros((), dtype=tede.float64))
            leaves = [x.detach() for x in leaves]
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(x, directions[i]) if i in places else x for i, x in enumerate(leaves)]
                tangents = [forward_ad.unpack_dual(x).tangent for x in numbers(with_leaves(call, duals))]
            tangents = [x for x in tangents if x is not None]
            if len(tangents) != len(outs):
                wrong[call.title] = f'{len(tangents)} tangents of {len(outs)} results'
                continue
            forward = sum(((w.conj() * x).real.sum() for w, x in zip(weights, tangents, strict=True)), tede.zeros((), dtype=tede.float64))
        except REFUSED as error:
            refused[call.title] = f'{type(error).__name__}: {error}'[:160]
            continue
        done += 1
        if not tede.allclose(forward, backward, rtol=1e-6, atol=1e-8, equal_nan=True):
            wrong[call.title] = f'{forward.item()} forward, {backward.item()} backward'
    assert not wrong
    assert done > 400, refused


def events(fn):
    with tede.profiler.profile() as seen:
        fn()
    return [event.name for event in seen.events()]


@pytest.mark.filterwarnings('ignore')
def test_a_tangent_takes_at_most_three_times_the_calls_and_no_graph():
    """A copy of a tangent that is a view of another, for each result, aside."""
    wrong, done = {}, 0
    for call in cases():
        leaves = [x.detach().clone() for x in call.tensors()]
        try:
            plain = events(lambda: with_leaves(call, leaves))
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(x, tede.ones_like(x)) if x.is_floating_point() else x for x in leaves]
                dual = events(lambda: with_leaves(call, duals))
        except REFUSED:
            continue
        done += 1
        if call.title == 'scaled_dot_product_attention':       # of a mask that has a tangent: composed of small operators
            continue
        if len(dual) - dual.count('aten::clone') > 3 * len(plain) or any(name.startswith('autograd::') for name in dual):
            wrong[call.title] = f'{len(plain)}: {dual}'
    assert not wrong
    assert done > 900
