"""assert_close with its messages, make_tensor."""
import pytest


def failure(lib, *args, **kwargs):
    with pytest.raises((AssertionError, ValueError, TypeError)) as info:
        lib.testing.assert_close(*args, **kwargs)
    return f"{type(info.value).__name__}: {info.value}".replace("tede", "torch")


def test_the_same_words(both):
    tede, torch = both
    for make in (lambda t: ((t.tensor([1., 2., 3.]), t.tensor([1., 2.5, 3.])), {}),
                 lambda t: ((t.tensor([[1, 2], [3, 4]]), t.tensor([[1, 2], [5, 4]])), {}),
                 lambda t: ((t.ones(2), t.ones(3)), {}), lambda t: ((t.ones(2), t.ones(2, dtype=t.float64)), {}),
                 lambda t: ((t.ones(2, 3).t(), t.ones(3, 2)), {"check_stride": True}),
                 lambda t: ((1.0, 1.5), {}), lambda t: ((1, 2), {"rtol": 0, "atol": 0}), lambda t: ((True, False), {}),
                 lambda t: (([t.ones(2), t.ones(2)], [t.ones(2), t.zeros(2)]), {}), lambda t: (([1], [1, 2]), {}),
                 lambda t: (({"a": 1., "b": t.ones(1)}, {"a": 1., "b": t.zeros(1)}), {}),
                 lambda t: (({"a": 1}, {"b": 1}), {}), lambda t: ((None, 1), {}), lambda t: ((t.ones(1), 1.0), {}),
                 lambda t: ((t.ones(1), t.ones(1)), {"rtol": 1}), lambda t: ((t.tensor(float("nan")),) * 2, {}),
                 lambda t: ((t.tensor([1 + 1j]), t.tensor([1 + 2j])), {}), lambda t: ((t.ones(1), t.zeros(1)), {"msg": "mine"}),
                 lambda t: ((t.tensor(True), t.tensor(False)), {}),
                 lambda t: ((t.ones(1), t.zeros(1)), {"msg": lambda text: "before\n" + text})):
        (a, k), (b, m) = make(tede), make(torch)
        assert failure(tede, *a, **k) == failure(torch, *b, **m)


def test_what_is_close(lib):
    close = lib.testing.assert_close
    close(lib.ones(2), lib.ones(2) + 1e-7)
    close([1.0, {"a": lib.ones(1)}], [1.0 + 1e-8, {"a": lib.ones(1)}])
    close(lib.tensor(float("nan")), lib.tensor(float("nan")), equal_nan=True)
    close(lib.ones(2), lib.ones(2, dtype=lib.float64), check_dtype=False)


def test_make_tensor(both):
    for dtype in ("float32", "float64", "float16", "bfloat16", "complex64", "int64", "uint8", "bool"):
        made = []
        for lib in both:
            lib.manual_seed(4)
            x = lib.testing.make_tensor(3, 4, dtype=getattr(lib, dtype), device="cpu", low=None, high=None)
            y = lib.testing.make_tensor((3, 4), dtype=getattr(lib, dtype), device="cpu", noncontiguous=True)
            assert x.shape == (3, 4) and not y.is_contiguous()
            made.append((x.tolist(), y.tolist()))
        assert made[0] == made[1], dtype


TEXT = "alpha beta\ngamma beta delta\nbeta\n"


@pytest.mark.parametrize("checks, words", [
    (lambda c: c.check("alpha").check("delta"), None),
    (lambda c: c.check("delta").check("alpha"), 'Expected to find "alpha" but did not find it'),
    (lambda c: c.check_count("beta", 3), None), (lambda c: c.check_count("beta", 4), 'Expected to find "beta" but did not find it'),
    (lambda c: c.check_count("beta", 2, exactly=True), 'Expected to not find "beta" but found it'),
    (lambda c: c.check_count("beta", 2, True).check("delta"), None),
    (lambda c: c.check("alpha").check_next("gamma"), None), (lambda c: c.check_next("alpha").check_next("beta"), "alpha|beta"),
    (lambda c: c.check("alpha").check_same("beta"), None), (lambda c: c.check("alpha").check_same("gamma"), "gamma|alpha"),
    (lambda c: c.check_not("zeta"), None),
    (lambda c: c.check("alpha").check_not("gamma").check("delta"), r"(?s)found it\nalpha beta\ngamma beta delta\n~~~~~ <--- HERE\n"),
    (lambda c: c.check_not("alpha").check("delta"), 'Expected to not find "alpha" but found it'),
    (lambda c: c.check_dag("delta").check_dag("alpha"), None), (lambda c: c.check_dag("delta").check_dag("zeta"), 'find "zeta"'),
    (lambda c: c.check_regex("ga.ma"), None), (lambda c: c.check_regex("x+"), r'find regex "x\+" but did not find it'),
    (lambda c: c, "No checks have been added"),
])
def test_texts_are_checked_in_order(lib, checks, words):
    check = checks(lib.testing.FileCheck())
    if words is None:
        check.run(TEXT)
    else:
        with pytest.raises(RuntimeError, match=words):
            check.run(TEXT)


def test_checks_stand_in_comments(lib):
    lib.testing.FileCheck().run("# CHECK: alpha\n# CHECK-NEXT: gamma\n# CHECK-COUNT-2: beta", TEXT)
    with pytest.raises(RuntimeError, match="CHECK: alpha"):
        lib.testing.FileCheck().run("# CHECK: delta\n# CHECK: alpha", TEXT)


def test_what_is_marked_below(lib):
    lib.testing.FileCheck().check_source_highlighted("beta").run("alpha beta\n      ~~~~ <--- HERE")
    with pytest.raises(RuntimeError, match="highlighted but it is not"):
        lib.testing.FileCheck().check_source_highlighted("alpha").run(TEXT)


def test_suites_add_kinds_of_pairs(lib):
    from importlib import import_module
    comparison = import_module(lib.__name__ + ".testing._comparison")

    class Strings(comparison.Pair):
        def __init__(self, actual, expected, *, id=(), **other):
            self._check_inputs_isinstance(actual, expected, cls=str)
            super().__init__(actual, expected, id=id, **other)

        def compare(self):
            if self.actual.lower() != self.expected.lower():
                self._fail(AssertionError, "Texts differ!")
    kinds = (comparison.NonePair, Strings, comparison.NumberPair, comparison.TensorLikePair, comparison.ObjectPair)

    def metas(a, b, **options):
        return comparison.not_close_error_metas(a, b, pair_types=kinds, **options)
    assert not metas([1., "A", {"x": lib.ones(2)}], [1., "a", {"x": lib.ones(2)}])
    found = metas([1., "A", {"x": lib.ones(2)}], [1.5, "b", {"x": lib.zeros(2)}], rtol=0, atol=0.1)
    assert [meta.id for meta in found] == [(0,), (1,), (2, "x")] and all(meta.type is AssertionError for meta in found)
    assert str(found[1].to_error()) == "Texts differ!\n\nThe failure occurred for item [1]" and str(found[0].to_error("mine")) == "mine"
    assert metas(lib.float32, lib.float64)[0].msg.endswith("float32 != " + str(lib.float64))
    with pytest.raises(AssertionError, match="length of the sequences mismatch"):
        metas([1], [1, 2])
    with pytest.raises(comparison.UnsupportedInputs):
        comparison.BooleanPair(1, 2, id=())
    assert comparison.NumberPair(0, 0.).rtol == 1e-7


def test_mappings_whose_keys_have_no_order(lib):
    a, b = lib.ones(2), lib.zeros(2)
    lib.testing.assert_close({a: lib.ones(1), b: lib.ones(2)}, {a: lib.ones(1), b: lib.ones(2)})
    with pytest.raises(AssertionError, match="not close"):
        lib.testing.assert_close({a: lib.ones(1), b: lib.ones(2)}, {a: lib.ones(1), b: lib.zeros(2)})


def test_tensors_without_strides_are_compared_by_their_parts(both):
    tede, torch = both

    def coo(lib, indices, values, size=(2, 2)):
        return lib.sparse_coo_tensor(indices, values, size=size)

    def compressed(lib, layout, rows, columns, values, size=(2, 2)):
        return lib.sparse_compressed_tensor(lib.tensor(rows), lib.tensor(columns), lib.tensor(values), size=size, layout=getattr(lib, "sparse_" + layout))
    cases = [lambda t: (t.ones(2, 3, 4).to_sparse(), t.ones(2, 3, 4).to_sparse(2)),
             lambda t: (coo(t, [[0, 1], [1, 0]], [1, 2]), coo(t, [[0, 1, 1], [1, 0, 0]], [1, 1, 1])),
             lambda t: (coo(t, [[0, 1], [1, 0]], [1, 2]), coo(t, [[0, 1], [1, 1]], [1, 2])),
             lambda t: (coo(t, [[0, 1], [1, 0]], [1., 2.]), coo(t, [[0, 1], [1, 0]], [1., 3.])),
             lambda t: (t.eye(2).to_sparse_csr(), t.ones(2, 2).to_sparse_csr())]
    for layout in ("csr", "csc"):
        cases += [lambda t, layout=layout: (compressed(t, layout, [0, 1, 2], [0, 1], [1, 2]), compressed(t, layout, [0, 1, 2], [0, 0], [1, 2])),
                  lambda t, layout=layout: (compressed(t, layout, [0, 1, 2], [0, 1], [1, 2]), compressed(t, layout, [0, 2, 2], [0, 1], [1, 2])),
                  lambda t, layout=layout: (compressed(t, layout, [0, 1, 2], [0, 1], [1, 2]), compressed(t, layout, [0, 1, 2], [0, 1], [1, 3]))]
    for layout in ("bsr", "bsc"):
        cases += [lambda t, layout=layout: (compressed(t, layout, [0, 1, 2], [0, 1], [[[1]], [[2]]]), compressed(t, layout, [0, 1, 2], [0, 0], [[[1]], [[2]]])),
                  lambda t, layout=layout: (compressed(t, layout, [0, 1, 2], [0, 1], [[[1]], [[2]]]), compressed(t, layout, [0, 1, 2], [0, 1], [[[1]], [[3]]]))]
    for case in cases:
        assert failure(tede, *case(tede)) == failure(torch, *case(torch))
    for lib in both:
        indices = lib.tensor([0, 1, 2]), lib.tensor([0, 1])
        narrow = (x.to(lib.int32) for x in indices)
        lib.testing.assert_close(lib.sparse_csr_tensor(*indices, lib.ones(2)), lib.sparse_csr_tensor(*narrow, lib.ones(2)))
        lib.testing.assert_close(lib.eye(2), lib.eye(2).to_sparse(), check_layout=False)


def test_whether_and_how_both_are_quantized(lib):
    x = lib.tensor([1.])
    whole = lib.quantize_per_tensor(x, scale=1., zero_point=0, dtype=lib.qint32)
    channels = lib.quantize_per_channel(x, lib.tensor([1.]), lib.tensor([0]), 0, lib.qint32)
    for actual, expected, words in ((x, whole, "is_quantized"), (whole, channels, "qscheme()")):
        with pytest.raises(AssertionError) as info:
            lib.testing.assert_close(actual, expected)
        assert f"attribute '{words}'" in str(info.value)
    lib.testing.assert_close(whole, whole.clone())


def test_errors_of_a_pair_itself_are_no_mismatch(lib, monkeypatch):
    pair = lib.testing._comparison.TensorLikePair

    def broken(*args, **kwargs):
        raise KeyError("broken")
    for name in ("compare", "__init__"):
        with monkeypatch.context() as patch:
            patch.setattr(pair, name, broken)
            with pytest.raises(RuntimeError, match="unexpected exception") as info:
                lib.testing.assert_close(lib.ones(1), lib.ones(1))
            assert isinstance(info.value.__cause__, KeyError)


def test_bounds_of_make_tensor(both):
    made = []
    for lib in both:
        make = lib.testing.make_tensor
        for dtype in ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"):
            dtype = getattr(lib, dtype)
            limits = lib.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else lib.iinfo(dtype) if dtype != lib.bool else None
            low, high = (int(limits.min), int(limits.max)) if limits else (0, 1)
            for bounds in ((4 * low, 2 * low) if low else (-2, -1), (2 * high, 4 * high)):
                with pytest.raises(ValueError, match="only supports"):
                    make(2, dtype=dtype, device="cpu", low=bounds[0], high=bounds[1])
        assert not make(9, dtype=lib.bool, device="cpu", low=-.5, high=.5).any() and not make(9, dtype=lib.int8, device="cpu", low=-.5, high=.5).any()
        for dtype, value in ((lib.float32, 2), (lib.complex64, 2 + 2j)):
            with pytest.warns(FutureWarning, match="low==high"):
                assert (make(3, dtype=dtype, device="cpu", low=2, high=2) == value).all()
        with pytest.raises(ValueError, match="must be less"):
            make(3, dtype=lib.int32, device="cpu", low=2, high=2)
        lib.manual_seed(3)
        assert make(9, dtype=lib.float32, device="cpu", low=-lib.inf, high=lib.inf).isfinite().all()
        made.append([make(4, dtype=getattr(lib, dtype), device="cpu").float().tolist() for dtype in ("float8_e5m2", "uint8", "uint16", "int64")])
    assert made[0] == made[1]
