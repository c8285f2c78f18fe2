"""autograd.backward and autograd.grad: backward passes to the leaves, or to given tensors."""
from tede import _C
from tede._C import Tensor
from tede._override import handle_torch_function, has_torch_function


class _VariableMeta(type(Tensor)):
    def __instancecheck__(cls, x):
        return isinstance(x, Tensor)

    def __call__(cls, data=None, requires_grad=False, volatile=False, **ignored):
        if volatile:
            import warnings
            warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2)
        if data is None:
            data = _C._functions["empty"](0)
        return data.detach().requires_grad_() if requires_grad else data


class Variable(Tensor, metaclass=_VariableMeta):
    """The old name of tensors that take part in gradients: every tensor is one, and ``Variable(x)`` is x.

    >>> tede.autograd.Variable(tede.ones(1), requires_grad=True)
    tensor([1.], requires_grad=True)
    """
    __module__ = "tede.autograd"

    class _execution_engine:
        """What programs ask of the engine."""
        queue_callback = staticmethod(_C._queue_callback)


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) and not hasattr(x, "ownership_token") else (x,)


def _sequence(x):
    """A tuple of one or several; what is neither a tensor nor a sequence is an error."""
    if isinstance(x, (Tensor, tuple, list)) or hasattr(x, "ownership_token") or hasattr(x, "__torch_function__"):
        return _tuple(x)
    return tuple(x)


def _tensors(items):
    """Edges of the graph (graph.GradientEdge) become tensors that stand for them."""
    return tuple(_C._edge_tensor(x.node, x.output_nr) if hasattr(x, "ownership_token") else x for x in items)


def _gradients(outputs, gradients):
    """One per output: a tensor or None."""
    if gradients is None:
        return (None,) * len(outputs)
    gradients = _sequence(gradients)
    if len(gradients) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    for gradient in gradients:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    return gradients


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph: bool = False, grad_variables=None,
             inputs=None) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves that they were computed from, or of `inputs` only.

        tensors: one, or several.
        grad_tensors: what they are multiplied by, in their shapes; numbers need none.
        retain_graph: keep what was saved, so that a second pass is possible; else that is a RuntimeError.
        create_graph: record the pass itself, for second derivatives.
        grad_variables: the old name of grad_tensors.
        inputs: tensors whose `.grad` is filled instead of the leaves'.

    >>> x = tede.tensor([1.0, 2.0], requires_grad=True)
    >>> tede.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to backward(). "
                               "Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    tensors = _sequence(tensors)
    if has_torch_function(tensors):
        return handle_torch_function(backward, tensors, tensors, grad_tensors=grad_tensors, retain_graph=retain_graph,
                                     create_graph=create_graph, inputs=inputs)
    tensors = _tensors(tensors)
    if inputs is not None:
        inputs = _tensors(_sequence(inputs))
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    grads = _gradients(tensors, grad_tensors)
    if create_graph:
        _warn_of_cycle()
    retain_graph = create_graph if retain_graph is None else retain_graph
    _C._backward(tensors, grads, retain_graph, create_graph, inputs)


def _warn_of_cycle(warned=[]):  # noqa: B006
    """Once per process, or each time if the program wants that."""
    from tede import is_warn_always_enabled
    if warned and not is_warn_always_enabled():
        return
    warned[:] = [True]
    import warnings
    warnings.warn("Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
                  "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
                  "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the "
                  "leak.", stacklevel=4)


def _backward_of(x, gradient, retain_graph, create_graph, inputs):
    """x.backward() in its rarer forms."""
    backward(x, gradient, retain_graph, bool(create_graph), inputs=inputs)


def shapes_of(output, gradient, is_grads_batched):
    """The shapes of an output and of its gradient, or of members of a batch of those; of nested tensors, those of the components."""
    if output.is_nested and output.layout is _C.strided:
        if is_grads_batched:
            raise RuntimeError("Batched grads are not supported with Nested Tensor.")
        return output._nested_tensor_size(), gradient._nested_tensor_size()
    return output.shape, gradient.shape[1:] if is_grads_batched else gradient.shape


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph: bool = False, only_inputs: bool = True,
         allow_unused=None, is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Tensor, ...]:
    """The gradients of the sum of `outputs`, times `grad_outputs`, with respect to `inputs`, as a tuple. No `.grad` is
    changed.

        outputs, inputs: a tensor, or several.
        grad_outputs: in the outputs' shapes; numbers need none.
        retain_graph: keep what was saved, for another pass.
        create_graph: record the pass itself, so that the result has gradients.
        only_inputs: must be True.
        allow_unused: None for inputs that the outputs don't depend on, else a RuntimeError.
        is_grads_batched: grad_outputs have a batch as first dimension, and so have the results.
        materialize_grads: zeros instead of None.

    >>> x = tede.tensor(3.0, requires_grad=True)
    >>> first, = tede.autograd.grad(x ** 3, x, create_graph=True)
    >>> tede.autograd.grad(first, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    outputs, inputs = _sequence(outputs), _sequence(inputs)
    involved = outputs + inputs
    if has_torch_function(involved):
        return handle_torch_function(grad, involved, outputs, inputs, grad_outputs=grad_outputs, retain_graph=retain_graph,
                                     create_graph=create_graph, only_inputs=only_inputs, allow_unused=allow_unused,
                                     is_grads_batched=is_grads_batched, materialize_grads=materialize_grads)
    if not only_inputs:
        import warnings
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
                      "other parts of the graph, please use torch.autograd.backward.", FutureWarning, stacklevel=2)
    edges = [hasattr(x, "ownership_token") for x in inputs]
    outputs, inputs = _tensors(outputs), _tensors(inputs)
    grads = _gradients(outputs, grad_outputs)
    retain_graph = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        result = _batched_grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused)
    else:
        result = _C._grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused)
    if materialize_grads:
        if any(edge and g is None for edge, g in zip(edges, result)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        zeros_like = _C._functions["zeros_like"]
        result = tuple(zeros_like(x, requires_grad=create_graph) if g is None else g for g, x in zip(result, inputs))
    return result


def _batched_grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused):
    """One pass for a batch of gradients, which is the first dimension of each."""
    from tede.func import vmap
    for i, (output, g) in enumerate(zip(outputs, grads)):
        if g is not None and g.shape[1:] != output.shape:
            raise RuntimeError("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                               "The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                               f"mismatch was detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of "
                               f"{output.shape}. If you only want some tensors in `grad_output` to be considered batched, consider using "
                               "vmap.")
    reached = []

    def one(*gradients):
        found = _C._grad(outputs, gradients, inputs, retain_graph, create_graph, allow_unused)
        reached[:] = [g is not None for g in found]
        return [g for g in found if g is not None]
    found = iter(vmap(one, in_dims=tuple(None if g is None else 0 for g in grads), randomness="different")(*grads))
    return tuple(next(found) if there else None for there in reached)


backward.__module__ = grad.__module__ = "tede.autograd"         # where programs, and the code of traced graphs, find them
