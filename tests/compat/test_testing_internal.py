"""torch.testing._internal.common_utils, as other projects' suites use it."""
import unittest
from importlib import import_module

import pytest


@pytest.fixture
def utils(lib):
    if lib.__name__ == "torch":
        pytest.importorskip("expecttest")
    return import_module(lib.__name__ + ".testing._internal.common_utils")


def _run(case):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_assert_equal(lib, utils):
    case = utils.TestCase()
    case.assertEqual(lib.ones(2), lib.ones(2) + 1e-7)
    case.assertEqual({"a": [lib.ones(2), 1]}, {"a": [lib.ones(2), 1]})
    case.assertEqual(lib.tensor(2.0), 2.0)
    case.assertEqual(lib.ones(2), lib.ones(2) + 0.1, atol=0.2, rtol=0)
    case.assertEqual(lib.ones(2), lib.ones(2, dtype=lib.float64), exact_dtype=False)
    case.assertEqual(float("nan"), float("nan"))
    case.assertNotEqual(lib.ones(2), lib.zeros(2))
    for a, b in [(lib.ones(2), lib.zeros(2)), (lib.ones(2), lib.ones(2, dtype=lib.float64)), ([1, 2], [1]), ("a", "b"), ({"a": 1}, {"b": 1}),
                 (lib.ones(2), lib.ones(3)), (1.0, 1.5), (lib.tensor(2), 2.5), (lib.tensor(0.5), 0.6)]:
        with pytest.raises(AssertionError):
            case.assertEqual(a, b)


def test_parametrized_tests(lib, utils):
    class Case(utils.TestCase):
        seen = []

        @utils.parametrize("n", [1, 2])
        @utils.parametrize("kind", [lib.float32, lib.int64])
        def test_fill(self, n, kind):
            self.seen.append((n, str(kind).rpartition(".")[2]))
            self.assertEqual(lib.ones(n, dtype=kind).sum().item(), n)

        @utils.parametrize("a,b", [utils.subtest((1, 2), name="small"), (3, 4)])
        def test_two(self, a, b):
            self.assertEqual(b, a + 1)

    utils.instantiate_parametrized_tests(Case)
    result = _run(Case)
    assert result.wasSuccessful() and result.testsRun == 6
    assert sorted(set(Case.seen)) == [(1, "float32"), (1, "int64"), (2, "float32"), (2, "int64")]
    assert [name for name in dir(Case) if name.startswith("test_")] == [
        "test_fill_n_1_float32", "test_fill_n_1_int64", "test_fill_n_2_float32", "test_fill_n_2_int64", "test_two_a_3_b_4", "test_two_small"]


def test_contexts(lib, utils):
    lib.manual_seed(3)
    with utils.freeze_rng_state():
        first = lib.rand(2)
    assert first.tolist() == lib.rand(2).tolist()
    with utils.set_default_dtype(lib.float64):
        assert lib.ones(1).dtype == lib.float64
    assert lib.ones(1).dtype == lib.float32
    with utils.TemporaryFileName() as name:
        lib.save(lib.ones(2), name)
        assert lib.load(name).tolist() == [1, 1]
