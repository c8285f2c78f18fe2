"""Older orders of arguments are still taken, with one warning for all of them."""
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
    told = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == (
        '1 UserWarning This overload of addcmul is deprecated:\n'
        '\taddcmul(Tensor input, Number value, Tensor tensor1, Tensor tensor2, *, Tensor out = None)\n'
        'Consider using one of the following signatures instead:\n'
        '\taddcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Number value = 1, Tensor out = None)')

