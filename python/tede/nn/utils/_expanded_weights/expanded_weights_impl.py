"""ExpandedWeight, and the layers' functions that take it.

PyTorch has a formula per function for its gradients by sample. Here one does for all: the function is differentiated as one of a single
sample, and vmap takes that over the batch. What differs by function is where the batch is and what needs care (_LAYERS)."""
import inspect

import tede
from tede import func as transforms
from tede.autograd import Function
from tede.nn import functional as F
from tede.nn._functional import recurrent
from tede.utils import _pytree as pytree

__all__ = ["ExpandedWeight"]


class ExpandedWeight(tede.Tensor):
    """`orig_weight` in a call whose gradients are kept by sample.

    batch_size: how many samples the call has.
    loss_reduction: "sum" or "mean"; with a mean each sample's gradient is multiplied by the batch size.
    batch_first: whether the batch is the first dimension of what layers are given, not the second.
    allow_smaller_batches: a layer may be given the first samples alone; the others get no gradient from it."""

    @staticmethod
    def __new__(cls, orig_weight, batch_size, loss_reduction, batch_first=True, allow_smaller_batches=False):
        if not isinstance(orig_weight, tede.Tensor):
            raise RuntimeError(f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}")
        if not orig_weight.requires_grad:
            raise RuntimeError("Can only build ExpandedWeights objects of tensors that requires_grad")
        return tede.Tensor._make_subclass(cls, orig_weight, True)

    def __init__(self, orig_weight, batch_size, loss_reduction, batch_first=True, allow_smaller_batches=False):
        self.orig_weight, self.batch_size, self.loss_reduction = orig_weight, batch_size, loss_reduction
        self.batch_first, self.allow_smaller_batches = batch_first, allow_smaller_batches

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in _RECURRENT:
            return _run_recurrent(_RECURRENT[func], args)
        if func not in _LAYERS:         # which dimension the batch is depends on the function
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")
        call = _Call(func, args, kwargs or {})
        return _PerSample.apply(call, *call.operands)

    # What layers ask of a weight beside calling functions with it.
    dtype = property(lambda self: self.orig_weight.dtype)
    shape = property(lambda self: self.orig_weight.shape)
    device = property(lambda self: self.orig_weight.device)
    data = property(lambda self: self.orig_weight.data)
    is_cuda = property(lambda self: self.orig_weight.is_cuda)

    def data_ptr(self):
        return self.orig_weight.data_ptr()

    def get_device(self):
        return self.orig_weight.get_device()


def unexpand(x):
    """The parameter of an expanded weight; anything else as it is."""
    return x.orig_weight if isinstance(x, ExpandedWeight) else x


def check_batch(func, args, kwargs):
    """Refuse a call whose input, the first argument, hasn't the batch that its expanded weights are for."""
    input = args[0]
    if isinstance(input, ExpandedWeight):
        raise RuntimeError("Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a Tensor, got "
                           f"{type(input).__name__} in function {func.__name__}")
    if not isinstance(input, tede.Tensor):
        raise RuntimeError("Expanded Weights requires a Tensor as the first input to get the batch dimension, got "
                           f"{type(input).__name__} in function {func.__name__}")
    if input.dim() == 0:
        raise RuntimeError(f"Expanded Weights requires a batch dimension but got an input of size 0 in function {func.__name__}")
    if input.shape[0] == 0:
        raise RuntimeError(f"0 is not a valid batch size for Expanded Weights but got input tensor of {input} in function {func.__name__}")
    weights = [x for x in (*args, *kwargs.values()) if isinstance(x, ExpandedWeight)]
    for weight in weights:
        size = input.shape[0 if weight.batch_first else 1]
        if size > weight.batch_size or size < weight.batch_size and not weight.allow_smaller_batches:
            raise RuntimeError(f"Expected ExpandedWeights to have batch size matching input but got input batch size of {size} with "
                               f"ExpandedWeight of batch size {weight.batch_size}")
        if weight.loss_reduction != weights[0].loss_reduction:
            raise RuntimeError("Expected ExpandedWeights to all have the same loss_reduction argument but got one with "
                               f"{weights[0].loss_reduction} and one with {weight.loss_reduction}")


def unpack_expanded_weight_or_tensor(maybe_expanded_weight, func=lambda x: x):
    """func of an expanded weight's parameter or of a tensor without gradients; None for what isn't a tensor."""
    if isinstance(maybe_expanded_weight, ExpandedWeight):
        return func(maybe_expanded_weight.orig_weight)
    if not isinstance(maybe_expanded_weight, tede.Tensor):
        return None
    if maybe_expanded_weight.requires_grad:
        raise RuntimeError("ExpandedWeights currently does not support a mixture of ExpandedWeight parameters and normal Parameters: "
                           "a weight that takes gradients has to be expanded as the others are")
    return func(maybe_expanded_weight)


def set_grad_sample_if_exists(maybe_expanded_weight, per_sample_grad_fn):
    """Add the gradients by sample that per_sample_grad_fn(parameter) gives to the parameter's `grad_sample`."""
    parameter = unpack_expanded_weight_or_tensor(maybe_expanded_weight)
    if not isinstance(maybe_expanded_weight, ExpandedWeight):
        return
    size, grads = maybe_expanded_weight.batch_size, per_sample_grad_fn(parameter)
    if maybe_expanded_weight.loss_reduction == "mean":
        grads = grads * size
    if grads.shape[0] < size:
        grads = tede.cat([grads, grads.new_zeros(size - grads.shape[0], *grads.shape[1:])])
    before = getattr(parameter, "grad_sample", None)
    parameter.grad_sample = grads if before is None else before + grads


# For each function the least rank of an input with a batch, from the call's other arguments.
_LAYERS = {F.linear: lambda args: 2, F.bilinear: lambda args: 2, F.embedding: lambda args: 2,
           F.conv1d: lambda args: 3, F.conv2d: lambda args: 4, F.conv3d: lambda args: 5,
           F.layer_norm: lambda args: len(args[0]) + 1, F.group_norm: lambda args: 2, F.instance_norm: lambda args: 3}
_RECURRENT = {getattr(place, name): name for name in recurrent.KINDS for place in (tede, recurrent)}
# What the forward pass has changed in place, and a second run leaves alone: rows of too large norms, running averages.
_CHANGES = {F.embedding: lambda arguments: {"max_norm": None},
            F.instance_norm: lambda arguments: {"running_mean": None, "running_var": None} if arguments.get("use_input_stats", True) else {}}


def _run_recurrent(name, args):
    """A recurrent network by its steps, which are linear functions of the samples that last as long."""
    weights = [ExpandedWeight(w.orig_weight, w.batch_size, w.loss_reduction, allow_smaller_batches=True) if isinstance(w, ExpandedWeight) else w
               for w in args[3 if recurrent.is_packed(args) else 2]]
    args = list(args)
    args[3 if recurrent.is_packed(args) else 2] = weights
    return recurrent.plain(name, by_steps=True)(*args)


class _Call:
    """A call of a layer's function: its operands are the tensors among its arguments, of which the first is its input."""

    def __init__(self, function, args, kwargs):
        self.function, self.expanded = function, [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, tede.Tensor)]
        least = _LAYERS[function](args[1:])
        if isinstance(args[0], tede.Tensor) and 0 < args[0].dim() < least:
            raise RuntimeError(f"Expanded Weights: {function.__name__} needs an input with a batch, which has at least {least} dimensions, "
                               f"got one of {args[0].dim()}")
        check_batch(function, args, kwargs)
        self.leaves, self.tree = pytree.tree_flatten((args, kwargs))
        self.at = [i for i, x in enumerate(self.leaves) if isinstance(x, tede.Tensor)]
        self.operands = [unexpand(x) for x in self.expanded]
        self.batch_dim = 0 if all(x.batch_first for x in self.expanded if isinstance(x, ExpandedWeight)) else 1

    def __call__(self, operands, again=False):
        leaves = list(self.leaves)
        for i, x in zip(self.at, operands):
            leaves[i] = x
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        if again and self.function in _CHANGES:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            bound.arguments.update(_CHANGES[self.function](bound.arguments))
            args, kwargs = bound.args, bound.kwargs
        return self.function(*args, **kwargs)

    def _has_batch(self, i):
        """Whether an operand has the batch: the input, and the second of a bilinear function."""
        return i == 0 or i == 1 and self.function is F.bilinear

    def gradients_of_samples(self, operands, grad):
        """A gradient by sample for each operand that takes any."""
        dims = [self.batch_dim if self._has_batch(i) else None for i in range(len(operands))]
        wanted = [i for i, x in enumerate(operands) if x.requires_grad]

        def one(operands, grad):
            def call(*some):
                full = [x if dim is None else x.unsqueeze(dim) for x, dim in zip(operands, dims)]
                for i, x in zip(wanted, some):
                    full[i] = x if dims[i] is None else x.unsqueeze(dims[i])
                return self(full, again=True)
            return transforms.vjp(call, *[operands[i] for i in wanted])[1](grad.unsqueeze(self.batch_dim))
        with tede._C.DisableTorchFunctionSubclass():
            grads = transforms.vmap(one, in_dims=(dims, self.batch_dim), out_dims=tuple(dims[i] or 0 for i in wanted))(
                [x.detach() for x in operands], grad)
        return dict(zip(wanted, grads))


class _PerSample(Function):
    """The function's result. Its input's gradient goes on; the weights' are kept by sample and their `grad` stays as it is."""

    @staticmethod
    def forward(ctx, call, *operands):
        ctx.call = call
        ctx.save_for_backward(*operands)
        with tede._C.DisableTorchFunctionSubclass():
            return call([x.detach() for x in operands])

    @staticmethod
    def backward(ctx, grad):
        call, operands = ctx.call, ctx.saved_tensors
        grads = call.gradients_of_samples(operands, grad)
        for i, weight in enumerate(call.expanded):
            if not call._has_batch(i):
                set_grad_sample_if_exists(weight, lambda _, i=i: grads[i])
        return None, *[grads.get(i) if call._has_batch(i) else None for i in range(len(operands))]
