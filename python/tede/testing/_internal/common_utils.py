"""A TestCase whose assertEqual knows tensors, tests with parameters, and the flags that suites ask for."""
import contextlib
import functools
import itertools
import os
import sys
import tempfile
import unittest
from collections.abc import Mapping, Sequence, Set

import tede as torch
from tede.autograd.gradcheck import gradcheck, gradgradcheck  # noqa: F401
from tede.testing import assert_close, make_tensor  # noqa: F401
from tede.testing._utils import freeze_rng_state  # noqa: F401

IS_WINDOWS, IS_MACOS, IS_LINUX = (sys.platform == "win32", sys.platform == "darwin", sys.platform == "linux")
IS_CI, IS_SANDCASTLE, IS_FBCODE, IS_ARM64, IS_JETSON, IS_X86 = bool(os.environ.get("CI")), False, False, False, False, True
TEST_CUDA = TEST_MULTIGPU = TEST_XPU = TEST_MPS = TEST_HPU = TEST_PRIVATEUSE1 = TEST_ACCELERATOR = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_TORCHINDUCTOR = TEST_WITH_TORCHDYNAMO = False
TEST_WITH_CROSSREF = TEST_WITH_SLOW = TEST_SKIP_FAST = TEST_MKL = TEST_CUDA_GRAPH = False
GRAPH_EXECUTOR, SEED = None, 1234


def _is_there(name):
    import importlib.util
    return importlib.util.find_spec(name) is not None


def __getattr__(name):
    packages = {"TEST_NUMPY": "numpy", "TEST_SCIPY": "scipy", "TEST_NUMBA": "numba", "TEST_DILL": "dill", "HAS_PYTEST": "pytest"}
    if name in packages:
        return _is_there(packages[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run_tests(argv=None):
    """The tests of the program's main module, by unittest."""
    unittest.main(argv=argv)


def load_tests(loader, tests, pattern):
    return tests


def _skips(condition, why):
    def decorate(test):
        return unittest.skipIf(condition, why)(test)
    return decorate


skipIfRocm = skipIfTorchDynamo = skipIfTorchInductor = skipIfCrossRef = lambda msg="": msg if callable(msg) else lambda test: test
skipIfNoLapack = skipIfNoSciPy = lambda test: test
slowTest = _skips(not os.environ.get("PYTORCH_TEST_WITH_SLOW"), "slow: PYTORCH_TEST_WITH_SLOW=1 runs it")
slowTestIf = lambda condition: slowTest if condition else lambda test: test
serialTest = lambda condition=True: lambda test: test
markDynamoStrictTest = lambda cls=None, strict=True: cls if cls is not None else lambda c: c


def set_rng_seed(seed=None):
    """Seeds tede's, Python's and NumPy's generators."""
    import random
    seed = SEED if seed is None else seed
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


@contextlib.contextmanager
def set_default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that is gone afterwards."""
    file = tempfile.NamedTemporaryFile(*args, **{**kwargs, "delete": False})
    file.close()
    try:
        yield file.name
    finally:
        os.unlink(file.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix=None):
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


class DeterministicGuard:
    """``with DeterministicGuard(True)``: use_deterministic_algorithms for a while."""

    def __init__(self, deterministic, *, warn_only=False, fill_uninitialized_memory=True):
        self.wanted = deterministic, warn_only

    def __enter__(self):
        self.before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(self.wanted[0], warn_only=self.wanted[1])

    def __exit__(self, *failure):
        torch.use_deterministic_algorithms(self.before[0], warn_only=self.before[1])


class subtest:
    """Values of `parametrize` with a name, or with decorators, of their own."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize:
    """``@parametrize("a,b", [(1, 2), ...])`` over a test of a class that `instantiate_parametrized_tests` is called on."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = list(arg_values), name_fn

    def __call__(self, test):
        test.__dict__.setdefault("parametrizations", []).insert(0, self)
        return test

    def cases(self):
        """(the test's name goes on with, keywords, decorators)"""
        for i, value in enumerate(self.values):
            case = value if isinstance(value, subtest) else subtest(value)
            values = tuple(case.arg_values) if len(self.names) > 1 else (case.arg_values,)
            if len(values) != len(self.names):
                raise RuntimeError(f"parametrize: {len(self.names)} names but values {values}")
            name = case.name or (self.name_fn(*values) if self.name_fn else "_".join(map(self._text, self.names, values, itertools.repeat(i))))
            yield name, dict(zip(self.names, values)), case.decorators

    @staticmethod
    def _text(name, value, i):
        if isinstance(value, torch.dtype):
            return str(value).rpartition(".")[2]
        if isinstance(value, (bool, int, float, str)) or value is None:
            return f"{name}_{value}".replace(".", "_")
        return f"{name}{i}"


def instantiate_parametrized_tests(cls):
    """Replaces each test of cls that has parameters by one for each combination of them."""
    for name, test in list(vars(cls).items()):
        groups = getattr(test, "parametrizations", None)
        if not groups:
            continue
        delattr(cls, name)
        for combination in itertools.product(*(group.cases() for group in groups)):
            keywords = {k: v for _, more, _ in combination for k, v in more.items()}

            def made(self, *, _test=test, _keywords=keywords):
                return _test(self, **_keywords)
            made = functools.wraps(test)(made)
            made.__dict__.pop("parametrizations", None)
            del made.__wrapped__        # pytest would ask for the parameters
            for _, _, decorators in combination:
                for decorate in decorators:
                    made = decorate(made)
            made.__name__ = "_".join([name, *(text for text, _, _ in combination)])
            setattr(cls, made.__name__, made)
    return cls


class TestCase(unittest.TestCase):
    """unittest's, with tensors in assertEqual, and the generators seeded before each test."""
    precision = rel_tol = 0.0
    maxDiff = None

    def setUp(self):
        super().setUp()
        set_rng_seed()

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False,
                    exact_layout=False, exact_stride=False, exact_is_coalesced=False):
        """Equal, tensors and numbers within what their dtype allows (`atol` and `rtol` if given), containers by their items."""
        def tensors(a, b, exact_dtype=exact_dtype):
            options = {} if atol is None and rtol is None else {
                "atol": max(atol or 0.0, self.precision), "rtol": max(rtol or 0.0, self.rel_tol)}
            words = None if msg is None else (msg if callable(msg) else lambda text: f"{text}\n{msg}")
            assert_close(a, b, equal_nan=equal_nan, check_dtype=exact_dtype, check_device=exact_device, check_layout=exact_layout,
                         check_stride=exact_stride, msg=words, **options)

        def compare(a, b):
            if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
                mixed = not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor))
                wide = {float: torch.float64, complex: torch.complex128}       # a number beside a tensor loses nothing
                a, b = (v if isinstance(v, torch.Tensor) else torch.as_tensor(v, dtype=wide.get(type(v))) for v in (a, b))
                tensors(a, b, exact_dtype and not mixed)
            elif type(a).__module__ == "numpy" or type(b).__module__ == "numpy":
                compare(torch.as_tensor(a), torch.as_tensor(b))
            elif isinstance(a, (bool, str, bytes, type, torch.dtype, torch.device)) or a is None:
                super(TestCase, self).assertEqual(a, b, msg)
            elif isinstance(a, (int, float, complex)) and isinstance(b, (int, float, complex)):
                tensors(a, b) if type(a) is type(b) else tensors(complex(a), complex(b))
            elif isinstance(a, Mapping) and isinstance(b, Mapping):
                super(TestCase, self).assertEqual(set(a), set(b), msg)
                for key in a:
                    compare(a[key], b[key])
            elif isinstance(a, Sequence) and isinstance(b, Sequence):
                super(TestCase, self).assertEqual(len(a), len(b), msg)
                for one, other in zip(a, b):
                    compare(one, other)
            elif isinstance(a, Set):
                super(TestCase, self).assertEqual(a, b, msg)
            else:
                super(TestCase, self).assertEqual(a, b, msg)
        compare(x, y)

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs):
        return self.assertEqual(*args, exact_dtype=False, **kwargs)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        with self.assertWarnsRegex(category, regex):
            yield
