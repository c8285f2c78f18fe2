"""autograd.Function inside transformed functions.

At a grad or jvp level the Function is applied one level out, and its context at this level sees this level's wrappers.  At
a vmap level its own ``vmap`` says what to do with batches; or, with ``generate_vmap_rule``, forward, setup_context, backward and
jvp are mapped over the batch themselves."""
from collections import namedtuple
from functools import partial

import tede
from tede import _C
from tede._C import Tensor
from tede.autograd import function
from tede.autograd.function import Function
from tede.func._levels import FUNCTIONALIZE, VMAP, flatten, lower
from tede.func._vmap import vmap
from tede.utils import _pytree as tree

VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))
HELP = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
RANDOMNESS = "error", "different", "same", "error"       # the last is of the older entry to vmap


def apply(cls, args, kwargs=None):
    if kwargs:
        cls = _with_keywords(cls, kwargs)
    if getattr(cls, "setup_context", None) is getattr(Function, "setup_context", None):
        raise RuntimeError("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
                           f"override the setup_context staticmethod. {HELP}")
    kind, size, randomness = _C._transform_now()
    if kind == FUNCTIONALIZE:
        return _functional(cls, args)
    if kind != VMAP:
        return _lowered(cls, _C._transform_level()).apply(*args)
    own = getattr(cls, "vmap", None) is not getattr(Function, "vmap", None)
    generated = getattr(cls, "generate_vmap_rule", False)
    if own and generated:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
                           "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
                           f"ambiguity. {HELP}")
    if not own and not generated:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the "
                           f"vmap staticmethod or set generate_vmap_rule=True. {HELP}")
    values, dims, batched = _unwrapped(args)
    if not batched:
        return _C._transform_below(cls.apply, *values)
    if own:
        return _wrapped(*_pair(_C._transform_below(cls.vmap, VmapInfo(size, RANDOMNESS[randomness]), dims, *values)), (args, values, dims))
    return _wrapped(_C._transform_below(_mapped(cls, dims, RANDOMNESS[randomness]).apply, *values), 0)


function.at_level = apply


def _functional(cls, args):
    """At a level of functionalize: the Function of the values, further out, with a forward that is functional itself."""
    from tede._subclasses import functional_tensor as ft
    from tede.func._functionalize import functionalize
    number = _C._transform_level()
    within = type(cls.__name__ + "Generated", (cls,), {"forward": staticmethod(functionalize(cls.forward, remove=ft._removes(number)))})

    def value(x):
        return x.from_functional() if isinstance(x, ft.FunctionalTensor) and x._level == number else x
    values = tree.tree_map(value, args)
    return tree.tree_map_only(Tensor, lambda x: ft._to_functional(x, number), _C._transform_below(within.apply, *values))


def _with_keywords(cls, kwargs):
    """The Function with its arguments by keyword only in place: they are not transformed."""
    if _C._transform_now()[0] == VMAP and any(isinstance(x, Tensor) for x in tree.tree_leaves(kwargs)):
        raise NotImplementedError(f"Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass Tensors to {cls.__name__} "
                                  "by keyword only.")
    names = ["forward"] if cls.vmap is Function.vmap else ["forward", "vmap"]
    return type(cls.__name__, (cls,), {name: staticmethod(partial(getattr(cls, name), **kwargs)) for name in names})


def _unwrapped(args):
    """The arguments one level out, the batch's dimension of each (None: it has none), and whether any has one."""
    flat, spec = tree.tree_flatten(args)
    pairs = [_C._transform_unwrap(x) if isinstance(x, Tensor) else (x, -1) for x in flat]
    return (tree.tree_unflatten([value for value, _ in pairs], spec),
            tree.tree_unflatten([None if dim < 0 else dim for _, dim in pairs], spec), any(dim >= 0 for _, dim in pairs))


def _pair(made):
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError("Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
                           f"with the output. Got a {type(made)} instead")
    return made


def _wrapped(output, out_dims, given=()):
    """Outputs at the level.  given: arguments, what they are one level out, and their dims: what comes back is itself again, so that
    it can be marked as written."""
    same = {(id(value), dim): x for x, value, dim in zip(*(tree.tree_leaves(part, is_leaf=lambda x: x is None) for part in given))
            if isinstance(value, Tensor) and dim is not None}
    flat, spec = flatten(output)
    places = tree._broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise RuntimeError("The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
                           f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
                           f"{tree.tree_flatten(out_dims)[1]} but output has structure {spec}. {HELP}")

    def lifted(x, dim):
        if dim is None or not isinstance(x, Tensor):
            return x
        known = same.get((id(x), dim % x.dim()))
        return _C._transform_wrap(x, dim % x.dim()) if known is None else known
    return tree.tree_unflatten([lifted(x, d) for x, d in zip(flat, places)], spec)


def apply_rule(rule, args, kwargs):
    """An operator's own rule for batches, given to library.register_vmap, at the innermost level."""
    _, size, randomness = _C._transform_now()
    values, dims, _ = _unwrapped(args)
    keywords, _, _ = _unwrapped(kwargs)

    def below():
        return rule(VmapInfo(size, RANDOMNESS[randomness]), dims, *values, **keywords)
    output, out_dims = _pair(_C._transform_below(below))
    return None if output is None else _wrapped(output, out_dims)


def _lowered(cls, number):
    """A Function for one level, whose forward is cls's, applied below."""
    recording = tede.is_grad_enabled()

    def below(*values):
        with tede.set_grad_enabled(recording):
            return cls.apply(*values)

    def forward(*operands):
        values = [lower(x, number) for x in operands]

        def lifted(x):
            if not isinstance(x, Tensor):
                return x
            for operand, value in zip(operands, values):        # returned: as itself, so that it can be marked as written
                if x is value and operand is not value:
                    return operand
            return _C._transform_wrap(x)
        return tree.tree_map(lifted, _C._transform_below(below, *values))
    return type(cls.__name__ + "Generated", (cls,), {"forward": staticmethod(forward), "_tede_lowered": True})


_OWN = ("_pt_reserved_attrs", "_pt_inner_ctx", "_pt_new_saved_tensors")


class CtxWithSavedTensors:
    """A context that has other saved tensors; all else is the inner one's, also what is set here."""
    _pt_reserved_attrs = _OWN

    def __init__(self, ctx, new_saved_tensors):
        taken = [name for name in _OWN if not isinstance(ctx, CtxWithSavedTensors) and hasattr(ctx, name)]
        if taken:
            raise RuntimeError(f"The context of an autograd.Function has {', '.join(taken)}, a name collision with what wraps it: "
                               f"{', '.join(_OWN)} are reserved")
        self._pt_inner_ctx, self._pt_new_saved_tensors = ctx, new_saved_tensors

    @property
    def saved_tensors(self):
        return self._pt_new_saved_tensors

    def __getattr__(self, name):
        return getattr(self._pt_inner_ctx, name)

    def __setattr__(self, name, value):
        if name in _OWN:
            self.__dict__[name] = value
        else:
            setattr(self._pt_inner_ctx, name, value)


def reductify_leaf(grad_input, grad_input_bdim, input_bdim, batch_size, target_shape_without_bdim_to_reduce_to=None):
    """The gradient of an operand from the gradient of its batch, or the other way round: with the batch where the operand has it, summed where it
    has none, and summed to a shape without the batch that the operand was expanded from."""
    if grad_input is None or (grad_input_bdim is None and input_bdim is None):
        return grad_input
    if input_bdim is None:
        return grad_input.sum(grad_input_bdim)
    if grad_input_bdim is None:
        grad_input = grad_input.unsqueeze(input_bdim)
        grad_input = grad_input.expand(*grad_input.shape[:input_bdim], batch_size, *grad_input.shape[input_bdim + 1:])
        grad_input_bdim = input_bdim
    if target_shape_without_bdim_to_reduce_to is None:
        return grad_input.movedim(grad_input_bdim, input_bdim)
    shape = tuple(target_shape_without_bdim_to_reduce_to)
    return vmap(lambda g: g.sum_to_size(shape), grad_input_bdim, input_bdim)(grad_input)


class _Context:
    """What setup_context, backward and jvp of one member see."""
    saved_tensors = saved_for_forward = marked = ()
    materialize_grads = True

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        self.saved_for_forward = tensors

    def set_materialize_grads(self, on):
        self.materialize_grads = on

    def mark_non_differentiable(self, *tensors):
        self.marked = tensors


class _Saved:
    """What the members saved, as tensors of the batch, and where they saved None."""

    def __init__(self, tensors):
        self.present = [x is not None for x in tensors]

    def of_member(self, tensors):
        tensors = iter(tensors)
        return tuple(next(tensors) if present else None for present in self.present)


def _mapped(cls, in_dims, randomness):
    """A Function of batches, from one of members."""

    def forward(*values):
        return vmap(cls.forward, in_dims, randomness=randomness)(*values)

    def setup_context(ctx, inputs, output):
        ctx.member = _Context()
        ctx.shapes = [(x.shape if isinstance(x, Tensor) else None) for x in inputs]
        ctx.needed = [isinstance(x, Tensor) and x.requires_grad for x in inputs]
        marked = []

        def capture(inputs, output):
            member = ctx.member
            cls.setup_context(member, inputs, output)
            marked[:] = [any(x is y for y in member.marked) for x in flatten(output)[0]]
            ctx.for_backward, ctx.for_forward = _Saved(member.saved_tensors), _Saved(member.saved_for_forward)
            return tuple(tuple(x for x in saved if x is not None) for saved in (member.saved_tensors, member.saved_for_forward))
        backward, forward = vmap(capture, (in_dims, 0), randomness=randomness)(inputs, output)
        ctx.save_for_backward(*backward)
        ctx.save_for_forward(*forward)
        ctx.set_materialize_grads(ctx.member.materialize_grads)
        if any(marked):
            ctx.mark_non_differentiable(*[x for x, mark in zip(flatten(output)[0], marked) if mark])

    def jvp(ctx, *tangents):
        there, several = [], []

        def of_member(saved, *tangents):
            ctx.member.saved_tensors = ctx.for_forward.of_member(saved)
            found = cls.jvp(ctx.member, *tangents)
            several[:] = [isinstance(found, tuple)]
            found = found if isinstance(found, tuple) else (found,)
            there[:] = [t is not None for t in found]
            return tuple(t for t in found if t is not None)
        dims = [dim if isinstance(t, Tensor) else None for t, dim in zip(tangents, in_dims)]
        found = iter(vmap(of_member, (0, *dims), randomness=randomness)(tuple(ctx.saved_tensors), *tangents))
        result = tuple(next(found) if present else None for present in there)
        return result if several[0] else result[0]

    def backward(ctx, *grads):
        there = []

        def of_member(saved, *grads):
            ctx.member.saved_tensors = ctx.for_backward.of_member(saved)
            ctx.member.needs_input_grad = tuple(ctx.needed)
            found = cls.backward(ctx.member, *grads)
            found = found if isinstance(found, tuple) else (found,)
            there[:] = [g is not None for g in found]
            return tuple(g for g in found if g is not None)
        found = iter(vmap(of_member, (0, *(None if g is None else 0 for g in grads)), randomness=randomness)(
            tuple(ctx.saved_tensors), *grads))
        result = []
        for present, dim, shape in zip(there, in_dims, ctx.shapes):
            g = next(found) if present else None
            if g is not None:
                g = g.sum(0) if dim is None else g.movedim(0, dim)
                g = g.sum_to_size(shape) if g.shape != shape else g
            result.append(g)
        return tuple(result)
    members = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if cls.jvp is not Function.jvp:
        members["jvp"] = jvp
    members = {name: staticmethod(function) for name, function in members.items()}
    return type(cls.__name__, (Function,), {**members, "generate_vmap_rule": True})
