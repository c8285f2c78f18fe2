"""gradcheck: gradients compared with differences of the function's values.

A Jacobian is a matrix here, a row per element of the input, a column per element of the output.  Complex outputs are
checked as two real functions, their real and their imaginary part; the gradient of a real function L of a complex
number is dL/dRe + i dL/dIm.  The fast mode compares one number per pair instead: the Jacobian between two random vectors."""
import itertools
import warnings

import tede
from tede import _C
from tede._C import Tensor
from tede.autograd._passes import grad

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError", "get_numerical_jacobian", "get_analytical_jacobian"]


class GradcheckError(RuntimeError):
    """Raised where gradients and differences disagree."""


def _is_differentiable(x):
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _wanted(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _outputs(func, inputs):
    return [y for y in _as_tuple(func(*inputs)) if _is_differentiable(y)]


# ---- by differences ------------------------------------------------------------------------------------------------

def _values(func, inputs):
    with tede.enable_grad():
        return [y.detach().clone() for y in _outputs(func, inputs)]


def _difference(func, inputs, data, where, step, eps):
    """(f(x + step) - f(x - step)) / 2 eps, for the elements `where` of `data`; one flat tensor per output."""
    before = data[where].clone()
    data[where] = before + step
    above = _values(func, inputs)
    data[where] = before - step
    below = _values(func, inputs)
    data[where] = before
    for a, b in zip(above, below):
        for what, one, other in ("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype):
            if one != other:
                raise AssertionError(f"Expected `func` to return outputs with the same {what} when inputs are perturbed on index "
                                     f"{where}, but got {what}s {one} and {other}.")
    return [((a - b) / (2 * eps)).reshape(-1) for a, b in zip(above, below)]


def _steps(x, eps):
    return (eps, 1j * eps) if x.is_complex() else (eps,)


def _numerical(func, inputs, x, outputs, eps):
    """Per output: matrices of the derivatives along the real and, for complex inputs, the imaginary axis."""
    data = x.data
    rows = [[[] for _ in _steps(x, eps)] for _ in outputs]
    for where in itertools.product(*map(range, x.shape)):
        for axis, step in enumerate(_steps(x, eps)):
            for k, column in enumerate(_difference(func, inputs, data, where, step, eps)):
                rows[k][axis].append(column)
    return [[tede.stack(r) if r else y.new_zeros(0, y.numel()) for r in row] for row, y in zip(rows, outputs)]


def _combine(parts, x, y, imaginary):
    """The gradient with respect to x of y's real or imaginary part, from the derivatives along the axes."""
    if y.is_complex():
        parts = [p.imag if imaginary else p.real for p in parts]
    return tede.complex(parts[0], parts[1]) if x.is_complex() else parts[0]


# ---- by backward ---------------------------------------------------------------------------------------------------

def _vjp(y, x, seed, create_graph=False):
    found, = grad(y, x, seed, retain_graph=True, allow_unused=True, create_graph=create_graph)
    if found is not None and found.layout is not x.layout:
        raise GradcheckError(f"grad is incorrect layout ({found.layout} is not {x.layout})")
    return found


def _analytical(y, x, unit, check_dtypes=False):
    """The matrix, and whether all gradients had the input's shape and dtype."""
    shape_fits = dtype_fits = True
    columns = []
    for j in range(y.numel()):
        seed = tede.zeros_like(y, memory_format=tede.contiguous_format)
        seed.reshape(-1)[j] = unit
        g = _vjp(y, x, seed)
        if g is None:
            g = tede.zeros_like(x)
        shape_fits &= g.shape == x.shape
        dtype_fits &= g.dtype == x.dtype
        columns.append(g.reshape(-1) if g.shape == x.shape else tede.zeros_like(x).reshape(-1))
    matrix = tede.stack(columns, 1) if columns else x.new_zeros(x.numel(), 0)
    return matrix, shape_fits, dtype_fits


def _same(a, b, rtol, atol):
    return a.numel() == 0 or tede.allclose(a.to(b.dtype), b, rtol, atol)


_PARTS = {None: "", False: "While considering the real part of complex outputs only, ",
          True: "While considering the imaginary part of complex outputs only, "}


def _mismatch(analytical, numerical, output, input, imaginary, forward=False):
    text = _PARTS[imaginary] + "Jacobian "
    how = "computed with forward mode " if forward else ""
    return (f"{text}{how}mismatch for output {output} with respect to input {input},\nnumerical:{numerical}\n"
            f"analytical:{analytical}\n")


def _units(y):
    return ((1j, True), (1, False)) if y.is_complex() else ((1, None),)


def _check_again(found, again, o):
    """A second pass of the same gradients must give the first one's results."""
    if found is not None and found.numel() and (found - again).abs().max().item() > o["nondet_tol"]:
        raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                             "different values, although analytical gradient matches numerical gradient.The tolerance for "
                             f"nondeterminism was {o['nondet_tol']}.")


def _check_slow(func, inputs, wanted, outputs, o):
    for i, x in enumerate(wanted):
        numerical = _numerical(func, inputs, x, outputs, o["eps"])
        for k, y in enumerate(outputs):
            for unit, imaginary in _units(y):
                expected = _combine(numerical[k], x, y, imaginary)
                if not y.requires_grad:
                    if (expected.abs() > o["atol"]).any():
                        raise GradcheckError("Numerical gradient for function expected to be zero")
                    continue
                found, shape_fits, dtype_fits = _analytical(y, x, unit)
                if not shape_fits:
                    raise GradcheckError("Analytical gradient has incorrect size")
                if o["check_grad_dtypes"] and not dtype_fits:
                    raise GradcheckError("Gradient has dtype mismatch")
                if not _same(found, expected, o["rtol"], o["atol"]):
                    raise GradcheckError(_mismatch(found, expected, k, i, imaginary))
                _check_again(found, _analytical(y, x, unit)[0], o)


def _check_fast(func, inputs, wanted, outputs, o):
    generator = _C.Generator().manual_seed(0)

    def direction(like):
        d = tede.rand(like.shape, generator=generator, dtype=tede.float64).to(like.dtype)
        return d / d.norm() if d.numel() else d
    v = [direction(y) for y in outputs]
    for i, x in enumerate(wanted):
        u = direction(x)
        rows = [_difference(func, inputs, x.data, ..., step * u, o["eps"]) for step in _steps(x, o["eps"])]
        for k, y in enumerate(outputs):
            for unit, imaginary in _units(y):
                parts = [(v[k].reshape(-1) * r[k]).sum() for r in rows]
                parts = [p.imag if imaginary else p.real for p in parts] if y.is_complex() else parts
                expected = complex(*[p.item() for p in parts]) if x.is_complex() else parts[0].item()
                if not y.requires_grad:
                    if abs(expected) > o["atol"]:
                        raise GradcheckError("Numerical gradient for function expected to be zero")
                    continue
                g = _vjp(y, x, v[k] * unit)
                found = 0.0 if g is None else (g * u).sum().item()
                # Scaled like a whole column: the vectors have length one.
                scale = max(x.numel() * y.numel(), 1) ** 0.5
                if not abs(found - expected) <= o["atol"] * scale + o["rtol"] * abs(expected):
                    text = _mismatch(found, expected, k, i, imaginary)
                    try:
                        _check_slow(func, inputs, wanted, outputs, o)
                    except GradcheckError as error:
                        text += ("\nThe above quantities relating the numerical and analytical jacobians are computed in fast "
                                 f"mode. The full ones:\n{error}")
                    raise GradcheckError(text)
                _check_again(g, _vjp(y, x, v[k] * unit), o)


# ---- further checks ------------------------------------------------------------------------------------------------

def _check_forward(func, inputs, wanted, o):
    from tede.autograd import forward_ad
    where = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    outputs = _values(func, inputs)
    for number, (at, x) in enumerate(zip(where, wanted)):
        numerical = _numerical(func, inputs, x, outputs, o["eps"])
        for axis, unit in enumerate((1, 1j) if x.is_complex() else (1,)):
            rows = [[] for _ in outputs]
            for j in range(x.numel()):
                tangent = tede.zeros_like(x.detach(), memory_format=tede.contiguous_format)
                tangent.reshape(-1)[j] = unit
                with forward_ad.dual_level():
                    args = list(plain)
                    for i in where:             # a tangent for each: func may look at it
                        args[i] = forward_ad.make_dual(plain[i], tangent if i == at else tede.zeros_like(plain[i]))
                    for k, y in enumerate(_outputs(func, args)):
                        value = forward_ad.unpack_dual(y)
                        t = value.tangent
                        rows[k].append((tede.zeros_like(value.primal) if t is None else t).detach().reshape(-1).clone())
            for k, row in enumerate(rows):
                if row and not _same(tede.stack(row), numerical[k][axis], o["rtol"], o["atol"]):
                    raise GradcheckError(_mismatch(tede.stack(row), numerical[k][axis], k, number, None, forward=True))


def _check_undefined_forward(func, inputs):
    """Where an input has no tangent, results' tangents are those of a tangent of zeros."""
    from tede.autograd import forward_ad
    where = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    directions = {i: tede.rand_like(plain[i]) for i in where}
    with forward_ad.dual_level():
        def tangents(at, zeros):
            args = list(plain)
            for i in where:
                if i != at:
                    args[i] = forward_ad.make_dual(plain[i], directions[i])
                elif zeros:
                    args[i] = forward_ad.make_dual(plain[i], tede.zeros_like(plain[i]))
            return [forward_ad.unpack_dual(y).tangent for y in _outputs(func, args)]
        for at in where:
            for k, (of_zeros, of_none) in enumerate(zip(tangents(at, True), tangents(at, False))):
                if of_zeros is not None and of_none is not None and not tede.allclose(of_zeros, of_none):
                    raise GradcheckError(f"Mismatch in tangent values for output with index: {k} when input: {inputs[at]} has an undefined "
                                         f"tangent value.  Got:{of_none} but expected: {of_zeros}")


def _check_batched_forward(func, inputs):
    """Tangents of a batch of directions at once are those of one direction after another."""
    from tede.autograd import forward_ad
    plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    where = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    for number, at in enumerate(where):
        directions = [tede.randn_like(plain[at]) for _ in range(2)]

        def tangents(direction):
            args = list(plain)
            with forward_ad.dual_level():
                args[at] = forward_ad.make_dual(plain[at].detach(), direction)
                pairs = [forward_ad.unpack_dual(y) for y in _outputs(func, args)]
                return tuple(tede.zeros_like(p.primal) if p.tangent is None else p.tangent for p in pairs)

        one_by_one = [tangents(d) for d in directions]
        try:
            batched = tede._vmap_internals._vmap(tangents)(tede.stack(directions))
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\n\ngradcheck failed while testing batched "
                                 "gradient computation with forward-mode AD.\nIt is tested where both `check_batched_forward_grad=True` "
                                 "and `check_forward_ad=True`.") from error
        for k, together in enumerate(batched):
            for b, alone in enumerate(one_by_one):
                if not tede.allclose(together[b], alone[k]):
                    raise GradcheckError(f"For output {k} and input {number}: the tangents of a batch of directions "
                                         f"are {together[b]} where those of one direction are {alone[k]}")


def _check_layouts(func, inputs):
    """Before they are checked by their values: gradients have as many sparse dimensions as their inputs."""
    live = [y for y in _outputs(func, inputs) if y.requires_grad]
    wanted = _wanted(inputs)
    if live:
        for g, x in zip(grad(live, wanted, [tede.zeros_like(y) for y in live], allow_unused=True), wanted):
            if g is None or not g.is_sparse or not x.is_sparse:
                continue
            for what in ("sparse_dim", "dense_dim"):
                found, expected = getattr(g, what)(), getattr(x, what)()
                if found != expected:
                    raise GradcheckError(f"grad is sparse tensor, but has incorrect {what} {found}, expected {expected}")


def _check_grad_output(outputs, wanted):
    """Gradients of zero are zeros of the right kind."""
    live = [y for y in outputs if y.requires_grad]
    gradients = grad(live, wanted, [tede.zeros_like(y) for y in live], retain_graph=True, allow_unused=True)
    for g, x in zip(gradients, wanted):
        if g is None:
            continue
        if not g.eq(0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.device != x.device:
            raise GradcheckError("grad is incorrect device")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _undefined(outputs):
    """The outputs passed on by a node whose gradient is undefined."""
    from tede.autograd.function import Function

    class Undefined(Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.set_materialize_grads(False)
            return tuple(x.clone() for x in xs)

        @staticmethod
        def backward(ctx, *gs):
            return (None,) * len(gs)
    return Undefined.apply(*outputs)


def _warn_of_undefined():
    warnings.warn("Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break "
                  "existing callers of this function. If this is true for you, you can call this function with "
                  '"check_undefined_grad=False" to disable the feature', stacklevel=5)


def _check_undefined(func, inputs, wanted):
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    if not outputs:
        return

    def run(which):
        found = [x for x in outputs]
        hidden = _undefined(found)
        mixed = [hidden[i] if i in which else y for i, y in enumerate(found)]
        try:
            gradients = grad(mixed, wanted, [tede.zeros_like(y) for y in mixed], retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError("Expected backward function to handle undefined output grads. Please look at 'Notes about "
                                 "undefined output gradients' in 'tools/autograd/derivatives.yaml'") from error
        for g in gradients:
            if g is not None and not g.eq(0).all():
                _warn_of_undefined()
                raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined or "
                                     "zero. Please look at 'Notes about undefined output gradients' in "
                                     "'tools/autograd/derivatives.yaml'")
    everything = set(range(len(outputs)))
    run(everything)
    if len(outputs) > 1:
        for i in everything:
            run({i})
            run(everything - {i})


def _check_batched(func, inputs, wanted, outputs):
    for y in outputs:
        if not y.requires_grad:
            continue
        seeds = [tede.randn_like(y) for _ in range(2)]
        one_by_one = [grad(y, wanted, s, retain_graph=True, allow_unused=True) for s in seeds]
        try:
            batched = grad(y, wanted, tede.stack(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\ngradcheck or gradgradcheck failed while "
                                 "testing batched gradient computation.") from error
        finally:
            for x in wanted:
                if x.retains_grad:
                    x.grad = None       # a tensor of the batch, of no use outside
        for k, g in enumerate(batched):
            for b in range(2):
                single = one_by_one[b][k]
                if g is not None and not tede.allclose(g[b], single):
                    raise GradcheckError("gradcheck expects the result of batched gradient computation with "
                                         "check_batched_grad=True to be equal to that of gradients one by one, for output and "
                                         f"input {k}: {g[b]} and {single}")


def _check_inputs(inputs):
    wanted = _wanted(inputs)
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        if x.dtype not in (tede.float64, tede.complex128):
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                          "will likely fail if all the inputs are not of double precision floating point or complex. ",
                          stacklevel=3)
        if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                               "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                               ".contiguous on the input before passing it to gradcheck.")
        x.retain_grad()
    return wanted


def _check(func, inputs, o):
    wanted = _check_inputs(inputs)
    outputs = _outputs(func, inputs)
    if not any(y.requires_grad for y in outputs):
        for x in wanted:
            for parts in _numerical(func, inputs, x, outputs, o["eps"]):
                if any((p.abs() > o["atol"]).any() for p in parts):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    if o["check_backward_ad"]:
        (_check_fast if o["fast_mode"] else _check_slow)(func, inputs, wanted, outputs, o)
    if o["check_forward_ad"]:
        _check_forward(func, inputs, wanted, o)
        if o["check_undefined_grad"]:
            _check_undefined_forward(func, inputs)
        if o["check_batched_forward_grad"]:
            _check_batched_forward(func, inputs)
    if not o["check_backward_ad"]:
        return
    if o["check_batched_grad"]:
        _check_batched(func, inputs, wanted, outputs)
    _check_grad_output(outputs, wanted)
    if o["check_undefined_grad"]:
        _check_undefined(func, inputs, wanted)


def _without_mkldnn(func, inputs):
    """(function of strided tensors, those): elements of the mkldnn layout can't be changed one by one."""
    of_layout = [isinstance(x, tede.Tensor) and x.is_mkldnn for x in inputs]

    def converted(*inputs):
        results = func(*(x.to_mkldnn() if is_mkldnn else x for x, is_mkldnn in zip(inputs, of_layout)))
        if any(isinstance(y, tede.Tensor) and y.is_mkldnn for y in _as_tuple(results)):
            raise ValueError("MKLDNN output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of fn for gradcheck.")
        return results
    return converted, tuple(x.detach().to_dense().requires_grad_(x.requires_grad) if is_mkldnn else x for x, is_mkldnn in zip(inputs, of_layout))


def gradcheck(func, inputs, *, eps: float = 1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False,
              masked=None) -> bool:
    """Whether the gradients of `func` with respect to the inputs that require one agree with differences of its values;
    True, or a GradcheckError that says where not. In float64.

        func: of the inputs; gives a tensor or several.
        inputs: a tensor, or a tuple.
        eps: the differences' step.
        atol, rtol: how near gradients must be.
        raise_exception: False gives False instead.
        nondet_tol: by how much a second pass may differ.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, check_batched_forward_grad: what is tried beside
            that.
        check_forward_ad, check_backward_ad: which modes.
        fast_mode: along random directions only.
        masked: of sparse inputs, only what they hold counts.

    >>> tede.autograd.gradcheck(tede.sin, tede.ones(2, dtype=tede.float64, requires_grad=True))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    options = dict(locals())
    if any(isinstance(x, tede.Tensor) and x.is_mkldnn for x in _as_tuple(inputs)):
        del options["func"], options["inputs"]
        return gradcheck(*_without_mkldnn(func, _as_tuple(inputs)), **options)
    if any(isinstance(x, tede.Tensor) and x.requires_grad and x.layout is not tede.strided for x in _as_tuple(inputs)):
        from tede.sparse import as_sparse_gradcheck
        if any(y.layout is not tede.strided for y in _outputs(func, _as_tuple(inputs))):
            raise ValueError("Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of fn "
                             "for gradcheck.")
        try:
            _check_layouts(func, _as_tuple(inputs))
        except GradcheckError:
            if raise_exception:
                raise
            return False
        del options["func"], options["inputs"]
        return as_sparse_gradcheck(gradcheck)(func, inputs, **{**options, "masked": bool(masked)})
    try:
        _check(func, _as_tuple(inputs), options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps: float = 1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
                  check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True,
                  fast_mode=False, masked=False) -> bool:
    """`gradcheck` of the gradients: whether second derivatives agree with differences of the first.

        grad_outputs: what outputs are multiplied by; random if not given.
        gen_non_contig_grad_outputs: with gaps between their elements.

    The others are those of `gradcheck`.

    >>> tede.autograd.gradgradcheck(tede.sin, tede.ones(2, dtype=tede.float64, requires_grad=True))
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        grad_outputs = []
        for y in _outputs(func, inputs):
            g = tede.randn_like(y, memory_format=tede.contiguous_format)
            if gen_non_contig_grad_outputs and g.dim():
                g = tede.stack([g, g], -1)[..., 0]
            grad_outputs.append(g.detach().requires_grad_())
    grad_outputs = _as_tuple(grad_outputs)
    count = len(grad_outputs)

    def first(*args):
        args, seeds = args[:-count], args[-count:]
        args = tuple(x.requires_grad_() if isinstance(x, Tensor) and x.is_leaf and was.requires_grad else x
                     for x, was in zip(args, inputs))
        live = [(y, s) for y, s in zip(_outputs(func, args), seeds) if y.requires_grad]
        wanted = [x for x, was in zip(args, inputs) if isinstance(x, Tensor) and x.requires_grad]
        found = grad([y for y, _ in live], wanted, [s for _, s in live], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)
    return gradcheck(first, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
                     check_batched_grad=check_batched_grad, fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev, masked=masked)


def _warn_of_private(name, grad_out):
    warnings.warn(f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be "
                  "removed in a future version of PyTorch. If you have a specific use for this or feature request for this to be a "
                  "stable API, please file us an issue at https://github.com/pytorch/pytorch/issues/new", FutureWarning, stacklevel=3)
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. torch.autograd.gradcheck.get_numerical_jacobian and "
                         "get_analytical_jacobian no longer support values of grad_out != 1.0.")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """Kept for old programs: the matrices of the first output."""
    _warn_of_private("get_numerical_jacobian", grad_out)
    inputs = _as_tuple(inputs)
    outputs = _values(lambda *a: fn(a), inputs)
    return [_numerical(lambda *a: fn(a), inputs, x, outputs, eps)[0][0] for x in _wanted(_as_tuple(inputs if target is None else target))]


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """Kept for old programs: the matrices, whether they come out again, and whether shapes and dtypes fit."""
    _warn_of_private("get_analytical_jacobian", grad_out)
    found = [_analytical(output, x, grad_out) for x in _wanted(_as_tuple(inputs))]
    again = [_analytical(output, x, grad_out)[0] for x in _wanted(_as_tuple(inputs))]
    reentrant = all((a - b[0]).abs().max().item() <= nondet_tol for a, b in zip(again, found) if a.numel())
    return (tuple(f[0] for f in found), reentrant, all(f[1] for f in found), all(f[2] for f in found))
