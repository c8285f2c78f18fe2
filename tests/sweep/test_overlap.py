"""What is written may share memory with what is read: the result is that of copies, or PyTorch's error about the overlap.

Every operator's out= and in-place forms, where the out is an operand itself, lies one element further in its memory, or reads it
backwards, and where it holds several elements in one place."""
import collections

import pytest
import samples
import tede

REFUSED = 'unsupported operation', 'single memory location', 'overlap'
IN_TURN = 'masked_fill.Scalar', 'masked_fill.Tensor', 'threshold', 'conj_physical'  # expanded tensors may be written; real numbers stay
FAILURES = RuntimeError, IndexError, ValueError, TypeError, NotImplementedError


def forms():
    """{name of an operator: {'out': its out= form, 'inplace': ...}}"""
    found = {}
    for _, group in samples.groups():
        others = {op.variant: samples.callable_of(op) for op in group[1:]}
        found[group[0].schema.full_name] = {kind: fn for kind, fn in others.items() if fn}
    return found


def same(got, want):
    got, want = got.resolve_conj(), want.resolve_conj()
    if got.is_floating_point() or got.is_complex():
        return tede.allclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True)
    return tede.equal(got, want)


def at_once(x, shape):
    """Per way to share memory with x: (x again, an out of the shape)."""
    count = samples.product(shape)
    n = max(x.numel(), count)
    for way in ('itself', 'shifted', 'backwards'):
        memory = tede.zeros(n + 1, dtype=x.dtype)
        again = memory[:x.numel()].view(x.shape)
        again.copy_(x)
        out = (memory[1:] if way == 'shifted' else memory)[:count].view(shape)
        yield way, again, out[(slice(None, None, -1),) * out.ndim] if way == 'backwards' else out


def refusal(error):
    """None if the error says that memory overlaps; else what it says."""
    return None if any(word in str(error) for word in REFUSED) else f'{type(error).__name__}: {error}'[:200]


def outcome(call, out, want):
    """None if out holds what is wanted or the overlap is refused; else what happened."""
    tede.manual_seed(0)
    try:
        call()
    except FAILURES as error:
        return refusal(error)
    return None if same(out, want) else f'{out.tolist()}, not {want.tolist()}'[:300]


def calls_with_out(dtype):
    """(call, its out= form, what it gives) of operators that have such a form and give a tensor of several elements."""
    all_forms = forms()
    for call in samples.made_up(dtype, 1):
        out_form, want = all_forms.get(call.title.partition('[')[0], {}).get('out'), call()
        if out_form and isinstance(want, tede.Tensor) and want.numel() > 1:
            yield call, out_form, want


@pytest.mark.parametrize('dtype', ['float32', 'int64', 'complex64'])
def test_an_out_that_shares_memory(dtype):
    wrong, tried = collections.OrderedDict(), 0
    for call, out_form, want in calls_with_out(dtype):
        read = [i for i, x in enumerate(call.args) if isinstance(x, tede.Tensor) and x.dtype == want.dtype and x.numel() > 1]
        for i in read[:2]:
            for way, again, out in at_once(call.args[i], want.shape):
                args = [again if k == i else x for k, x in enumerate(call.args)]
                problem, tried = outcome(lambda: out_form(*args, **call.kwargs, out=out), out, want), tried + 1
                if problem:
                    wrong[call.title, i, way] = problem
    assert not wrong
    assert tried > 100


@pytest.mark.parametrize('dtype', ['float32', 'int64', 'complex64'])
def test_an_out_with_several_elements_in_one_place(dtype):
    wrong, tried = collections.OrderedDict(), 0
    for call, out_form, want in calls_with_out(dtype):
        out = tede.zeros((), dtype=want.dtype).expand(want.shape)
        tried += 1
        try:
            out_form(*call.args, **call.kwargs, out=out)
        except FAILURES as error:
            if refusal(error):
                wrong[call.title] = refusal(error)
        else:
            if out.stride() != want.stride():       # factories and tables give such an out memory of its own
                wrong[call.title] = 'it is written'
    assert not wrong
    assert tried > 50


@pytest.mark.parametrize('dtype', ['float32', 'int64', 'complex64'])
def test_an_operand_that_shares_memory_with_what_is_written(dtype):
    wrong, tried, all_forms = collections.OrderedDict(), 0, forms()
    for call in samples.made_up(dtype, 1):
        inplace = all_forms.get(call.title.partition('[')[0], {}).get('inplace')
        if not inplace or not isinstance(call.args[0], tede.Tensor) or call.args[0].numel() < 2:
            continue
        want = call()
        if want.dtype != call.args[0].dtype or want.shape != call.args[0].shape:
            continue
        for i, x in enumerate(call.args[1:], 1):
            if not isinstance(x, tede.Tensor) or x.dtype != want.dtype or x.shape != want.shape:
                continue
            for way, first, second in at_once(x, want.shape):
                def with_pair(a, b):
                    return [a, *call.args[1:i], b, *call.args[i + 1:]]
                tede.manual_seed(0)
                try:
                    expected = call.fn(*with_pair(first.clone(), second.clone()), **call.kwargs)
                except FAILURES:
                    continue
                problem, tried = outcome(lambda: inplace(*with_pair(first, second), **call.kwargs), first, expected), tried + 1
                if problem:
                    wrong[call.title, i, way] = problem
        wide = call.args[0].reshape(-1)[:1].clone().expand(call.args[0].shape)
        try:
            inplace(wide, *call.args[1:], **call.kwargs)
        except FAILURES as error:
            if refusal(error):
                wrong[call.title, 'expanded'] = refusal(error)
        else:
            if call.title.partition('[')[0] not in IN_TURN:
                wrong[call.title, 'expanded'] = 'it is written'
    assert not wrong
    assert tried > 50
