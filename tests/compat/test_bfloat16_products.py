"""Products of bfloat16 of every shape, by whatever this processor multiplies them with, and by the levels below."""
import os
import subprocess
import sys

import numpy as np
import pytest

import tede
torch = pytest.importorskip("torch")

PROGRAM = """
import random, sys
import numpy as np, tede
draw = random.Random(int(sys.argv[1]))
results = []
for turn in range(int(sys.argv[2])):
    m, n, k = (draw.randint(1, 130) for _ in range(3))
    k = draw.choice([k, k, k, draw.randint(500, 2600)]) if turn % 4 == 0 else k
    r = np.random.default_rng(turn)
    a, b, c = (tede.tensor(r.standard_normal(s, np.float32)).bfloat16() for s in ((m, k), (k, n), (m, n)))
    layout = draw.choice(["rows", "columns", "sliced", "strided"])
    a = dict(rows=lambda x: x, columns=lambda x: x.t().contiguous().t(), sliced=lambda x: tede.nn.functional.pad(x, (1, 2))[:, 1:-2],
             strided=lambda x: x.repeat_interleave(3, 1)[:, ::3])[layout](a)
    if draw.random() < .5:
        b = b.t().contiguous().t()
    kind = draw.choice(["mm", "addmm", "linear", "bmm"])
    results.append(dict(mm=lambda: a @ b, addmm=lambda: tede.addmm(c, a, b, beta=.5, alpha=-2.), linear=lambda: tede.nn.functional.linear(a, b.t(), c[0]),
                        bmm=lambda: tede.bmm(tede.stack([a, a]), tede.stack([b, b]))[1])[kind]())
    factor, added = dict(mm=(1, 0), addmm=(-2, .5 * c.double()), linear=(1, c[0].double()), bmm=(1, 0))[kind]
    exact, size = factor * (a.double() @ b.double()) + added, abs(factor) * (a.double().abs() @ b.double().abs()) + 1
    off = (results[-1].double() - exact).abs() > exact.abs() / 256 + size * 2e-6
    assert not off.any(), (m, n, k, layout, kind)
np.save(sys.argv[3], np.concatenate([x.float().flatten().numpy() for x in results]))
"""


def test_products_of_many_shapes_at_every_level(tmp_path):
    """Sums are float32 and are rounded once, whatever multiplies; levels add in orders of their own."""
    made = []
    for level in ({}, {"TEDE_CPU": "v4"}, {"TEDE_CPU": "v3"}):
        to = tmp_path / f"{len(made)}.npy"
        subprocess.run([sys.executable, "-c", PROGRAM, "7", "120", str(to)], env={**os.environ, **level}, check=True)
        made.append(np.load(to))
    for other in made[1:]:
        apart = np.abs(made[0] - other)
        assert (apart <= np.abs(other) / 128 + 1e-3).all()
        assert (apart == 0).mean() > .95            # rounded alike but for what lies between two numbers


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 31, 33, 48, 65, 97, 130, 265, 290, 1300])
def test_edges_of_tiles(rows):
    """Whole numbers, whose sums are exact: every row, column and pair counts once."""
    for columns, k in ((1, 33), (16, 31), (17, 1), (33, 2), (49, 64), (63, 65), (97, 15), (130, 129), (64, 1030), (31, 2055), (70, 1030)):
        a = (torch.arange(rows * k).reshape(rows, k) % 7 - 3).bfloat16()
        b = (torch.arange(k * columns).reshape(k, columns) % 5 - 2).bfloat16()
        right = (a.double() @ b.double()).bfloat16()
        mine = [tede.tensor(x.float().numpy()).bfloat16() for x in (a, b)]
        for turned in range(4):
            x, y = (v.t().contiguous().t() if turned >> i & 1 else v for i, v in enumerate(mine))
            assert np.array_equal((x @ y).float().numpy(), right.float().numpy()), (columns, k, turned)


@pytest.mark.parametrize("k", [1, 30, 33, 203, 512, 1025, 1500])
def test_bits_of_a_result_depend_on_k_alone(k):
    a, b = tede.randn(700, k).bfloat16(), tede.randn(k, 300).bfloat16()
    whole = a @ b
    for rows in (17, 33, 97, 160, 400):
        assert tede.equal(a[:rows] @ b, whole[:rows]), rows
    for columns in (17, 40, 64, 100):
        assert tede.equal(a @ b[:, :columns], whole[:, :columns]), columns
    assert tede.equal((b.t() @ a.t()).t(), whole)


@pytest.mark.parametrize("k", [3, 16, 33, 70, 1100])
def test_what_is_not_finite_stays_in_its_row_and_column(k):
    a, b = torch.ones(40, k).bfloat16(), torch.ones(k, 50).bfloat16()
    a[3, k - 1], a[35, 0], b[k - 1, 49], b[0, 7] = float("nan"), float("inf"), float("-inf"), float("nan")
    right = (a.double() @ b.double()).float().numpy()
    for turned in (False, True):
        x, y = (tede.tensor(v.float().numpy()).bfloat16() for v in (a, b))
        got = (x @ (y.t().contiguous().t() if turned else y)).float().numpy()
        assert np.array_equal(np.isnan(got), np.isnan(right)) and np.array_equal(got[np.isinf(right)], right[np.isinf(right)])
        finite = np.isfinite(right)
        assert np.allclose(got[finite], right[finite], rtol=1 / 128)


def test_nothing_is_added_for_no_pairs():
    c = tede.randn(5, 40).bfloat16()
    a, b = tede.zeros(5, 0, dtype=tede.bfloat16), tede.zeros(0, 40, dtype=tede.bfloat16)
    assert tede.equal(a @ b, tede.zeros(5, 40, dtype=tede.bfloat16)) and tede.equal(tede.addmm(c, a, b), c)


def test_a_product_is_the_same_on_any_number_of_threads():
    before = tede.get_num_threads()
    for m, n, k in ((300, 200, 1100), (40, 700, 96), (700, 40, 96), (70, 1500, 2048)):
        a, b, bias = tede.randn(m, k).bfloat16(), tede.randn(n, k).bfloat16(), tede.randn(n).bfloat16()
        results = []
        for threads in (1, 2, 3):
            tede.set_num_threads(threads)
            results += [tede.nn.functional.linear(a, b, bias), tede.nn.functional.linear(a, b.t().contiguous().t(), bias)]
        tede.set_num_threads(before)
        assert all(tede.equal(results[0], x) for x in results[1:])
