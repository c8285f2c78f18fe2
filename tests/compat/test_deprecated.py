"""Older orders of arguments are still taken, with one warning for all of them."""
import re
import subprocess
import sys
import warnings

import pytest


@pytest.mark.parametrize('call, value', [
    (lambda lib, x: lib.add(x, 2, x), 3), (lambda lib, x: x.add(2, x), 3), (lambda lib, x: x.clone().add_(2, x), 3),
    (lambda lib, x: lib.sub(x, 2, x), -1), (lambda lib, x: lib.addcmul(x, 2, x, x), 3), (lambda lib, x: x.clone().addcdiv_(2, x, x), 3),
    (lambda lib, x: lib.addmm(2, x, 3, x, x), 8), (lambda lib, x: lib.addmm(2, x, x, x), 4), (lambda lib, x: x.addmm(2, 3, x, x), 8),
    (lambda lib, x: x.clone().addmm_(2, x, x), 4), (lambda lib, x: lib.addmv(2, x[0], 3, x, x[0]), 8),
    (lambda lib, x: lib.addr(2, x, 3, x[0], x[0]), 5), (lambda lib, x: lib.baddbmm(2, x[None], 3, x[None], x[None]), 8),
    (lambda lib, x: lib.addbmm(2, x, 3, x[None], x[None]), 8), (lambda lib, x: lib.addmm(2, x, 3, x, x, out=lib.empty(2, 2)), 8),
])
def test_older_orders_of_arguments_compute_the_same(lib, call, value):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        assert set(call(lib, lib.ones(2, 2)).flatten().tolist()) == {value}


def test_the_first_one_warns(lib):
    program = (f'import {lib.__name__} as lib, warnings; x = lib.ones(2, 2); warnings.simplefilter("always")\n'
               'with warnings.catch_warnings(record=True) as seen:\n    lib.addcmul(x, 2, x, x), x.add(2, x), lib.add(x, 2, x)\n'
               'print(len(seen), seen[0].category.__name__, str(seen[0].message).partition(" (Triggered")[0])')
    printed = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == (
        '1 UserWarning This overload of addcmul is deprecated:\n'
        '\taddcmul(Tensor input, Number value, Tensor tensor1, Tensor tensor2, *, Tensor out = None)\n'
        'Consider using one of the following signatures instead:\n'
        '\taddcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Number value = 1, Tensor out = None)')



WARNS = {
    "cholesky": (lambda lib: lib.cholesky(lib.eye(3)), "torch.cholesky is deprecated in favor of torch.linalg.cholesky"),
    "qr": (lambda lib: lib.qr(lib.eye(3)), "torch.qr is deprecated in favor of torch.linalg.qr"),
    "lu": (lambda lib: lib.lu(lib.eye(3)), "torch.lu is deprecated in favor of torch.linalg.lu_factor"),
    "lu_solve": (lambda lib: lib.lu_solve(lib.eye(3), *lib.linalg.lu_factor(lib.eye(3))), "torch.lu_solve is deprecated"),
    "triangular_solve": (lambda lib: lib.triangular_solve(lib.eye(3), lib.eye(3)), "torch.triangular_solve is deprecated"),
    "chain_matmul": (lambda lib: lib.chain_matmul(lib.eye(3), lib.eye(3)), "torch.chain_matmul is deprecated"),
    "cross": (lambda lib: lib.cross(lib.eye(3), lib.eye(3)), "Using torch.cross without specifying the dim arg is deprecated"),
    "scatter": (lambda lib: lib.ones(3).scatter(0, lib.tensor([0]), lib.ones(1), reduce="add"), "reduce argument of torch.scatter with Tensor src"),
    "stft": (lambda lib: lib.stft(lib.ones(99), 16, window=lib.ones(16), return_complex=False), "stft with return_complex=False is deprecated"),
    "index_reduce": (lambda lib: lib.ones(3).index_reduce(0, lib.tensor([0]), lib.ones(1), "prod"), r"index_reduce\(\) is in beta"),
    "nuclear_norm": (lambda lib: lib.nuclear_norm(lib.eye(3)), "at::nuclear_norm is deprecated"),
    "T": (lambda lib: lib.ones(2, 3, 4).T, "on tensors of dimension other than 2 to reverse their shape is deprecated"),
    "searchsorted": (lambda lib: lib.searchsorted(lib.ones(4), lib.ones(3, 2).t()), "input value tensor is non-contiguous"),
    "padding": (lambda lib: lib.nn.functional.conv1d(lib.ones(1, 1, 4), lib.ones(1, 1, 2), padding="same"), "even kernel lengths and odd dilation"),
    "cov": (lambda lib: lib.cov(lib.ones(1)), r"cov\(\): degrees of freedom is <= 0"),
    "float": (lambda lib: float(lib.ones(1, requires_grad=True)), "Converting a tensor with requires_grad=True to a scalar"),
    "encoder": (lambda lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(6, 3), 1), "encoder_layer.self_attn.batch_first was not True"),
    "cuda.amp": (lambda lib: lib.cuda.amp.GradScaler(enabled=False), r"`torch.cuda.amp.GradScaler\(args...\)` is deprecated"),
}


@pytest.mark.parametrize("name", WARNS)
def test_what_warns(lib, name):
    call, said = WARNS[name]
    always = lib.is_warn_always_enabled()
    lib.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(lib)
    finally:
        lib.set_warn_always(always)
    assert any(re.search(said, str(w.message)) for w in seen), [str(w.message) for w in seen]


def test_what_is_deprecated_warns_once_per_process(lib):
    """In a process of its own, since others have called it before."""
    program = f"""
import warnings, {lib.__name__} as lib
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for call in 3 * [lambda: lib.triangular_solve(lib.ones(2, 1), lib.eye(2)), lambda: lib.qr(lib.eye(2)), lambda: lib.ones(2, 2, 2).T,
                     lambda: lib.zeros(2).index_reduce(0, lib.tensor([0, 1]), lib.ones(2), "prod"), lambda: lib.meshgrid(lib.ones(2))]:
        call()
    once = len(seen)
    lib.set_warn_always(True)
    lib.qr(lib.eye(2))
print(once, len(seen))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5", "6"]
