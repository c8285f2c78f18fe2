"""Operands of several floating dtypes: which operators take them, the result's dtype, and what the others say."""
import pytest

ALL_SAME, FLOAT_ONLY, EXPECTED = "all inputs must share same datatype", "expect parameter to have scalar type of Float", "expected scalar type"
# Input, first parameter, the other parameters: None where they are taken.
PARAMETERS = [("float32", "float64", "float64", FLOAT_ONLY), ("float64", "float32", "float32", ALL_SAME), ("float32", "float32", "float64", EXPECTED),
              ("float32", "bfloat16", "bfloat16", FLOAT_ONLY), ("bfloat16", "float32", "float32", None), ("float16", "float32", "float32", None),
              ("bfloat16", "bfloat16", "float32", EXPECTED), ("bfloat16", "float32", "bfloat16", FLOAT_ONLY), ("bfloat16", "bfloat16", "bfloat16", None),
              ("bfloat16", "float16", "float16", FLOAT_ONLY), ("int64", "float32", "float32", ALL_SAME)]


def tensor(lib, dtype, *shape):
    return lib.full(shape, .5).to(getattr(lib, dtype)) + 1


@pytest.mark.parametrize("dtype, first, others, message", PARAMETERS)
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm_training", "batch_norm"])
def test_parameters_of_a_norm_have_one_dtype(lib, name, dtype, first, others, message):
    F, x = lib.nn.functional, tensor(lib, dtype, 4, 3)
    if dtype == "int64" and name.startswith("batch"):
        pytest.skip("refused by its dtype")
    weight, bias = tensor(lib, first, 3), tensor(lib, others, 3)

    def call():
        if name == "layer_norm":
            return F.layer_norm(x, (3,), weight, bias)
        if name == "group_norm":
            return F.group_norm(x, 1, weight, bias)
        return F.batch_norm(x, tensor(lib, others, 3), tensor(lib, others, 3), weight, bias, name.endswith("training"))
    if message is None:
        assert call().dtype == x.dtype
    else:
        with pytest.raises(RuntimeError, match=message):
            call()


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("dtype, other", [("float32", "float64"), ("float64", "float32"), ("float32", "bfloat16"), ("bfloat16", "float16"), ("float16", "float64")])
def test_rms_norm_has_the_dtype_of_its_input(lib, dtype, other):
    x = (lib.arange(12).reshape(3, 4) * .37 - 1.1).to(getattr(lib, dtype)).requires_grad_()
    weight = (lib.arange(4) + 1).to(getattr(lib, other)).requires_grad_()
    y = lib.nn.functional.rms_norm(x, (4,), weight)
    same = lib.nn.functional.rms_norm(x.detach().double(), (4,), weight.detach().double(), 2. ** -23 if dtype != "float64" else None)
    assert y.dtype == x.dtype
    lib.testing.assert_close(y.detach().double(), same, rtol=2e-2 if "16" in dtype else 1e-6, atol=1e-2 if "16" in dtype else 1e-6)
    y.float().sum().backward()
    assert x.grad.dtype == x.dtype and weight.grad.dtype == weight.dtype


@pytest.mark.parametrize("dtype, other", [("float32", "float64"), ("float64", "float32"), ("bfloat16", "float32"), ("float16", "float64")])
def test_normal_has_the_dtype_of_its_mean(lib, dtype, other):
    mean = tensor(lib, dtype, 3)
    assert lib.normal(mean, tensor(lib, other, 3)).dtype == mean.dtype
    with pytest.raises(RuntimeError, match="standard deviation to be non-complex"):
        lib.normal(tensor(lib, "float32", 3), tensor(lib, "complex64", 3))


@pytest.mark.parametrize("dtype, other", [("float32", "float64"), ("float64", "float32"), ("float32", "int64")])
def test_some_take_operands_of_one_dtype_only(lib, dtype, other):
    a, b = tensor(lib, dtype, 3, 3), tensor(lib, other, 3, 3)
    calls = [lambda: lib._softmax_backward_data(a, b, 0, a.dtype), lambda: lib._log_softmax_backward_data(a, b, 0, a.dtype)]
    for call in calls + [lambda: lib.cdist(a, b)] * (other != "int64"):
        with pytest.raises(RuntimeError, match="expected scalar type"):
            call()
