"""gradcheck: gradients compared with differences of the function's values."""
from tede import _C
from tede._C import Tensor
from tede.autograd import grad


class GradcheckError(RuntimeError):
    """Raised where gradients and differences disagree."""


def _tensors(x):
    return [t for t in (x if isinstance(x, (tuple, list)) else (x,)) if isinstance(t, Tensor)]


def _differentiable(x):
    return [t for t in _tensors(x) if t.requires_grad]


def _numerical(function, inputs, x, outputs, eps):
    """d outputs / d x by central differences: one matrix per output, a row per element of x."""
    flat = x.data.reshape(-1) if x.is_contiguous() else None
    if flat is None:
        raise ValueError("gradcheck: inputs must be contiguous")
    rows = [[] for _ in outputs]
    steps = [eps, 1j * eps] if x.is_complex() else [eps]
    for i in range(flat.numel()):
        was = flat[i].item()
        columns = []
        for step in steps:
            sides = []
            for side in (step, -step):
                flat[i] = was + side
                sides.append([y.detach().clone() for y in _tensors(function(*inputs)) if y.is_floating_point() or y.is_complex()])
            flat[i] = was
            columns.append([(a - b) / (2 * eps) for a, b in zip(*sides)])
        for row, *parts in zip(rows, *columns):
            row.append([part.reshape(-1).tolist() for part in parts])
    return rows


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, **ignored):
    """Whether func's gradients with respect to the inputs that require one agree with differences of its values."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = _differentiable(inputs)
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")

    def fail(text):
        if raise_exception:
            raise GradcheckError(text)
        return False
    outputs = [y for y in _tensors(func(*inputs)) if y.is_floating_point() or y.is_complex()]
    live = [y.requires_grad for y in outputs]
    for number, x in enumerate(wanted):
        differences = _numerical(func, inputs, x, outputs, eps)
        for k, y in enumerate(outputs):
            if not live[k]:
                continue
            n = y.numel()
            for j in range(n):
                for unit in ((1, 1j) if y.is_complex() else (1,)):
                    seed = _C._functions["zeros_like"](y)
                    seed.reshape(-1)[j] = unit
                    g, = grad(y, x, seed, retain_graph=True, allow_unused=True)
                    values = [0.0] * x.numel() if g is None else g.reshape(-1).tolist()
                    for i, value in enumerate(values):
                        parts = differences[k][i]
                        # The gradient of a real loss L: dL/dRe + i dL/dIm, with L = Re(conj(unit) * y).
                        expected = [(unit.conjugate() * part[j]).real if isinstance(unit, complex) or y.is_complex()
                                    else part[j] for part in parts]
                        expected = complex(*expected) if x.is_complex() else expected[0]
                        if not abs(value - expected) <= atol + rtol * abs(expected):
                            return fail(f"Jacobian mismatch for output {k} with respect to input {number},\n"
                                        f"numerical: {expected}\nanalytical: {value}\nat element {i} of the input and {j} of "
                                        f"the output")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, **options):
    """gradcheck of the gradients: whether second derivatives agree with differences of the first."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = _differentiable(func(*inputs))
    if grad_outputs is None:
        grad_outputs = [_C._functions["randn_like"](y) for y in outputs]
        for g in grad_outputs:
            g.requires_grad_()
    grad_outputs = _tensors(grad_outputs)
    count = len(inputs)

    def first(*args):
        values = _differentiable(func(*args[:count]))
        return grad(values, _differentiable(args[:count]), list(args[count:]), create_graph=True, allow_unused=True)
    return gradcheck(first, inputs + tuple(grad_outputs), **options)
