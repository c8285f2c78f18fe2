"""Pointwise kernels that take several elements at a time: where runs begin, where they end, what is broadcast, what sizes elements have."""
import itertools

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
DTYPES = tede.float32, tede.bfloat16, tede.float16, tede.int64, tede.uint8


def numbers(*shape, dtype=tede.float32):
    return tede.randint(-100, 101, shape).to(dtype) if not dtype.is_floating_point else tede.randn(shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_length_around_a_pack(agrees, dtype):
    x, y = numbers(70, dtype=dtype), numbers(70, dtype=dtype)
    agrees(lambda x, y: [x[:n] + y[:n] for n in [*range(1, 20), 31, 32, 33, 63, 64, 65]], x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_runs_that_begin_anywhere(agrees, dtype):
    x, y = numbers(60, dtype=dtype), numbers(60, dtype=dtype)
    agrees(lambda x, y: [x[a:a + 37] - y[b:b + 37] for a, b in [(0, 0), (1, 1), (2, 2), (4, 4), (8, 0), (0, 3), (5, 8), (7, 7), (16, 2)]], x, y)
    # What is written begins anywhere, too, and nothing beside it is touched.
    agrees(lambda x, y: [x.clone()[a:b].add_(y[a:b]).new_zeros(1) + x for a, b in [(1, 20), (3, 4), (8, 25)]], x, y)

    def inside(x, y, a, b):
        z = x.clone()
        z[a:b].mul_(y[a:b])
        return z
    agrees(lambda x, y: [inside(x, y, a, b) for a, b in [(0, 5), (1, 9), (3, 40), (16, 48), (59, 60)]], x, y)


def test_rows_and_columns(agrees):
    for columns, dtype in itertools.product((1, 3, 6, 8, 24), (tede.float32, tede.bfloat16)):
        x, row, column = numbers(5, columns, dtype=dtype), numbers(columns, dtype=dtype), numbers(5, 1, dtype=dtype)
        agrees(lambda x, row, column: [x + row, x * column, row + column, row - x, (x.t() + column.t()), x.t() * row[:, None]], x, row, column)
    x, plane, bar = numbers(3, 4, 8), numbers(4, 1), numbers(3, 1, 8)
    agrees(lambda x, plane, bar: [x + plane, x * bar, bar * plane, x.permute(2, 0, 1) + bar.permute(2, 0, 1)], x, plane, bar)


def test_parts_of_rows(agrees):
    x = numbers(6, 20)
    agrees(lambda x: [x[:, a:b] * 2 + x[:, a + 2:b + 2] for a, b in [(0, 8), (0, 16), (2, 10), (1, 9), (4, 7)]], x)
    agrees(lambda x: [x[:, ::2] + 1, x[::2] + x[1::2], x[:, ::3] * x[:, 1:20:3][:, :7]], numbers(6, 21))


def test_elements_of_different_sizes(agrees):
    for n in (5, 16, 64, 67):
        x, y, mask, whole = numbers(n), numbers(n, dtype=tede.bfloat16), numbers(n) > 0, numbers(n, dtype=tede.int64)
        agrees(lambda x, y, mask, whole: [tede.where(mask, x, y), x + y, x < y, whole + x, whole == 3, mask & (x > 0), x.to(tede.bfloat16), y.float(),
                                          mask.long(), whole.to(tede.uint8), y > 0, tede.where(mask, y, 0), whole.bfloat16() * mask], x, y, mask, whole)
    x, mask = numbers(4, 16, dtype=tede.bfloat16), numbers(4, 1) > 0
    agrees(lambda x, mask: [x.masked_fill(mask, -1), tede.where(mask, x, 0.5), x.float() * mask], x, mask)


def test_bfloat16_is_rounded_to_the_nearest_even(agrees):
    """Every float32 whose lower half is one of a few, for all upper halves."""
    upper = tede.arange(65536, dtype=tede.int64)
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        bits = upper * 65536 + lower
        x = tede.where(bits >= 2 ** 31, bits - 2 ** 32, bits).to(tede.int32).view(tede.float32)
        agrees(lambda x: x.bfloat16().view(tede.int16), x, rtol=0, atol=0)
        agrees(lambda x: (x.bfloat16() * 1).view(tede.int16), x, rtol=0, atol=0)


def test_more_than_one_round_of_all_groups(agrees):
    x = numbers(1 << 19)
    agrees(lambda x: [x + 1, x[1:] + 1, x.view(1 << 10, -1) + x[:512], x.bfloat16() + 1], x)


def test_a_long_formula_has_tails_too(agrees):
    x = numbers(37).abs() + 0.1
    agrees(lambda x: [tede.lgamma(x), tede.digamma(x[1:]), F.gelu(x), F.gelu(x.bfloat16()).float(), F.mish(x[3:20])], x, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.uint8, tede.int64])
def test_transposed_copies(agrees, dtype):
    for rows, columns in ((40, 70), (64, 64), (33, 31), (200, 3), (1, 50)):
        x = numbers(rows, columns, dtype=dtype)
        agrees(lambda x: [x.t().contiguous(), x.t().clone(memory_format=tede.contiguous_format), x[1:, 1:].t().contiguous()], x)
    x = numbers(2, 40, 3, 50, dtype=dtype)
    agrees(lambda x: [x.transpose(1, 3).contiguous(), x.permute(3, 2, 1, 0).contiguous(), x.permute(0, 2, 3, 1).contiguous(), x.transpose(2, 3).contiguous(),
                      x.contiguous(memory_format=tede.channels_last)], x)

    def into_a_part(x):
        y = x.new_zeros(60, 52)
        y[3:53, 5:45].copy_(x[0, :, 0].t())
        return y
    agrees(into_a_part, x)
