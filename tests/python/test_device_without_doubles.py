"""A device with programs that can't compute in double: float64 lies there, and what is asked of it is the CPU's, without an error."""
import subprocess
import sys
import textwrap


CODE = """
    import sys, tede
    tede.load_device(sys.argv[1])
    F, f64 = tede.nn.functional, tede.float64
    here = tede.arange(1, 49, dtype=f64).reshape(2, 4, 6) / 17
    there = here.to("toyc")

    # The same numbers as on the CPU, by the CPU.
    calls = {
        "add": lambda x: x + 1.5, "mixed": lambda x: x.float() + x, "exp": tede.exp, "where": lambda x: tede.where(x > 1, x, -x),
        "sum": tede.sum,
        "float sum": lambda x: x.float().sum(dtype=f64), "var": lambda x: tede.var(x, 1), "amax": lambda x: x.amax(-1),
        "argmax": lambda x: x.argmax(1),
        "mean": lambda x: x.mean(0), "cumsum": lambda x: x.cumsum(1), "sort": lambda x: x.sort(-1, descending=True),
        "topk": lambda x: x.topk(3),
        "median": lambda x: x.median(), "unique": tede.unique, "softmax": lambda x: x.softmax(-1), "matmul": lambda x: x @ x.mT,
        "linear": lambda x: F.linear(x, x[0]), "conv": lambda x: F.conv1d(x, x),
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
        "layer_norm": lambda x: F.layer_norm(x, (6,)), "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
        "pool": lambda x: F.max_pool1d(x, 2),
        "avg_pool": lambda x: F.avg_pool1d(x, 2), "nll": lambda x: F.nll_loss(x[0], tede.arange(4, device=x.device)),
        "index": lambda x: x[:, [2, 0]],
        "cross_entropy": lambda x: F.cross_entropy(x[0], tede.arange(4, device=x.device)),
        "scatter": lambda x: x[0].scatter_add(0, tede.zeros(2, 6, dtype=tede.long, device=x.device), x[1]),
        "embedding": lambda x: F.embedding(tede.tensor([1, 0], device=x.device), x[0]), "triu": tede.triu,
        "copy": lambda x: x.mT.contiguous(), "to": lambda x: x.to(tede.bfloat16),
        "arange": lambda x: tede.arange(1, 2, 0.25, dtype=f64, device=x.device),
        "linspace": lambda x: tede.linspace(0, 1, 5, dtype=f64, device=x.device),
        "searchsorted": lambda x: tede.searchsorted(x[0, 0], x), "histc": lambda x: tede.histc(x, 4),
        "rnn": lambda x: tede.nn.functional.gelu(x), "prod": lambda x: x.prod(-1),
        "dropout off": lambda x: F.dropout(x, 0.5, training=False), "fill": lambda x: tede.full_like(x, 2.5),
        "logsumexp": lambda x: x.logsumexp(1),
        "frexp": tede.frexp, "segments": lambda x: tede.segment_reduce(x, "sum", lengths=tede.tensor([2, 0], device=x.device)),
        "lstsq": lambda x: tede.linalg.lstsq(x.mT, x.mT, driver="gelsd")[0], "pinv": lambda x: tede.linalg.pinv(tede.eye(3, device=x.device) + x[0, 0, 0].float()),
        "rank": lambda x: tede.linalg.matrix_rank(x.float(), tol=0.1), "matrix_exp": lambda x: tede.linalg.matrix_exp(x[..., :4] / 9),
        "complex": lambda x: x.to(tede.complex128).index_reduce(0, tede.tensor([1, 1], device=x.device), x.to(tede.complex128), "prod"),
    }
    leaves = tede.utils._pytree.tree_leaves
    for name, call in calls.items():
        for a, b in zip(leaves(call(here)), leaves(call(there)), strict=True):
            assert b.device.type == "toyc" and a.dtype == b.dtype, name
            tede.testing.assert_close(b.cpu(), a, msg=name)

    # Drawn numbers.
    draws = {
        "dropout": lambda x: F.dropout(x, 0.5), "feature": lambda x: F.dropout1d(x, 0.5), "alpha": lambda x: F.alpha_dropout(x, 0.5),
        "native": lambda x: tede.native_dropout(x, 0.5, True)[0],
        "rand": lambda x: tede.rand(8, dtype=f64, device="toyc"), "uniform": lambda x: x.clone().uniform_(),
        "normal": lambda x: x.clone().normal_(), "bernoulli": lambda x: tede.bernoulli(x / 9),
        "of float": lambda x: x.clone().bernoulli_(x.float() / 9), "by double": lambda x: x.float().bernoulli_(x / 9),
        "exponential": lambda x: x.clone().exponential_(),
        "random": lambda x: x.clone().random_(0, 9), "multinomial": lambda x: tede.multinomial(x[0], 3, replacement=True),
        "randperm": lambda x: tede.randperm(9, dtype=f64, device="toyc"),
        "rrelu": lambda x: F.rrelu(x, training=True), "in place": lambda x: F.dropout(x.clone(), 0.5, inplace=True),
        "gumbel": lambda x: F.gumbel_softmax(x),
        "poisson": tede.poisson, "deviations": lambda x: tede.normal(0, x), "float weights": lambda x: tede.multinomial(x[0].float(), 2).double(),
    }
    for name, call in draws.items():
        result = call(there)
        assert result.device.type == "toyc" and (name in ("multinomial",) or result.dtype == (tede.float32 if name == "by double" else f64)), name
        assert bool(result.cpu().isfinite().all()), name
    kept = F.dropout(tede.ones(1000, dtype=f64, device="toyc"), 0.25).cpu()
    assert set(kept.tolist()) == {0, 1 / 0.75} and 650 < int((kept != 0).sum()) < 850
    x = tede.ones(4, 4, dtype=f64, device="toyc", requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert tede.equal(x.grad.cpu(), y.detach().cpu())
    # A step of an optimizer, in double.
    w = tede.nn.Parameter(tede.ones(3, dtype=f64, device="toyc"))
    w.grad = tede.ones_like(w)
    tede.optim.Adam([w], lr=0.5).step()
    assert abs(w[0].item() - 0.5) < 1e-6
    print(tede.toyc.get_device_properties(0).has_float64 if hasattr(tede.toyc,
        "get_device_properties") else False, tede._C._cpu_fallback_count() > 50)
"""


def test_what_is_of_doubles_is_left_to_the_cpu(library):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(CODE), library("toy_device", "-DTOY_PROGRAMS", "-DTOY_WITHOUT_DOUBLES")],
                          capture_output=True, text=True, timeout=300)
    assert done.stdout == "False True\n", (done.stdout, done.stderr[-3000:])
