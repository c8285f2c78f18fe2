"""Rows of few elements go through kernels many at a time: each gets what it would get alone."""
import math

import pytest

LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 513]
FOLDS = ['sum', 'mean', 'prod', 'amax', 'amin', 'logsumexp', 'norm']


def rows_of(lib, count, length, dtype):
    numbers = [((i * 37) % 101) / 50 - 1 for i in range(count * length)]
    return lib.tensor(numbers, dtype=lib.float64).reshape(count, length).to(dtype)


def fold(lib, name, x):
    return lib.linalg.vector_norm(x, dim=1) if name == 'norm' else getattr(x, name)(1)


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'bfloat16'])
@pytest.mark.parametrize('length', LENGTHS)
@pytest.mark.parametrize('name', FOLDS)
def test_folding_rows(lib, name, length, dtype):
    dtype = getattr(lib, dtype)
    x = rows_of(lib, 131, length, dtype)
    got = fold(lib, name, x)
    for rows in (1, 2, 3, 5):
        lib.testing.assert_close(fold(lib, name, x[:rows]), got[:rows])
    right = fold(lib, name, x.double())
    # The product's own factor of an epsilon for each element; sums are of numbers up to one.
    slack = {'rtol': lib.finfo(dtype).eps * (length if name == 'prod' else 4), 'atol': lib.finfo(dtype).eps * length / 8}
    lib.testing.assert_close(got.double(), right, **slack)
    wider = rows_of(lib, 131, length + 3, dtype)[:, 2:length + 2]
    lib.testing.assert_close(fold(lib, name, wider), fold(lib, name, wider.contiguous()))


@pytest.mark.parametrize('length', [16, 17, 33, 64])
@pytest.mark.parametrize('place', [0, 5, -1])
def test_a_nan_in_a_row_is_its_largest_and_smallest(lib, length, place):
    x = rows_of(lib, 9, length, lib.float32)
    x[4, place] = math.nan
    for y in (x.amax(1), x.amin(1), x.logsumexp(1), x.sum(1)):
        assert y.isnan().tolist() == [i == 4 for i in range(9)]


@pytest.mark.parametrize('length', [16, 40])
def test_rows_of_infinities(lib, length):
    x = rows_of(lib, 6, length, lib.float32)
    x[1, 3] = math.inf
    x[2] = -math.inf
    assert x.logsumexp(1).tolist()[1:3] == [math.inf, -math.inf]
    assert x.amax(1).tolist()[1:3] == [math.inf, -math.inf]


@pytest.mark.parametrize('columns', [1, 2, 3, 5, 64, 65])
@pytest.mark.parametrize('dtype', ['uint8', 'bfloat16', 'int32', 'float64', 'complex128'])
def test_gathering_and_placing_in_rows(lib, columns, dtype):
    rows, width = 300, 7
    values = [[(r * width + c) % 120 for c in range(width)] for r in range(rows)]
    places = [[(r * 5 + c * 3) % width for c in range(columns)] for r in range(rows)]
    x, index = lib.tensor(values).to(getattr(lib, dtype)), lib.tensor(places)
    picked = [[values[r][i] for i in places[r]] for r in range(rows)]
    assert lib.equal(x.gather(1, index), lib.tensor(picked).to(x.dtype))
    source = lib.arange(rows * columns).reshape(rows, columns).remainder(90).to(x.dtype)
    last, total = [row[:] for row in values], [row[:] for row in values]
    for r in range(rows):
        for c, i in enumerate(places[r]):
            last[r][i] = (r * columns + c) % 90
            total[r][i] += (r * columns + c) % 90
    assert lib.equal(x.scatter(1, index, source), lib.tensor(last).to(x.dtype))
    if dtype not in ('uint8', 'bfloat16'):      # sums of these wrap and are rounded
        assert lib.equal(x.scatter_add(1, index, source), lib.tensor(total).to(x.dtype))
    along_rows = lib.tensor([[(r * 7 + c) % rows for c in range(min(columns, width))] for r in range(rows)])
    down = [[values[i][c] for c, i in enumerate(row)] for row in along_rows.tolist()]
    assert lib.equal(x.gather(0, along_rows), lib.tensor(down).to(x.dtype))


def test_an_index_outside_of_a_short_row(lib):
    x, index = lib.zeros(500, 4), lib.zeros(500, 2, dtype=lib.int64)
    index[499, 1] = 4
    with pytest.raises((IndexError, RuntimeError), match='out of bounds'):
        x.gather(1, index)


@pytest.mark.parametrize('length', [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 130])
@pytest.mark.parametrize('dtype', ['uint8', 'bool', 'int16', 'float32', 'int64', 'complex64', 'complex128'])
def test_copying_rows_out_of_wider_ones(lib, length, dtype):
    numbers = [[(r * 31 + c) % 127 for c in range(length + 2)] for r in range(9)]
    x = lib.tensor(numbers).to(getattr(lib, dtype))
    part = [row[1:-1] for row in numbers]
    assert lib.equal(x[:, 1:-1].contiguous(), lib.tensor(part).to(x.dtype))
    assert lib.equal(x[:, 1:-1].flip(1), lib.tensor([row[::-1] for row in part]).to(x.dtype))
    assert lib.equal(x[:, 1:-1].flip(0, 1), lib.tensor([row[::-1] for row in part[::-1]]).to(x.dtype))
    assert lib.equal(x[::2, 1:-1].flip(0), lib.tensor(part[::2][::-1]).to(x.dtype))
    stacked = lib.stack([x, x, x]).reshape(3, 9, length + 2)[:, 1:8, 1:-1]
    assert lib.equal(stacked.contiguous(), lib.tensor([part[1:8]] * 3).to(x.dtype))
    target = x.clone()
    target[:, 1:-1] = x[:, 2:]
    assert lib.equal(target, lib.tensor([row[:1] + row[2:] + row[-1:] for row in numbers]).to(x.dtype))


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'bfloat16'])
@pytest.mark.parametrize('length', [1, 2, 3, 8, 17, 31, 64, 65, 100, 130])
def test_softmax_of_rows(lib, length, dtype):
    F, x = lib.nn.functional, rows_of(lib, 131, length, getattr(lib, dtype)) * 9
    wide = x.double()
    powers = (wide - wide.amax(1, keepdim=True)).exp()
    slack = {'rtol': 4 * lib.finfo(x.dtype).eps, 'atol': 4 * lib.finfo(x.dtype).eps}
    for log, right in ((False, powers / powers.sum(1, keepdim=True)),
                       (True, wide - wide.amax(1, keepdim=True) - powers.sum(1, keepdim=True).log())):
        function = lib.log_softmax if log else lib.softmax
        got = function(x, 1)
        lib.testing.assert_close(got.double(), right, **(slack if not log else {**slack, 'atol': 80 * slack['atol']}))
        for rows in (1, 3, 65):
            lib.testing.assert_close(function(x[:rows], 1), got[:rows])
    target = lib.arange(131).remainder(length)
    loss = F.cross_entropy(x.float(), target, reduction='none', label_smoothing=0.25)
    log_p = lib.log_softmax(x.float(), 1)
    mixed = -0.75 * log_p.gather(1, target[:, None])[:, 0] - 0.25 * log_p.mean(1)
    lib.testing.assert_close(loss, mixed, rtol=1e-5, atol=2e-5)
    picked = F.nll_loss(x, target, reduction='none')
    assert lib.equal(picked, -x.gather(1, target[:, None])[:, 0])


def test_softmax_of_masked_short_rows(lib):
    x = lib.zeros(5, 4)
    x[1, 1:] = x[2, :] = -math.inf
    x[3, 2] = math.nan
    y = x.softmax(1)
    assert y[1].tolist() == [1, 0, 0, 0] and y[0].tolist() == [0.25] * 4
    assert y[2].isnan().all() and y[3].isnan().all() and not y[4].isnan().any()


@pytest.mark.parametrize('dtype', ['bool', 'uint8', 'int16', 'int64', 'bfloat16', 'float32', 'float64'])
@pytest.mark.parametrize('length', [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize('descending', [False, True])
def test_sorting_rows_keeps_equal_ones_in_order(lib, length, dtype, descending):
    rows = [[(r * 13 + c * c * 7) % 5 for c in range(length)] for r in range(300)]
    x = lib.tensor(rows).to(getattr(lib, dtype))
    orders = [sorted(range(length), key=lambda i: row[i]) for row in x.tolist()]
    if descending:
        orders = [sorted(range(length), key=lambda i: -row[i]) for row in x.tolist()]
    values, indices = x.sort(dim=1, descending=descending, stable=True)
    assert indices.tolist() == orders
    assert lib.equal(values, x.gather(1, indices))
    assert lib.equal(x.t().contiguous().sort(dim=0, descending=descending, stable=True)[1].t(), indices)


def test_sorting_short_rows_of_odd_numbers(lib):
    x = lib.tensor([[math.nan, 1.0, -math.inf], [0.0, -0.0, -1.0], [-0.0, 0.0, math.inf]])
    values, indices = x.sort(dim=1, stable=True)
    assert indices.tolist() == [[2, 1, 0], [2, 0, 1], [0, 1, 2]]
    assert math.isnan(values[0, 2]) and math.copysign(1, values[1, 2]) == -1
    assert x.sort(dim=1, descending=True, stable=True)[1].tolist() == [[0, 1, 2], [0, 1, 2], [2, 0, 1]]
