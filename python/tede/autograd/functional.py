"""Jacobians, Hessians and products with them, by backward passes: a product from the right is a backward pass through a
backward pass, differentiated by what stands for the left vector."""
import tede
from tede import _C
from tede.autograd import grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x, argument, function):
    if isinstance(x, tuple):
        single = False
    else:
        single, x = True, (x,)
    for i, one in enumerate(x):
        if isinstance(one, _C.Tensor):
            continue
        if single:
            raise TypeError(f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but the given "
                            f"{argument} has type {type(one)}.")
        raise TypeError(f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but the value at "
                        f"index {i} has type {type(one)}.")
    return single, x


def _prepare(inputs, create_graph, need_graph=True):
    """Inputs of our own that require gradients; connected with the caller's if the result will be differentiated."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(need_graph) for x in inputs)


def _finish(result, create_graph):
    if isinstance(result, (tuple, list)):
        return tuple(_finish(x, create_graph) for x in result)
    return result if create_graph or result is None else result.detach()


def _unwrap(results, single):
    return results[0] if single else results


def _check_vector(v, other, single):
    if len(v) != len(other):
        if single:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}.")
    for i, (a, b) in enumerate(zip(v, other)):
        if a.shape != b.shape:
            where = f"Entry {i} in v" if len(other) > 1 else "v"
            raise RuntimeError(f"{where} has invalid size: should be {b.shape} but got {a.shape}.")


def _check_graph(outputs):
    """Under strict, all of these must depend on the inputs."""
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            raise RuntimeError(f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                               "computed in a differentiable manner from the input when running in strict mode.")


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
                  "backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} "
                   "is independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
                   "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
                   "example).",
    "jacobian": "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode when "
                "create_graph=True.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not "
                         "allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}


def _require(gradients, kind, strict):
    for i, g in enumerate(gradients if strict else ()):
        if g is None:
            raise RuntimeError(_INDEPENDENT[kind].format(i))


def _require_graph(gradients, kind, strict, create_graph=True):
    """Under strict, these must depend on the inputs too, if they are to be differentiated further."""
    for i, g in enumerate(gradients if strict and create_graph else ()):
        if not g.requires_grad:
            raise RuntimeError(_INDEPENDENT[kind].format(i))


def _fill(gradients, like):
    return tuple(tede.zeros_like(x) if g is None else g for g, x in zip(gradients, like))


def _derive(outputs, inputs, vectors, create_graph):
    """Gradients of those outputs that have any, None for inputs that none depends on."""
    live = [(y, v) for y, v in zip(outputs, vectors) if y is not None and y.requires_grad]
    if not live:
        return (None,) * len(inputs)
    outputs, vectors = zip(*live)
    return grad(outputs, inputs, vectors, allow_unused=True, create_graph=create_graph, retain_graph=True)


def _vector(v, like, single, name, missing, create_graph):
    """v, checked; ones where it isn't given and `like` is one number, which `missing` says in an error."""
    if v is not None:
        _, v = _as_tuple(v, "v", name)
        v = _prepare(v, create_graph, False)
        _check_vector(v, like, single)
        return v
    if len(like) != 1 or like[0].nelement() != 1:
        raise RuntimeError(f"The vector v can only be None if {missing} a single Tensor with a single element.")
    return (tede.ones_like(like[0]),)


_OF_OUTPUT, _OF_INPUT = "the user-provided function returns", "the input to the user-provided function is"


def vjp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> "Any":
    """(outputs, product of `v` with the Jacobian of `func`): what a backward pass computes.

        v: in the outputs' shapes; not needed for a number.
        create_graph, strict: as for `hessian`.

    >>> tede.autograd.functional.vjp(lambda x: x ** 2, tede.tensor([1.0, 2.0]), tede.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with tede.enable_grad():
        single_in, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph)
        single_out, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "vjp")
        if strict:
            _check_graph(outputs)
        v = _vector(v, outputs, single_out, "vjp", _OF_OUTPUT, create_graph)
    with tede.set_grad_enabled(create_graph or tede.is_grad_enabled()):
        result = _derive(outputs, inputs, v, create_graph)
        _require(result, "back", strict)
        result = _fill(result, inputs)
        _require_graph(result, "jacobian", strict, create_graph)
    return _unwrap(_finish(outputs, create_graph), single_out), _unwrap(_finish(result, create_graph), single_in)


def jvp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> "Any":
    """(outputs, derivative of `func` along `v`): the Jacobian times a vector, by two reverse passes.

        v: in the inputs' shapes; not needed for a number.
        create_graph, strict: as for `hessian`.

    >>> tede.autograd.functional.jvp(lambda x: x ** 2, tede.tensor([1.0, 2.0]), tede.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    with tede.enable_grad():
        single_in, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph)
        v = _vector(v, inputs, single_in, "jvp", _OF_INPUT, create_graph)
        single_out, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "jvp")
        if strict:
            _check_graph(outputs)
        dummies = tuple(tede.zeros_like(y, requires_grad=True) for y in outputs)
        first = _derive(outputs, inputs, dummies, True)
        _require(first, "back", strict)
    with tede.set_grad_enabled(create_graph or tede.is_grad_enabled()):
        result = _derive(first, dummies, v, create_graph)
        _require(result, "back_trick", strict)
        result = _fill(result, outputs)
        _require_graph(result, "jacobian", strict, create_graph)
    return _unwrap(_finish(outputs, create_graph), single_out), _unwrap(_finish(result, create_graph), single_out)


def _scalar_output(func, inputs, name):
    single, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", name)
    if not single or outputs[0].nelement() != 1:
        if not single:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs


def vhp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> "Any":
    """(value, product of `v` with the matrix of second derivatives) of a function that gives one number.

        v: in the inputs' shapes; not needed for a number.
        create_graph, strict: as for `hessian`.

    >>> tede.autograd.functional.vhp(lambda x: (x ** 3).sum(), tede.tensor([1.0, 2.0]), tede.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with tede.enable_grad():
        single_in, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _prepare(inputs, create_graph)
        v = _vector(v, inputs, single_in, "vhp", _OF_INPUT, create_graph)
        outputs = _scalar_output(func, inputs, "vhp")
        if strict:
            _check_graph(outputs)
        jacobian = _derive(outputs, inputs, (tede.ones_like(outputs[0]),), True)
        _require(jacobian, "back", strict)
        _require_graph(jacobian, "double_back", strict)
    with tede.set_grad_enabled(create_graph or tede.is_grad_enabled()):
        result = _derive(jacobian, inputs, v, create_graph)
        _require(result, "double_back", strict)
        result = _fill(result, inputs)
    return _finish(outputs, create_graph)[0], _unwrap(_finish(result, create_graph), single_in)


def hvp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> "Any":
    """(value, product of the matrix of second derivatives with `v`) of a function that gives one number. `vhp` is
    faster.

        v: in the inputs' shapes; not needed for a number.
        create_graph, strict: as for `hessian`.

    >>> tede.autograd.functional.hvp(lambda x: (x ** 3).sum(), tede.tensor([1.0, 2.0]), tede.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with tede.enable_grad():
        single_in, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _prepare(inputs, create_graph)
        v = _vector(v, inputs, single_in, "hvp", _OF_INPUT, create_graph)
        outputs = _scalar_output(func, inputs, "hvp")
        if strict:
            _check_graph(outputs)
        jacobian = _derive(outputs, inputs, (tede.ones_like(outputs[0]),), True)
        _require(jacobian, "back", strict)
        _require_graph(jacobian, "double_back", strict)
        dummies = tuple(tede.zeros_like(x, requires_grad=True) for x in inputs)
        second = _derive(jacobian, inputs, dummies, True)
        _require(second, "double_back", strict)
    with tede.set_grad_enabled(create_graph or tede.is_grad_enabled()):
        result = _derive(second, dummies, v, create_graph)
        _require(result, "double_back_trick", strict)
        result = _fill(result, inputs)
    return _finish(outputs, create_graph)[0], _unwrap(_finish(result, create_graph), single_in)


def _forward_jacobian(func, inputs, outer):
    """Columns of the Jacobian by forward mode."""
    from tede.autograd import forward_ad
    single_in, inputs = _as_tuple(inputs, "inputs", outer)
    single_out, columns, shapes = True, [], None
    for k, x in enumerate(inputs):
        mine = []
        for j in range(x.numel()):
            unit = tede.zeros_like(x).reshape(-1)
            unit[j] = 1
            with forward_ad.dual_level():
                duals = tuple(forward_ad.make_dual(y, unit.view(x.shape) if i == k else tede.zeros_like(y))
                              for i, y in enumerate(y.detach() for y in inputs))
                single_out, outputs = _as_tuple(func(*duals), "outputs of the user-provided function", outer)
                parts = [forward_ad.unpack_dual(y) for y in outputs]
                shapes = [p.primal for p in parts]
                mine.append([tede.zeros_like(p.primal) if p.tangent is None else p.tangent for p in parts])
        columns.append(mine)
    result = tuple(tuple(tede.stack([c[i] for c in columns[k]], -1).view(y.shape + x.shape) for k, x in enumerate(inputs))
                   for i, y in enumerate(shapes))
    return _nest(result, single_out, single_in)


def _construct_standard_basis_for(tensors, tensor_numels):
    """For each tensor rows, one for each element of all: together the identity matrix, a block of columns a tensor."""
    total = sum(tensor_numels)
    blocks, begin = [], 0
    for x, n in zip(tensors, tensor_numels):
        block = x.new_zeros(total, n)
        block.diagonal(-begin).fill_(1)
        blocks.append(block)
        begin += n
    return tuple(blocks)


def _nest(result, single_out, single_in):
    result = tuple(_unwrap(row, single_in) for row in result)
    return _unwrap(result, single_out)


def _check_strategy(create_graph, strict, vectorize, strategy, name):
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more '
                             'outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use '
                             '"reverse-mode".')
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError('torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are '
                                      "not supported together (yet). Please either set `create_graph=False` or "
                                      '`strategy="reverse-mode"`.')
        if strict:
            raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
                               'supported together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
        if not vectorize:
            raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented "
                                      "for `vectorize=True`.")
    if vectorize and strict:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                           "Please either set `strict=False` or `vectorize=False`.")


def jacobian(func, inputs, create_graph: bool = False, strict: bool = False, vectorize=False,
             strategy="reverse-mode") -> "Any":
    """All derivatives of `func`: for each output and input a tensor of ``output.shape + input.shape``. `func.jacrev`
    composes with other transforms.

        inputs: a tensor, or a tuple.
        create_graph, strict: as for `hessian`.
        vectorize: all rows in one batch.
        strategy: "reverse-mode", or "forward-mode" with vectorize.

    >>> tede.autograd.functional.jacobian(lambda x: x ** 2, tede.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy(create_graph, strict, vectorize, strategy, "jacobian")
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, "jacobian")
    with tede.enable_grad():
        single_in, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _prepare(inputs, create_graph)
        single_out, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "jacobian")
        if strict:
            _check_graph(outputs)
        result = []
        for i, y in enumerate(outputs):
            rows = [[] for _ in inputs]
            for j in range(y.numel()):
                one = y.reshape(-1)[j]
                parts = _derive((one,), inputs, (tede.ones_like(one),), create_graph)
                for k, (part, x) in enumerate(zip(parts, inputs)):
                    if part is None:
                        if strict:
                            raise RuntimeError(f"Output {i} of the user-provided function is independent of input {k}. This is "
                                               "not allowed in strict mode.")
                        part = tede.zeros_like(x)
                    elif strict and create_graph and not part.requires_grad:
                        raise RuntimeError("The jacobian of the user-provided function is independent of input "
                                           f"{k}. This is not allowed in strict mode when create_graph=True.")
                    rows[k].append(part)
            result.append(tuple(tede.stack(row, 0).view(y.shape + x.shape) if row else
                                tede.zeros(y.shape + x.shape, dtype=x.dtype) for row, x in zip(rows, inputs)))
        result = _finish(tuple(result), create_graph)
    return _nest(result, single_out, single_in)


def hessian(func, inputs, create_graph: bool = False, strict: bool = False, vectorize=False,
            outer_jacobian_strategy="reverse-mode") -> "Any":
    """The second derivatives of a function that gives one number: of an input, a tensor of ``input.shape +
    input.shape``; of several, a tuple of tuples. `func.hessian` composes with other transforms.

        inputs: a tensor, or a tuple.
        create_graph: record it, for further derivatives.
        strict: a RuntimeError where an output doesn't depend on an input, instead of zeros.
        vectorize: all rows in one batch.
        outer_jacobian_strategy: "reverse-mode", or "forward-mode" with vectorize.

    >>> tede.autograd.functional.hessian(lambda x: (x ** 3).sum(), tede.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    single_in, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def checked(*args):
        single, outputs = _as_tuple(func(*args), "outputs of the user-provided function", "hessian")
        if strict:
            _check_graph(outputs)
        if not single:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if outputs[0].nelement() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return outputs[0].squeeze()

    def first(*args):
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(x.requires_grad_(True) for x in args)
        found = jacobian(checked, args, create_graph=True)
        if strict and any(not x.requires_grad for x in found):
            for i, x in enumerate(found):
                if not x.requires_grad:
                    raise RuntimeError(f"The jacobian of the user-provided function with respect to input {i} is independent of "
                                       "the input. This is not allowed in strict mode. You should ensure that your function is "
                                       "thrice differentiable and that the hessian depends on the inputs.")
        return found
    result = jacobian(first, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize,
                      strategy=outer_jacobian_strategy)
    return result[0][0] if single_in else result
