"""What PyTorch refuses, in its words: numbers that a dtype can't hold, bool arithmetic, outs of the wrong dtype."""
import warnings

import pytest


@pytest.mark.parametrize('dtype, number, name', [
    ('float32', 1j, 'float'), ('int64', 1j, 'int64_t'), ('uint8', 300, 'uint8_t'), ('int8', -129, 'int8_t'),
    ('int32', 2.0 ** 40, 'int'), ('float16', 1e6, 'c10::Half'), ('int64', float('nan'), 'int64_t'), ('float32', 1e300, 'float'),
])
def test_a_number_that_does_not_fit_is_refused(lib, dtype, number, name):
    x = lib.zeros(2, dtype=getattr(lib, dtype))
    mask = lib.tensor([True, False])
    for call in (lambda: x.fill_(number), lambda: x.masked_fill(mask, number), lambda: x.masked_fill_(mask, number)):
        with pytest.raises(RuntimeError, match=f'value cannot be converted to type {name} without overflow'):
            call()
    assert x.tolist() == [0, 0]


def test_numbers_that_wrap_or_become_infinite_fit(lib):
    assert lib.zeros(1, dtype=lib.uint8).fill_(-1).tolist() == [255]
    assert lib.zeros(1, dtype=lib.float16).fill_(float('inf')).tolist() == [float('inf')]
    assert lib.zeros(1, dtype=lib.int32).fill_(2.9).tolist() == [2]
    assert lib.zeros(1, dtype=lib.bool).fill_(7).tolist() == [True]
    assert lib.zeros(1, dtype=lib.float32).fill_(2 + 0j).tolist() == [2]


def test_bool_tensors_are_not_negated_or_subtracted(lib):
    t = lib.tensor([True, False])
    for call in (lambda: -t, lambda: lib.neg(t), t.neg_):
        with pytest.raises(RuntimeError, match='Negation, the `-` operator, on a bool tensor is not supported'):
            call()
    for call in (lambda: t - t, lambda: t - True, lambda: True - t):
        with pytest.raises(RuntimeError, match='bool tensor'):
            call()
    with pytest.raises(RuntimeError, match='with two bool tensors is not supported'):
        t - t
    with pytest.raises(RuntimeError, match='with a bool tensor is not supported'):
        lib.ones(2) - t


def test_outs_of_a_wrong_dtype(lib):
    x = lib.ones(2, 2, dtype=lib.float64)
    with pytest.raises(TypeError, match="input types can't be cast to the desired output type Long"):
        lib.cat((x, x), out=lib.zeros(0, dtype=lib.int64))
    with pytest.raises(RuntimeError, match='Expected object of scalar type ComplexDouble but got scalar type ComplexFloat'):
        lib.complex(x, x, out=lib.zeros(2, 2, dtype=lib.complex64))
    with pytest.raises(RuntimeError, match='multinomial expects Long tensor out, got: Double'):
        lib.multinomial(x, 1, out=x)


def test_arange_counts_in_the_dtype_of_out(lib):
    out = lib.zeros(0, dtype=lib.int32)
    assert lib.arange(0, 3, 0.5, out=out) is out
    assert out.tolist() == [0, 0, 0, 0, 0, 0]
    assert lib.arange(3, dtype=lib.float32, out=lib.zeros(0)).tolist() == [0, 1, 2]
    assert lib.arange(1.0, 5.000001, 2.0, dtype=lib.int64).tolist() == [1, 3]
    with pytest.raises(ValueError, match='step must be nonzero'):
        lib.arange(0, 64, 0.5, dtype=lib.int64)


def test_warnings_can_be_caught_and_made_errors(lib):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        lib.sum(lib.ones(2, 3), 0, out=lib.zeros(5))
    assert len(seen) == 1 and seen[0].category is UserWarning and 'An output with one or more elements was resized' in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        with pytest.raises(UserWarning):
            lib.sum(lib.ones(2, 3), 0, out=lib.zeros(5))


def test_dropout_of_integers_has_no_place_for_what_it_scales(lib):
    x = lib.ones(3, dtype=lib.int64)
    for call in (lambda: lib.nn.functional.dropout(x, 0.5), lambda: lib.nn.functional.alpha_dropout(x, 0.5, True),
                 lambda: lib.native_dropout(x, 0.5, True)):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            call()
    assert lib.nn.functional.dropout(x, 1.).dtype == lib.int64 and lib.nn.functional.dropout(x, 0.).tolist() == [1, 1, 1]


def test_bounds_must_fit_the_dtype(lib):
    with pytest.raises(RuntimeError, match='value cannot be converted to type uint8_t without overflow'):
        lib.clamp(lib.ones(3, dtype=lib.uint8), 0, 300)
    with pytest.raises(RuntimeError, match='value cannot be converted to type c10::Half without overflow'):
        lib.clamp(lib.ones(3, dtype=lib.float16), 1e6)
    with pytest.raises(RuntimeError, match='Found dtype Double but expected Float'):
        lib.clamp(lib.ones(3), 0, out=lib.empty(0, dtype=lib.float64))
    assert lib.clamp(lib.ones(3, dtype=lib.uint8), 0.5, 0.75).dtype == lib.float32


@pytest.mark.parametrize("call", [
    lambda lib, w: lib.nn.functional.nll_loss(lib.zeros(2, 3), lib.tensor([0, 1]), w(3)),
    lambda lib, w: lib.nn.functional.cross_entropy(lib.zeros(2, 3), lib.tensor([0, 1]), w(3)),
    lambda lib, w: lib.nn.functional.multi_margin_loss(lib.zeros(2, 3), lib.tensor([0, 1]), weight=w(3)),
    lambda lib, w: lib.nn.functional.batch_norm(lib.zeros(2, 3), w(3), lib.ones(3)),
])
def test_operands_without_a_derivative_must_not_need_one(lib, call):
    with pytest.raises(RuntimeError, match="is not differentiable with respect to argument '.*'. This input cannot have requires_grad True."):
        call(lib, lambda n: lib.ones(n, requires_grad=True))
    with lib.no_grad():
        assert not call(lib, lambda n: lib.ones(n, requires_grad=True)).requires_grad


@pytest.mark.parametrize("call, words", [
    (lambda lib: lib.linalg.householder_product(lib.ones(3, 3), lib.ones(3, 3)), "Expected tau to have one dimension less than input"),
    (lambda lib: lib.linalg.householder_product(lib.ones(2, 3, 3), lib.ones(4, 3)), "Expected batch dimensions of tau to be equal to input.shape"),
    (lambda lib: lib.ops.aten.max_pool2d_with_indices_backward(lib.ones(3, 4), lib.ones(3, 4), [2, 2], [2, 2], [0, 0], [1, 1], False,
                                                               lib.zeros(3, 4, dtype=lib.int64)), "non-empty 3D or 4D"),
    (lambda lib: lib.ops.aten.max_pool2d_with_indices_backward(lib.ones(1, 3, 2), lib.ones(1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False,
                                                               lib.zeros(1, 2, 2, dtype=lib.int64)), r"tensor.size\[1\] == 2 but got"),
    (lambda lib: lib.ops.aten.max_pool2d_with_indices_backward(lib.ones(1, 2, 2), lib.ones(1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False,
                                                               lib.zeros(1, 2, 1, dtype=lib.int64)), r"tensor.size\[2\] == 2 but got"),
    (lambda lib: lib.ops.aten.max_pool3d_with_indices_backward(
        lib.ones(1, 2, 2, 2), lib.ones(1, 4, 4, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, lib.zeros(1, 2, 2, 2)), "expected scalar type Long"),
    (lambda lib: lib.nn.functional.avg_pool2d(lib.ones(1, 1, 1, 4, 4), 2), "Expected 3D or 4D .batch mode. tensor with optional 0 dim batch size"),
])
def test_shapes_that_do_not_belong_together(lib, call, words):
    with pytest.raises(RuntimeError, match=words):
        call(lib)


def test_factors_of_another_kind_than_the_result_are_refused(lib):
    matrix, vector = lib.ones(2, 2), lib.ones(2)
    with pytest.raises(RuntimeError, match="Boolean beta only supported for Boolean results"):
        lib.addr(matrix, vector, vector, beta=True)
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating point number"):
        lib.addr(matrix.int(), vector.int(), vector.int(), alpha=.5)
    assert lib.addr(matrix.bool(), vector.bool(), vector.bool(), beta=True).dtype == lib.bool


def test_an_out_of_another_dtype_than_the_one_named_is_refused(lib):
    x = lib.ones(2, 2)
    for function in (lib.cumsum, lib.cumprod, lib.sum, lib.prod, lib.mean):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
            function(x, 0, dtype=lib.float32, out=lib.empty(0, dtype=lib.float64))
    assert lib.cumsum(x, 0, dtype=lib.float64, out=lib.empty(0, dtype=lib.float64)).dtype == lib.float64


def test_products_of_nothing(lib):
    with pytest.raises(RuntimeError, match=r"chain_matmul\(\): Expected one or more matrices"):
        lib.chain_matmul()
    with pytest.raises(ValueError, match="at least one operand"):
        lib.einsum("", [])


def test_what_is_told_once_is_told_always_where_asked(lib):
    x = lib.ones(2, 2)
    try:
        lib.set_warn_always(True)
        for _ in range(2):
            with pytest.warns(UserWarning, match="This overload of addbmm_ is deprecated"):
                x.addbmm_(1, lib.ones(1, 2, 2), lib.ones(1, 2, 2))
    finally:
        lib.set_warn_always(False)


def test_plain_backward_hooks_say_what_they_miss(lib):
    class Twice(lib.nn.Module):
        def __init__(self, act):
            super().__init__()
            self.act = act

        def forward(self, *args):
            return self.act(*args)
    a = lib.ones(2, requires_grad=True)
    for act, args, words in ((lambda p: (p[0] * 2, p[1] * 2), ([a, a],), "does not take as input a single Tensor"),
                             (lambda p, q: [p * 2, q * 2], (a, a), "does not return a single Tensor"),
                             (lambda p, q: (p * 2, q * 2), (a, a), "generated by different autograd Nodes"),
                             (lambda p, q: p * 2 + q, (a, a), "the forward contains multiple autograd Nodes")):
        module = Twice(act)
        module.register_backward_hook(lambda *_: None)
        with pytest.warns(FutureWarning, match=words):
            module(*args)


def test_where_refuses_numbers_that_its_result_cannot_hold(lib):
    ones = lib.ones(2)
    for x, number, name in ((ones, 1e39, 'float'), (ones.to(lib.int8), 300, 'int8_t'), (ones.int(), -1e39, 'float')):
        for call in (lambda: lib.where(x > 0, x, number), lambda: lib.where(x > 0, number, x)):
            with pytest.raises(RuntimeError, match=f'value cannot be converted to type {name} without overflow'):
                call()
    assert lib.where(ones > 0, ones.double(), 1e39).tolist() == [1, 1]
    assert lib.where(ones < 0, ones.half(), 1e6).isinf().all()


def test_exponents_that_only_whole_numbers_and_halves_refuse(lib):
    x = lib.tensor([0., 1.])
    assert (x ** 1e39).tolist() == [0, 1] and (x ** -1e39).tolist() == [float('inf'), 1]
    for dtype, number in ((lib.int8, 300), (lib.float16, 1e6)):
        with pytest.raises(RuntimeError, match='without overflow'):
            x.to(dtype) ** number


def test_numbers_assigned_to_halves_become_infinite(lib):
    for dtype, number in ((lib.float16, 70000.), (lib.float16, -2 ** 40), (lib.bfloat16, 1e39)):
        x = lib.zeros(3, dtype=dtype)
        x[0] = number
        x[lib.tensor([False, True, False])] = number
        assert x.isinf().tolist() == [True, True, False]


def test_words_about_numbers_of_another_kind(lib):
    x, at = lib.ones(2), lib.tensor([0])
    with pytest.raises(RuntimeError, match='Converting complex Scalar to non-complex type is not supported'):
        x.bool().index_fill(0, at, 1j)
    for call in (lambda: lib.add(x.int(), x.int(), alpha=1j), lambda: lib.addr(lib.ones(2, 2).int(), x.int(), x.int(), alpha=1j)):
        with pytest.raises(RuntimeError, match='For integral input tensors, argument alpha must not be a floating point number'):
            call()
    with pytest.raises(RuntimeError, match='value cannot be converted to type int64_t without overflow'):
        lib.nn.functional.hardtanh(x.to(lib.uint8), 0, 1e39)


def test_an_out_that_is_an_inference_tensor_is_refused_after_operands_that_need_a_gradient(lib):
    with lib.inference_mode():
        out = lib.ones(2, 2)
    x = lib.ones(2, 2, requires_grad=True)
    calls = (lambda x: lib.mul(x, x, out=out), lambda x: lib.exp(x, out=out), lambda x: lib.cumsum(x, 0, out=out), lambda x: lib.matmul(x, x, out=out),
             lambda x: lib.cat([x[:1], x[1:]], out=out))
    for call in calls:
        with pytest.raises(RuntimeError, match=r"functions with out=... arguments don't support automatic differentiation"):
            call(x)
        with pytest.raises(RuntimeError, match='Inplace update to inference tensor outside InferenceMode is not allowed'):
            call(x.detach())
    for call in (lambda: lib.eq(x, x, out=out), lambda: lib.zeros(2, 2, out=out), lambda: out.mul_(x)):
        with pytest.raises(RuntimeError, match='Inplace update to inference tensor outside InferenceMode is not allowed'):
            call()
    assert lib.__name__ == 'torch' or out.tolist() == [[1, 1], [1, 1]]        # PyTorch writes, and refuses then
