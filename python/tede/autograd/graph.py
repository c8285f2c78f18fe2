"""autograd.graph: inspection of the gradient graph, and hooks on saved tensors."""
import abc
import threading
from collections import defaultdict, namedtuple
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from tede import _C

__all__ = ["saved_tensors_hooks", "save_on_cpu", "disable_saved_tensors_hooks", "register_multi_grad_hook",
           "allow_mutation_on_saved_tensors", "Node", "GradientEdge", "get_gradient_edge", "increment_version"]


class Node(abc.ABC):
    """A call in the gradient graph, as ``tensor.grad_fn`` gives it: `name()`, `next_functions`, `metadata`,
    `register_hook(fn)`, `register_prehook(fn)`. isinstance and issubclass know the nodes of operators and of Functions.

    >>> x = tede.ones(1, requires_grad=True)
    >>> isinstance((x * 2).grad_fn, tede.autograd.graph.Node)
    True
    """

    @abc.abstractmethod
    def name(self):
        """The name, as MulBackward0."""

    @property
    @abc.abstractmethod
    def next_functions(self):
        """Where its results go: pairs of a node and the number of that node's input."""

    @abc.abstractmethod
    def metadata(self):
        """A dictionary that belongs to the node."""

    @property
    @abc.abstractmethod
    def _input_metadata(self):
        """What its gradients must look like."""

    @abc.abstractmethod
    def register_hook(self, fn):
        """Call fn(grad_inputs, grad_outputs) once it has run; returns a handle with remove()."""

    @abc.abstractmethod
    def register_prehook(self, fn):
        """Call fn(grad_outputs) before it runs; returns a handle with remove()."""

    @classmethod
    def __subclasshook__(cls, subclass):
        if cls is not Node:
            return NotImplemented
        from tede.autograd.function import BackwardCFunction
        return issubclass(subclass, (_C._Node, _C._FunctionContext, BackwardCFunction)) or NotImplemented


# ---- edges ---------------------------------------------------------------------------------------------------------

class GradientEdge(namedtuple("GradientEdge", "node output_nr ownership_token", defaults=(None,))):
    """Where a tensor's gradient goes: `node`, and `output_nr`, which of its results the tensor was. Stands for the
    tensor in `grad` and `backward`.

    >>> x = tede.ones(1, requires_grad=True)
    >>> tede.autograd.graph.get_gradient_edge(x * 2).output_nr
    0
    """


def get_gradient_edge(tensor):
    """The edge of a tensor that requires a gradient; it can stand for the tensor in `grad` and `backward`, without
    keeping its memory.

    >>> x = tede.ones(1, requires_grad=True)
    >>> edge = tede.autograd.graph.get_gradient_edge(x)
    >>> tede.autograd.grad((x * 3).sum(), edge)
    (tensor([3.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node, output = _C._gradient_edge(tensor)
    if node is None:            # a view that was made of a leaf while gradients were off
        raise AssertionError("Expected gradient function to be set")
    return GradientEdge(node, output)


def increment_version(tensor):
    """Count a write to one tensor or several, as an operator that writes in place does: for code that writes by other
    means.

    >>> x = tede.ones(1)
    >>> tede.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for x in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C._increment_version(x)


class _WeakTensorRef:
    """Tells whether a tensor is gone."""

    def __init__(self, tensor):
        self._tensor = ref(tensor)

    def expired(self):
        return self._tensor() is None


# ---- what is saved -------------------------------------------------------------------------------------------------

class saved_tensors_hooks:
    """Within it, what is saved for backward goes through `pack_hook`, which may give anything, and through
    `unpack_hook`, which makes a tensor of that, when it is needed.

    >>> x = tede.ones(2, requires_grad=True)
    >>> with tede.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Within it, what is saved for backward is kept in the CPU's memory, and comes back when it is needed.

        pin_memory: in page-locked memory, from which it comes back while the CPU goes on.
        device_type: whose memory is spared.

    >>> x = tede.ones(2, requires_grad=True)
    >>> with tede.autograd.graph.save_on_cpu():
    ...     y = x.exp().sum()
    >>> y.backward()
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(x):
            if x.device.type == "cpu":
                return x.device, x.clone()
            here = _C._functions["empty"](x.size(), dtype=x.dtype, pin_memory=pin_memory and not x.is_sparse)
            return x.device, here.copy_(x)

        def unpack(packed):
            device, x = packed
            return x.to(device, non_blocking=pin_memory)
        super().__init__(pack, unpack)


class disable_saved_tensors_hooks:
    """Within it, `saved_tensors_hooks` are a RuntimeError with this message. Also a decorator.

    >>> with tede.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     pass
    """

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self.before = _C._disable_saved_hooks(self.message)

    def __exit__(self, *exception):
        _C._disable_saved_hooks(self.before)

    def __call__(self, function):
        from tede._modes import _wrap
        return _wrap(function, lambda: type(self)(self.message))


# ---- several gradients at once -------------------------------------------------------------------------------------

class _MultiHandle:
    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Call `fn` once per backward pass: with all gradients when the last is there (None where the pass gives none), or,
    with mode="any", with the first one. The handle's `remove()` takes it out.

    >>> a, b = tede.ones(1, requires_grad=True), tede.ones(1, requires_grad=True)
    >>> handle = tede.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads)))
    >>> (a * b).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        ran = set()                 # passes: they are numbered as they begin, and threads may run some at a time

        def first(gradient):
            task = _C._current_graph_task_id()
            with lock:
                if task in ran:
                    return
                ran.add(task)
                if len(ran) > 1000:
                    ran.intersection_update(sorted(ran)[500:])
            fn(gradient)
        return _MultiHandle(x.register_hook(first) for x in tensors if x.requires_grad)
    count, expected, buffer = {}, {}, {}
    nodes = [_C._gradient_edge(x)[0] for x in tensors]

    def at(index):
        def one(gradient):
            task = _C._current_graph_task_id()
            if task == -1:
                raise AssertionError("expected this hook to be called inside a backward call")
            with lock:
                if task not in count:
                    expected[task] = sum(map(_C._will_engine_execute_node, nodes))
                    count[task], buffer[task] = 0, [None] * len(tensors)
                count[task] += 1
                buffer[task][index] = gradient
                ready = count[task] == expected[task]
                if ready:
                    gradients = buffer.pop(task)
                    del count[task], expected[task]
            if ready:
                fn(gradients)
        return one
    return _MultiHandle(x.register_hook(at(i)) for i, x in enumerate(tensors))


# ---- writes to what was saved --------------------------------------------------------------------------------------

class _Saved:
    """Stands for a saved tensor: the tensor as long as nobody wrote to it, from then on a copy made before the write."""
    __slots__ = ("__weakref__",)


class _MutationContext:
    def __init__(self):
        self.cloned = WeakKeyDictionary()                     # handle -> the copy
        self.original = WeakKeyDictionary()                   # handle -> the tensor
        self.tid_to_weakhandle = WeakValueDictionary()        # a tensor's address and version -> handle
        self.sid_to_tid = defaultdict(set)                    # memory -> the tensors there that are saved

    def clear(self):
        for held in (self.cloned, self.original, self.tid_to_weakhandle, self.sid_to_tid):
            held.clear()


def _key(x):
    return x.untyped_storage().data_ptr(), tuple(x.shape), x.stride(), x.storage_offset(), x.dtype


class allow_mutation_on_saved_tensors:
    """Within it, tensors that were saved for backward may be written to: a copy is made before the first write.

    >>> x = tede.ones(2, requires_grad=True)
    >>> with tede.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = y.sin().sum()
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([0.5403, 0.5403])
    """

    inside = False

    def __init__(self):
        self.context = None

    def __enter__(self):
        from tede.utils._python_dispatch import TorchDispatchMode
        if allow_mutation_on_saved_tensors.inside:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        allow_mutation_on_saved_tensors.inside = True
        context = self.context = _MutationContext()

        def pack(x):
            key = _key(x), x._version
            handle = context.tid_to_weakhandle.get(key)
            if handle is None:
                handle = _Saved()
                context.tid_to_weakhandle[key] = handle
                context.original[handle] = x
                context.sid_to_tid[key[0][0]].add(key)
            return handle

        def unpack(handle):
            error = ("Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was "
                     "originally recorded.")
            if handle in context.cloned:
                return context.cloned[handle]
            if handle not in context.original:
                raise AssertionError(error)
            return context.original[handle]

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                for i, argument in enumerate(function._schema.arguments):
                    if argument.alias_info is not None and argument.alias_info.is_write:
                        x = kwargs.get(argument.name) if argument.is_out else args[i] if i < len(args) else None
                        for one in x if isinstance(x, (tuple, list)) else (x,):
                            if isinstance(one, _C.Tensor):
                                keep(one)
                return function(*args, **kwargs)

        def keep(x):
            for key in context.sid_to_tid.pop(x.untyped_storage().data_ptr(), ()):
                handle = context.tid_to_weakhandle.get(key)
                if handle is not None and handle not in context.cloned:
                    context.cloned[handle] = context.original.pop(handle).clone()
        self.hooks, self.watch = saved_tensors_hooks(pack, unpack), Watch()
        self.hooks.__enter__()
        self.watch.__enter__()
        return context

    def __exit__(self, *exception):
        allow_mutation_on_saved_tensors.inside = False
        self.watch.__exit__(*exception)
        self.hooks.__exit__(*exception)
        self.context.clear()
