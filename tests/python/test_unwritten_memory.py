"""Kernels' scratch memory: what nobody wrote there is never computed with.

No result would depend on it, which is why nothing else notices; but memory that held integers is full of denormals, and each
operation on one takes a processor a hundred cycles.  Memory is filled with such before each call; the flag that x86's
processors raise at a denormal operand must stay down.
"""
import ctypes
import itertools
import platform

import pytest
import tede
import tede.nn.functional as F

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 tells of denormal operands")

SOURCE = r"""
#include <immintrin.h>
void begin(void)
{
    volatile unsigned stack[1 << 18];
    for (int i = 0; i < 1 << 18; i++)
        stack[i] = 3;
    (void)stack[0];
    _mm_setcsr(_mm_getcsr() & ~_MM_EXCEPT_MASK);
}
int met(void) { return (_mm_getcsr() & _MM_EXCEPT_DENORM) != 0; }
"""


@pytest.fixture(scope="module")
def processor(library):
    return ctypes.CDLL(library("flags", text=SOURCE))


@pytest.fixture(autouse=True)
def one_thread():
    before = tede.get_num_threads()
    tede.set_num_threads(1)
    yield
    tede.set_num_threads(before)


def fill_memory():
    """What the allocator hands out next is full of small integers, which as floats of any width are denormals."""
    held = []
    for size, part in itertools.product(range(4, 20), (4, 5, 6, 7)):
        held += [tede.full((part << size >> 2,), 3, dtype=tede.int32) for _ in range(2)]


@pytest.fixture
def check(processor):
    met = []

    def run(title, call):
        fill_memory()
        processor.begin()
        call()
        if processor.met():
            met.append(title)
    yield run
    assert not met


def normal(*shape, dtype):
    """Numbers that are neither small nor large."""
    x = tede.randn(*shape)
    return (x + 0.1 * x.sign()).to(dtype)


DTYPES = [tede.float32, tede.float64, tede.bfloat16]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("height,width,into,out,size,padding,groups", [
    (13, 13, 16, 32, 3, 0, 1), (14, 27, 21, 37, 3, 0, 1), (15, 11, 26, 31, 3, 1, 1), (9, 31, 24, 17, 3, 2, 1), (12, 7, 5, 3, 5, 1, 1),
    (10, 10, 6, 9, 1, 0, 3), (17, 9, 19, 19, 7, 3, 19), (8, 8, 1, 16, 2, 0, 1)])
def test_convolutions(check, dtype, channels_last, height, width, into, out, size, padding, groups):
    x, w = normal(3, into, height, width, dtype=dtype), normal(out, into // groups, size, size, dtype=dtype)
    if channels_last:
        x, w = (t.contiguous(memory_format=tede.channels_last) for t in (x, w))
    bias = normal(out, dtype=dtype)
    y = F.conv2d(x, w, bias, 1, padding, 1, groups)
    g = normal(*y.shape, dtype=dtype)
    check("forward", lambda: F.conv2d(x, w, bias, 1, padding, 1, groups))
    check("transposed", lambda: F.conv_transpose2d(g, w, None, 1, padding, 0, groups))
    for of in ([True, False, False], [False, True, True]):
        check(f"gradients {of}", lambda of=of: tede.ops.aten.convolution_backward(
            g, x, w, [out], [1, 1], [padding, padding], [1, 1], False, [0, 0], groups, of))


@pytest.mark.parametrize("dtype", [*DTYPES, tede.complex64, tede.complex128])
def test_products(check, dtype):
    for m, k, n in itertools.product((1, 2, 33), (64, 203), (3, 17, 130)):
        a, b, bias = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), normal(n, dtype=dtype)
        for x, y in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
            check(f"{m} x {k} x {n} {x.stride()} {y.stride()}", lambda x=x, y=y, bias=bias: tede.addmm(bias, x, y, beta=0.5, alpha=2))
        batches = a.expand(3, m, k).contiguous(), b.expand(3, k, n).contiguous()
        check(f"batches {m} x {k} x {n}", lambda batches=batches: tede.bmm(*batches))


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(check, dtype):
    for queries, keys, width, causal in itertools.product((1, 90), (1, 70), (8, 24, 80), (False, True)):
        q, k, v = (normal(2, 3, n, width, dtype=dtype).requires_grad_() for n in (queries, keys, keys))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        g = normal(*out.shape, dtype=dtype)
        title = f"{queries} x {keys} x {width}, causal {causal}"
        check(title, lambda q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c))
        check(title + ", backward", lambda out=out, q=q, k=k, v=v, g=g: tede.autograd.grad(out, (q, k, v), g))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", [tede.nn.RNN, tede.nn.GRU, tede.nn.LSTM])
def test_recurrent_layers(check, layer, dtype):
    for inputs, hidden, batch in itertools.product((5, 37), (3, 35), (1, 3)):
        net = layer(inputs, hidden, dtype=dtype)
        x = normal(4, batch, inputs, dtype=dtype)
        y = net(x)[0]
        g = normal(*y.shape, dtype=dtype)
        check(f"{inputs} to {hidden}", lambda net=net, x=x: net(x))
        check(f"{inputs} to {hidden}, backward", lambda y=y, net=net, g=g: tede.autograd.grad(y, list(net.parameters()), g))


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16])
def test_norms(check, dtype):
    x, w = normal(2, 6, 5, dtype=dtype), normal(6, dtype=dtype)
    running = tede.zeros(6, dtype=dtype), tede.ones(6, dtype=dtype)
    check("batch", lambda: F.batch_norm(x, *running, w, w, training=True))
    check("instance", lambda: F.instance_norm(x, weight=w, bias=w))
    check("group", lambda: F.group_norm(x, 3, w, w))
    check("group of nothing", lambda: F.group_norm(x[:, :0], 3))
    check("layer", lambda: F.layer_norm(x, (5,), w[:5], w[:5]))
    check("rms", lambda: F.rms_norm(x, (5,), w[:5]))
