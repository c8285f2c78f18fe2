"""grad, vjp, jvp, and the transforms made of them: jacrev, jacfwd, hessian, linearize.

Each opens a level (see docs/transforms.md), makes its inputs wrappers of that level, and computes on them with the engine or
with tangents.  The graph is the level's own, so what happens at other levels isn't mixed with it."""
import tede
from tede import _C
from tede._C import Tensor
from tede.autograd import forward_ad
from tede.autograd.function import _dual_levels
from tede.autograd.graph import disable_saved_tensors_hooks
from tede.func._levels import GRAD, JVP, flatten, level, lift, lower, lower_all, lower_aux
from tede.func._vmap import vmap, wraps
from tede.utils import _pytree as tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401


# ---- which arguments ------------------------------------------------------------------------------------------------

def _argnum(argnum, n):
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if -n <= argnum < n:
        return argnum % n
    raise RuntimeError(f"Got argnum={argnum}, but only {n} positional inputs")


def _argnums(argnums, n):
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if isinstance(argnums, int):
        return _argnum(argnums, n)
    argnums = tuple(_argnum(a, n) for a in argnums)
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    if len(set(argnums)) != len(argnums):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return argnums


def _chosen(args, argnums):
    argnums = _argnums(argnums, len(args))
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def _slice_argnums(args, argnums, as_tuple=True):
    """The chosen arguments; one alone in a tuple, too."""
    chosen = _chosen(args, argnums)
    return (chosen,) if as_tuple and isinstance(argnums, int) else chosen


def _replaced(args, argnums, new):
    argnums = _argnums(argnums, len(args))
    args = list(args)
    for i, x in ((argnums, new),) if isinstance(argnums, int) else zip(argnums, new):
        args[i] = x
    return tuple(args)


# ---- reverse mode ---------------------------------------------------------------------------------------------------

def _leaf(x):
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    x = _C._transform_wrap(x)
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    _C._require_grad(x)
    return x


NO_HOOKS = ("torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
            "case.")


def _engine(outputs, inputs, grad_outputs=None, retain_graph=True, create_graph=True):
    """Gradients of outputs; zeros where there is no path from an output to an input."""
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs or (None,) * len(outputs)) if o.requires_grad]
    if not pairs:
        return tuple(tede.zeros_like(x) for x in inputs)
    outputs, grads = zip(*pairs)
    found = _C._grad(outputs, grads, tuple(inputs), retain_graph, create_graph, True)
    return tuple(tede.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _check_outputs(outputs, api):
    if len(outputs) == 1 and outputs[0] is None or not outputs:
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for x in outputs:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(x)}")


def _with_aux(result, api):
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(func: "Callable[..., Any]", argnums: "int | tuple[int, ...]" = 0,
                   has_aux: bool = False) -> "Callable[..., Any]":
    """`grad`, whose result is (gradient, the number that `func` gives).

        argnums, has_aux: as there; with has_aux (gradient, (number, something)).

    >>> tede.func.grad_and_value(lambda x: x ** 2)(tede.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    def gradient_and_value(*args, **kwargs):
        api = "grad_and_value(f)(*args)"
        with disable_saved_tensors_hooks(NO_HOOKS), level(GRAD) as number:
            args = tree.tree_map(lift, args)
            leaves = tree.tree_map(lambda x: _leaf_of(x, number), _chosen(args, argnums))
            output = func(*_replaced(args, argnums, leaves), **tree.tree_map(lift, kwargs))
            aux = None
            if has_aux:
                output, aux = _with_aux(output, api)
            if not isinstance(output, Tensor):
                raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(output)}")
            if output.dim() != 0:
                raise RuntimeError(f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with "
                                   f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            flat, spec = tree.tree_flatten(leaves)
            gradients = tree.tree_unflatten(_engine([output], flat), spec)
            gradients, output = lower_all((gradients, output), number)
            aux = lower_aux(aux, number) if has_aux else None
        return (gradients, (output, aux)) if has_aux else (gradients, output)
    return wraps(func, gradient_and_value)


def _leaf_of(x, number):
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    return _leaf(lower(x, number))


def grad(func: "Callable[..., Any]", argnums: "int | tuple[int, ...]" = 0,
         has_aux: bool = False) -> "Callable[..., Any]":
    """The gradient of `func`, which gives one number, as a function of the same arguments.

        argnums: with respect to which argument, or a tuple of them; each may be a dict or a list of tensors.
        has_aux: func gives (number, something), and the result is (gradient, something).

    Composes with itself and the other transforms: ``grad(grad(f))``, ``vmap(grad(f))``.

    >>> tede.func.grad(tede.sin)(tede.tensor(0.0))
    tensor(1.)
    >>> tede.func.grad(lambda w, x: (w["a"] * x).sum())({"a": tede.ones(2)}, tede.tensor([3.0, 4.0]))
    {'a': tensor([3., 4.])}
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found
    return wraps(func, gradient)


def vjp(func, *primals, has_aux: bool = False) -> "Any":
    """(func(*primals), a function from gradients of that to the tuple of gradients of the primals).

        has_aux: func gives (output, something); then a third result is that.

    >>> value, back = tede.func.vjp(lambda x: x ** 2, tede.tensor(3.0))
    >>> back(tede.tensor(1.0))
    (tensor(6.),)
    """
    return _vjp(func, primals, None, has_aux)


def _vjp(func, args, argnums, has_aux):
    api = "vjp(f, *primals)"
    with disable_saved_tensors_hooks(NO_HOOKS), level(GRAD) as number:
        args = tree.tree_map(lift, args)
        if argnums is None:
            leaves = tree.tree_map(lambda x: _leaf_of(x, number), args)
            output = func(*leaves)
        else:
            leaves = tree.tree_map(lambda x: _leaf_of(x, number), _chosen(args, argnums))
            output = func(*_replaced(args, argnums, leaves))
        aux = None
        if has_aux:
            output, aux = _with_aux(output, api)
            aux = lower_aux(aux, number)
        flat_outputs, output_spec = flatten(output)
        _check_outputs(flat_outputs, api)
        for x in flat_outputs:
            if not (x.is_floating_point() or x.is_complex()):
                raise RuntimeError("vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                                   f"with dtype {x.dtype}")
        flat_leaves, spec = tree.tree_flatten(leaves)
        result = lower_all(output, number)

    def pullback(cotangents, retain_graph=True, create_graph=None):
        flat, cotangent_spec = tree.tree_flatten(cotangents)
        if cotangent_spec != output_spec:
            raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                               f"function. cotangents: {tree.treespec_pprint(cotangent_spec)}, primal output: "
                               f"{tree.treespec_pprint(output_spec)}")
        gradients = _engine([lower(x, number) if not x.requires_grad else x for x in flat_outputs], flat_leaves, flat,
                            retain_graph, tede.is_grad_enabled() if create_graph is None else create_graph)
        return tree.tree_unflatten([_outside(g) for g in gradients], spec)
    return (result, pullback, aux) if has_aux else (result, pullback)


def _outside(x):
    """A wrapper whose level has ended stands for what it wraps."""
    while _C._wrapper_level(x) < 0:
        x = _C._transform_unwrap(x, -1)[0]
    return x


# ---- forward mode ---------------------------------------------------------------------------------------------------

def _check_primals(primals, tangents, api):
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{api}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    flat_primals, primal_spec = tree.tree_flatten(primals)
    flat_tangents, tangent_spec = tree.tree_flatten(tangents)
    if primal_spec != tangent_spec:
        raise RuntimeError(f"{api}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple "
                           "of 3 tensors, tangents also must be. Got primals with structure "
                           f"{primal_spec} and tangents with structure {tangent_spec}")
    for values, name in ((flat_primals, "primals"), (flat_tangents, "tangents")):
        if not values:
            raise RuntimeError(f"{api}: Expected {name} to contain at least one Tensor.")
        for x in values:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{api}: Expected {name} to only contain Tensors, got {type(x)}")
    return flat_primals, flat_tangents, primal_spec


def jvp(func, primals, tangents, *, strict: bool = False, has_aux: bool = False) -> "Any":
    """(func(*primals), its derivative along `tangents`), in forward mode.

        primals, tangents: tuples of tensors in equal shapes.
        strict: a RuntimeError where an output doesn't depend on an input.
        has_aux: func gives (output, something); then a third result is that.

    >>> tede.func.jvp(tede.sin, (tede.tensor(0.0),), (tede.tensor(1.0),))
    (tensor(0.), tensor(1.))
    """
    return _jvp(func, primals, tangents, None, strict, has_aux)


def _jvp(func, args, tangents, argnums, strict=False, has_aux=False):
    """With argnums, tangents are those of the chosen arguments only."""
    api = "jvp(f, primals, tangents)"
    if not isinstance(args, tuple):
        raise RuntimeError(f"{api}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    primals = args if argnums is None else _chosen(args, argnums)
    if argnums is not None and isinstance(argnums, int):
        primals = (primals,)
    flat_primals, flat_tangents, spec = _check_primals(primals, tangents, api)
    with level(JVP) as number:
        duals = tree.tree_unflatten([_C._make_dual(lift(p), lift(t)) for p, t in zip(flat_primals, flat_tangents)], spec)
        if argnums is None:
            output = func(*duals)
        else:
            args = tree.tree_map(lift, args)
            output = func(*_replaced(args, argnums, duals[0] if isinstance(argnums, int) else duals))
        aux = None
        if has_aux:
            output, aux = _with_aux(output, api)
            aux = lower_aux(tree.tree_map(lambda x: _C._unpack_dual(x)[0] if isinstance(x, Tensor) else x, aux), number)
        flat, output_spec = flatten(output)
        _check_outputs(flat, api)
        values, derivatives = [], []
        for x in flat:
            value, tangent = _C._unpack_dual(x)
            if tangent is None and strict:
                raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is "
                                   "not allowed with strict=True.")
            value = lower(value, number)
            values.append(value)
            derivatives.append(tede.zeros_like(value) if tangent is None else lower(tangent, number))
        derivatives = [lower(x, number) for x in derivatives]
    result = tree.tree_unflatten(values, output_spec), tree.tree_unflatten(derivatives, output_spec)
    return (*result, aux) if has_aux else result


def linearize(func, *primals) -> "Any":
    """(func(*primals), the function from tangents to its derivative along them). That function's calls are made anew
    for each tangent; what does not depend on it is not kept.

    >>> value, along = tede.func.linearize(tede.sin, tede.tensor(0.0))
    >>> along(tede.tensor(2.0))
    tensor(2.)
    """
    flat, spec = tree.tree_flatten(primals)
    output = func(*primals)
    kept = tree.tree_unflatten([x.detach() for x in flat], spec)

    def along(*tangents):
        flat_tangents, tangent_spec = tree.tree_flatten(tangents)
        if tangent_spec != spec:
            raise RuntimeError(f"Expected the tangents {tangent_spec} to have the same argspec as the primals {spec}")
        for i, (p, t) in enumerate(zip(flat, flat_tangents)):
            if p.shape != t.shape:
                raise RuntimeError(f"tangent:{i} with shape {t.shape} in flattened pytree doesn't match the shape {p.shape} of the "
                                   "corresponding primal.")
            if p.dtype != t.dtype:
                raise RuntimeError(f"Expected tangent at index {i} in flattened pytree to have dtype {p.dtype}, but got {t.dtype} instead")
        return _linear(func, kept, tangents)
    return output, along


def _linear(func, primals, tangents):
    """jvp's derivative. By the dual level where it is free: func may write to what it captures there, and set requires_grad."""
    if _C._transform_level() or _dual_levels:
        return jvp(func, primals, tangents)[1]
    flat, spec = tree.tree_flatten(primals)
    with forward_ad.dual_level():
        output = func(*tree.tree_unflatten([forward_ad.make_dual(p, t) for p, t in zip(flat, tree.tree_leaves(tangents))], spec))

        def derivative(x):
            tangent = forward_ad.unpack_dual(x).tangent
            return tede.zeros_like(x) if tangent is None else tangent
        return tree.tree_map_only(Tensor, derivative, output)


# ---- Jacobians ------------------------------------------------------------------------------------------------------

def _refuse_complex(api, values, what):
    for i, x in enumerate(tree.tree_leaves(values)):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(f"{api}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}")


def _basis(tensors, start, end):
    """Rows start..end of the unit matrix over all elements of `tensors`, cut into their shapes."""
    parts, at = [], 0
    for x in tensors:
        n = x.numel()
        part = tede.zeros(end - start, n, dtype=x.dtype, device=x.device)
        low, high = max(start, at), min(end, at + n)
        if low < high:
            rows = tede.arange(low, high, device=x.device)
            part[rows - start, rows - at] = 1
        parts.append(part.view(end - start, *x.shape))
        at += n
    return parts


def _chunks(total, chunk_size):
    step = max(1, total if chunk_size is None else min(chunk_size, total))
    return [(i, min(i + step, total)) for i in range(0, total, step)] or [(0, 0)]


def jacrev(func: "Callable[..., Any]", argnums: "int | tuple[int, ...]" = 0, *, has_aux: bool = False, chunk_size=None,
           _preallocate_and_copy=False) -> "Callable[..., Any]":
    """All derivatives of `func`, as a function of the same arguments, in reverse mode: for many inputs and few outputs.

        argnums: with respect to which argument, or a tuple of them.
        has_aux: func gives (output, something), and the result is (derivatives, something).
        chunk_size: how many rows at a time; None is all.

    >>> tede.func.jacrev(lambda x: x ** 2)(tede.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def jacobian(*args):
        _refuse_complex("jacrev", args, "inputs")
        made = _vjp(func, args, argnums, has_aux)
        output, pullback = made[:2]
        flat, spec = tree.tree_flatten(output)
        _refuse_complex("jacrev", output, "outputs")
        sizes = [x.numel() for x in flat]
        rows = []
        for start, end in _chunks(sum(sizes), chunk_size):
            units = tree.tree_unflatten(_basis(flat, start, end), spec)
            if chunk_size == 1:
                units = tree.tree_map(lambda t: t.squeeze(0), units)
                rows.append(tree.tree_map(lambda t: t.unsqueeze(0), pullback(units)))
            else:
                rows.append(vmap(pullback)(units))
        parts = [tree.tree_flatten(r)[0] for r in rows]
        in_spec = tree.tree_flatten(rows[0])[1]
        joined = [p[0] if len(p) == 1 else tede.cat(p) for p in zip(*parts)]       # per input: [all outputs, *input]
        per_output = [tree.tree_unflatten([x.view((*y.shape, *x.shape[1:])) for x in pieces], in_spec)
                      for y, pieces in zip(flat, zip(*(j.split(sizes) for j in joined)))]
        result = tree.tree_unflatten(per_output, spec)
        return (result, made[2]) if has_aux else result
    return wraps(func, jacobian)


def jacfwd(func: "Callable[..., Any]", argnums: "int | tuple[int, ...]" = 0, has_aux: bool = False, *,
           randomness: str = "error") -> "Callable[..., Any]":
    """All derivatives of `func`, as a function of the same arguments, in forward mode: for few inputs and many outputs.

        argnums: with respect to which argument, or a tuple of them.
        has_aux: func gives (output, something), and the result is (derivatives, something).
        randomness: that of `vmap`, in which all directions are computed at once.

    >>> tede.func.jacfwd(lambda x: x ** 2)(tede.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    def jacobian(*args):
        _refuse_complex("jacfwd", args, "inputs")
        primals = _chosen(args, argnums)
        single = isinstance(argnums, int)
        flat, spec = tree.tree_flatten((primals,) if single else primals)
        for x in flat:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jacfwd: Expected inputs to only contain Tensors, got {type(x)}")
        units = _basis(flat, 0, sum(x.numel() for x in flat))

        def column(*tangents):
            made = _jvp(func, args, tree.tree_unflatten(tangents, spec), argnums, has_aux=has_aux)
            return made[1:] if has_aux else made[1]
        results = vmap(column, randomness=randomness)(*units)
        aux = None
        if has_aux:
            results, aux = results
            aux = tree.tree_map(lambda x: x[0], aux)
        _refuse_complex("jacfwd", results, "outputs")
        flat_results, out_spec = tree.tree_flatten(results)
        sizes = [x.numel() for x in flat]
        made = []
        for out in flat_results:            # [all inputs, *output] -> per input [*output, *input]
            columns = [part.movedim(0, -1).reshape((*out.shape[1:], *x.shape)) for part, x in zip(out.split(sizes), flat)]
            columns = tree.tree_unflatten(columns, spec)
            made.append(columns[0] if single else columns)
        result = tree.tree_unflatten(made, out_spec)
        return (result, aux) if has_aux else result
    return wraps(func, jacobian)


def hessian(func: "Callable[..., Any]", argnums: "int | tuple[int, ...]" = 0) -> "Callable[..., Any]":
    """The second derivatives of `func`, as a function of the same arguments: ``jacfwd(jacrev(func))``.

        argnums: with respect to which argument, or a tuple of them.

    >>> tede.func.hessian(lambda x: (x ** 3).sum())(tede.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
