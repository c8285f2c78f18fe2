"""Orders against NumPy's stable ones: lengths around every limit of the networks and splits, all dtypes, rows whose keys
differ in their upper or lower bits only, and the same bits whatever the number of threads."""
import os
import subprocess
import sys

import numpy as np
import pytest
import tede

DTYPES = ['uint8', 'int8', 'int16', 'int32', 'int64', 'uint16', 'uint32', 'uint64', 'float16', 'float32', 'float64', 'bool']
LENGTHS = [*range(0, 35), 47, 48, 49, 63, 64, 65, 66, 95, 96, 97, 127, 128, 129, 511, 512, 513, 1000, 4095, 4097, 20000]


def rows(kind, n, rng):
    if kind == 'random':
        return rng.standard_normal(n) * 50
    if kind == 'few':
        return rng.integers(0, 3, n).astype(float)
    if kind == 'down':
        return np.arange(n, 0, -1.0)
    if kind == 'special':
        return rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], n)
    return 1 + rng.integers(0, 1 << 20, n) * 2.0 ** -52       # 'close': float64 keys that differ in low bits only


def made(kind, n, dtype, rng):
    x = rows(kind, n, rng)
    if not dtype.startswith('float'):
        x = np.nan_to_num(x, posinf=100, neginf=-100)
        if dtype.startswith('u') or dtype == 'bool':
            x = np.abs(x)
        if dtype in ('int64', 'uint64') and kind == 'random' and n % 2:
            return (x * 2.0 ** 50).astype(dtype)
    with np.errstate(over='ignore'):
        return x.astype(dtype)


def check(x):
    values, indices = tede.sort(tede.from_numpy(x), stable=True)
    expected = np.argsort(x, kind='stable')
    np.testing.assert_array_equal(indices.numpy(), expected)
    got, wanted = values.numpy(), x[expected]
    np.testing.assert_array_equal(got, wanted)
    if x.dtype.kind == 'f':
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('kind', ['random', 'few', 'down', 'special', 'close'])
def test_rows_of_all_lengths(kind, dtype):
    rng = np.random.default_rng(len(kind))
    for n in LENGTHS:
        check(made(kind, n, dtype, rng))


@pytest.mark.parametrize('dtype', ['int32', 'int64', 'uint64', 'float32', 'float64'])
def test_descending_keeps_equal_elements_as_they_come(dtype):
    rng = np.random.default_rng(5)
    for n in (7, 64, 300, 5000):
        x = rng.integers(0, 40, n).astype(dtype)
        values, indices = tede.sort(tede.from_numpy(x), descending=True, stable=True)
        expected = np.argsort(-x.astype('float64'), kind='stable')
        np.testing.assert_array_equal(indices.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), x[expected])


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'int64'])
def test_long_rows_on_any_number_of_threads(dtype):
    rng = np.random.default_rng(6)
    before = tede.get_num_threads()
    try:
        for kind in ('random', 'few', 'down'):
            x = made(kind, 300001, dtype, rng)
            for threads in (1, 2, 5):
                tede.set_num_threads(threads)
                check(x)
    finally:
        tede.set_num_threads(before)


@pytest.mark.parametrize('level', ['v2', 'v3'])
def test_the_same_at_lower_instruction_sets(level):
    run = subprocess.run([sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', '-k', 'threads or close', __file__],
                         env={**os.environ, 'TEDE_CPU': level}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
