"""Checkpointing: computing parts of the forward pass again in the backward pass, instead of keeping what they save.

Without reentrance (use_reentrant=False), saved tensors are replaced by empty holders as the part runs; the first
holder that is unpacked runs the part once more, under hooks that collect what is saved in the same order, and stops as
soon as the last one is there.  With reentrance the part is one node, whose backward runs a separate backward pass."""
import contextlib
import uuid
import warnings
import weakref
from collections import defaultdict

import tede
from tede import _C
from tede.autograd.graph import saved_tensors_hooks
from tede.utils._python_dispatch import TorchDispatchMode

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity",
           "detach_variable", "noop_context_fn", "set_checkpoint_early_stop", "set_checkpoint_debug_enabled",
           "create_selective_checkpoint_contexts", "CheckpointPolicy", "DefaultDeviceType", "get_device_states",
           "set_device_states", "SelectiveCheckpointContext"]

_DEFAULT_DETERMINISM_MODE = "default"
_early_stop = True
_debug = None


class CheckpointError(RuntimeError):
    """The second run saved something else than the first."""


class DefaultDeviceType:
    """The kind of device of a checkpoint without tensors on a device: "cuda" unless it is set.

    >>> tede.utils.checkpoint.DefaultDeviceType.get_device_type()
    'cuda'
    """

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        """Set it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type():
        """What it is."""
        return DefaultDeviceType._default_device_type


def noop_context_fn():
    """Two contexts that do nothing: what `checkpoint` uses unless it is given others.

    >>> len(tede.utils.checkpoint.noop_context_fn())
    2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """The same values as leaves, with the same requires_grad; of a tuple (RuntimeError).

    >>> x = tede.ones(1, requires_grad=True) * 2
    >>> tede.utils.checkpoint.detach_variable((x,))[0].is_leaf
    True
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    out = []
    for x in inputs:
        if isinstance(x, tede.Tensor):
            y = x.detach()
            y.requires_grad = x.requires_grad
            x = y
        out.append(x)
    return tuple(out)


def check_backward_validity(inputs):
    """Warn if none of the inputs requires a gradient: a checkpoint's results wouldn't either.

    >>> tede.utils.checkpoint.check_backward_validity([tede.ones(1, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, tede.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args):
    """(devices, random states) of the accelerators that arguments are on: there are none yet.

    >>> tede.utils.checkpoint.get_device_states(tede.ones(1))
    ([], [])
    """
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """Set accelerators' random states; there are none yet.

    >>> tede.utils.checkpoint.set_device_states([], [])
    """
    if devices:
        raise NotImplementedError("set_device_states: no accelerator is there")


class _State:
    """The random state and the modes of a call, to run it again under."""

    def __init__(self, preserve_rng_state):
        self.rng = tede.get_rng_state() if preserve_rng_state else None
        self.autocast = _autocast_state()

    @contextlib.contextmanager
    def again(self):
        with contextlib.ExitStack() as stack:
            if self.rng is not None:
                stack.enter_context(tede.random.fork_rng(devices=[]))
                tede.set_rng_state(self.rng)
            if self.autocast is not None:
                stack.enter_context(tede.autocast(**self.autocast))
            yield


def _autocast_state():
    if not hasattr(_C, "is_autocast_enabled") and "amp" not in vars(tede):
        return None
    try:
        return {"device_type": "cpu", "enabled": tede.is_autocast_enabled("cpu"), "dtype": tede.get_autocast_dtype("cpu"),
                "cache_enabled": tede.is_autocast_cache_enabled()}
    except AttributeError:
        return None


# ---- one node ------------------------------------------------------------------------------------------------------

class CheckpointFunction(tede.autograd.Function):
    """What `checkpoint(use_reentrant=True)` is made of: a pass within the pass.

    >>> issubclass(tede.utils.checkpoint.CheckpointFunction, tede.autograd.Function)
    True
    """

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.state = _State(preserve_rng_state)
        ctx.inputs, ctx.tensor_indices, tensors = [], [], []
        for i, x in enumerate(args):
            if isinstance(x, tede.Tensor):
                tensors.append(x)
                ctx.tensor_indices.append(i)
                x = None
            ctx.inputs.append(x)
        ctx.save_for_backward(*tensors)
        with tede.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *args):
        if _C._graph_task_has_inputs():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                               "`inputs` parameter to .backward(). To resolve this error, you can either set "
                               "use_reentrant=False, or call .backward() without passing the `inputs` argument.")
        inputs = list(ctx.inputs)
        for i, x in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = x
        with ctx.state.again():
            detached = detach_variable(tuple(inputs))
            with tede.enable_grad():
                outputs = ctx.run_function(*detached)
        if isinstance(outputs, tede.Tensor):
            outputs = (outputs,)
        pairs = [(y, g) for y, g in zip(outputs, args) if isinstance(y, tede.Tensor) and y.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        tede.autograd.backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None) + tuple(x.grad if isinstance(x, tede.Tensor) else None for x in detached)


# ---- holders -------------------------------------------------------------------------------------------------------

class _Handle:
    pass


class _Holder:
    def __init__(self):
        self.handles = {}           # pass -> handle


class _Stop(Exception):
    """The second run has given all that is needed."""


class _Frame:
    """One call of checkpoint(): what its first run saved, in order, and what its second runs saved."""

    def __init__(self, recompute, early_stop, unpack_error, metadata):
        self.recompute = recompute
        self.early_stop = early_stop
        self.unpack_error = unpack_error
        self.metadata = metadata
        self.input_saver = None
        self.holders = []                                   # weak references
        self.counter = defaultdict(int)
        self.recomputed = defaultdict(weakref.WeakKeyDictionary)
        self.is_recomputed = defaultdict(bool)
        self.described = []
        self.finished = False
        self.ignore = False

    def check(self, task):
        if self.ignore:
            return
        if len(self.holders) != self.counter[task]:
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                                  f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\nNumber of tensors "
                                  f"saved during recomputation: {self.counter[task]}.{_HINT}")
        different = []
        for i, (ref, was) in enumerate(zip(self.holders, self.described)):
            holder = ref()
            if holder is None:
                continue
            if task not in holder.handles:
                raise RuntimeError("torch.utils.checkpoint: a saved tensor was not computed again")
            now = self.metadata(self.recomputed[task][holder.handles[task]])
            if was != now:
                different.append(f"tensor at position {i}:\nsaved metadata: {was}\nrecomputed metadata: {now}")
        if different:
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                                  "during the forward pass.\n" + "\n".join(different) + f".{_HINT}")


_HINT = ("\nTip: To see a more detailed error message, either pass `debug=True` to`torch.utils.checkpoint.checkpoint(...)` "
         "or wrap the code block with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` with any "
         "checkpointing function.")


def _describe(x):
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


_METADATA = {"default": _describe, "none": lambda x: None}


def _first_run_hooks(frame):
    def pack(x):
        holder = _Holder()
        frame.holders.append(weakref.ref(holder))
        frame.described.append(frame.metadata(x))
        return holder

    def unpack(holder):
        task = _C._current_graph_task_id()
        if task == -1:
            task = int(uuid.uuid4())
        if not frame.is_recomputed[task]:
            args = frame.input_saver.grad_fn.saved_values()
            try:
                with _second_run_hooks(weakref.ref(frame), task), tede.enable_grad():
                    frame.recompute(*args)
            except _Stop:
                pass
            frame.is_recomputed[task] = True
            frame.check(task)
        handle = holder.handles.get(task)
        if handle is None or handle not in frame.recomputed[task]:
            state = "already unpacked once" if task in holder.handles else "never recomputed"
            raise CheckpointError(f"torch.utils.checkpoint: Unpack is being triggered for a tensor that was {state}. If you are calling "
                                  "ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with "
                                  "details on your use case.")
        found = frame.recomputed[task][handle]
        holder.handles[task] = None
        return found

    if frame.unpack_error is not None:
        plain = unpack

        def unpack(holder):
            try:
                return plain(holder)
            except CheckpointError as error:
                frame.unpack_error(error)
    return saved_tensors_hooks(pack, unpack)


def _second_run_hooks(frame_ref, task):
    def pack(x):
        x = x.detach() if x.requires_grad else x
        frame = frame_ref()
        if frame is None:
            raise RuntimeError("torch.utils.checkpoint: the first run is gone")
        at = frame.counter[task]
        frame.counter[task] += 1
        if at >= len(frame.holders):
            if not frame.finished:          # a gradient taken within the part, while it still runs
                frame.ignore = True
                return x
            raise CheckpointError("torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                                  f"forward pass.{_HINT}")
        holder = frame.holders[at]()
        if holder is not None:
            handle = _Handle()
            holder.handles[task] = handle
            frame.recomputed[task][handle] = x
        if frame.early_stop and frame.counter[task] == len(frame.holders):
            raise _Stop
        return x

    def unpack(x):
        return x
    return saved_tensors_hooks(pack, unpack)


class _Inputs(tede.autograd.Function):
    """Keeps the arguments of a part through the hooks that are around it, and gives them back."""

    @staticmethod
    def forward(ctx, dummy, *args):
        ctx.where = [i for i, x in enumerate(args) if isinstance(x, tede.Tensor)]
        ctx.others = [None if isinstance(x, tede.Tensor) else x for x in args]
        ctx.save_for_backward(*(args[i] for i in ctx.where))

        def saved_values():
            values = list(ctx.others)
            for i, x in zip(ctx.where, ctx.saved_tensors):
                values[i] = x
            return values
        ctx.saved_values = saved_values
        return tede.empty((0,))

    @staticmethod
    def backward(ctx, *grads):
        raise AssertionError("Did not expect to backward on this graph")


@contextlib.contextmanager
def _without_reentrance(function, preserve_rng_state, context_fn, determinism_check, debug, early_stop, args, kwargs):
    if not (callable(determinism_check) or determinism_check in _METADATA):
        raise ValueError("determinism_check should be one of "
                         f"{list(_METADATA)}, but got {determinism_check}")
    metadata = determinism_check if callable(determinism_check) else _METADATA[determinism_check]
    debug = _debug if _debug is not None else debug
    unpack_error = None
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        context_fn, unpack_error = _debugging()
    if _C._transform_level():                       # of what a level saves hooks hear nothing: it is kept
        yield
        return
    forward_context, recompute_context = context_fn()
    state = _State(preserve_rng_state)

    def recompute(*inputs):
        *values, keywords = inputs
        with state.again(), recompute_context:
            function(*values, **keywords)
    frame = _Frame(recompute, _early_stop if early_stop is None else early_stop, unpack_error, metadata)
    dummy = tede.empty((0,), requires_grad=True)
    frame.input_saver = _Inputs.apply(dummy, *args, kwargs)
    if frame.input_saver.grad_fn is None:           # gradients are off: nothing will be saved
        yield
        return
    with _first_run_hooks(frame), forward_context:
        yield
    frame.finished = True


def _debugging():
    """Contexts that note the operators of both runs, and what reports them."""
    class Note(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.calls.append(str(function))
            return function(*args, **(kwargs or {}))
    first, second = Note(), Note()

    def report(error):
        def listed(calls):
            return "\n".join(calls)
        raise CheckpointError("An error happened while unpacking tensors; dumping logs of latest computation\nbecause you passed "
                              "`debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\nOperations executed during the original "
                              f"forward:\n\n{listed(first.calls)}\n\nOperations executed during recomputation:\n\n"
                              f"{listed(second.calls)}\n\n ERROR: Detected non-determinism while running activation checkpointing\n\n"
                              " You are seeing this error because you passed `debug=True` to checkpoint and\n the tensors to be saved "
                              f"in the two runs differ: compare the operators of both.\n\n{error}\n") from error
    return (lambda: (first, second)), report


# ---- what programs call ------------------------------------------------------------------------------------------

def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn,
               determinism_check=_DEFAULT_DETERMINISM_MODE, debug=False, early_stop=None, **kwargs) -> "Any":
    """``function(*args, **kwargs)``, whose intermediate values are computed again for the backward pass instead of
    being kept: memory for time (Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost").

        use_reentrant: False is the better way: it takes keyword arguments, `grad` and nested checkpoints. True runs a
            pass within the pass. None is True, with a warning, as in PyTorch.
        context_fn: gives two contexts, for the first run and for the second (see
            `create_selective_checkpoint_contexts`).
        determinism_check: "default" compares shapes, dtypes and devices of both runs (CheckpointError); "none" doesn't.
        debug: an error shows the operators of both runs.
        early_stop: end the second run as soon as all is there that was saved.
        preserve_rng_state: draw the same random numbers again; True.

    >>> x = tede.ones(2, requires_grad=True)
    >>> y = tede.utils.checkpoint.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad.shape
    tede.Size([2])
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
                      "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if "
                      "you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more "
                      "details on the differences between the two variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs and use_reentrant:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant:
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    with _without_reentrance(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs):
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs) -> "Any":
    """A chain of functions, or an `nn.Sequential`, in so many `segments`; all but the last are checkpointed.

        input: of the first.
        use_reentrant, preserve_rng_state: as for `checkpoint`.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> x = tede.ones(2, 3, requires_grad=True)
    >>> tede.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).shape
    tede.Size([2, 1])
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
                      stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if isinstance(functions, tede.nn.Sequential):
        functions = list(functions.children())

    def part(start, end):
        def forward(x):
            for i in range(start, end + 1):
                x = functions[i](x)
            return x
        return forward
    size = len(functions) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(end + 1, len(functions) - 1)(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Whether second runs stop as soon as all is there that was saved, within it.

    >>> with tede.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     pass
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Override `debug` of the `checkpoint` calls within; None leaves it to them.

    >>> with tede.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


# ---- choosing what to keep -----------------------------------------------------------------------------------------

import enum  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401


class CheckpointPolicy(enum.Enum):
    """Whether an operator's results are kept or computed again: MUST_SAVE, PREFER_SAVE, PREFER_RECOMPUTE,
    MUST_RECOMPUTE.

    >>> tede.utils.checkpoint.CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy's function is passed first: whether this is the second run.

    >>> tede.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
    True
    """

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


_SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True)


class _Kept:
    """What an operator gave, off the graph, and how often it had been written then."""

    def __init__(self, value):
        self.val = _mapped(lambda x: x.detach(), value)
        self.versions = self._versions()

    def _versions(self):
        found = []
        _mapped(lambda x: found.append(x._version), self.val)
        return found

    def get(self, may_be_written):
        if not may_be_written and self._versions() != self.versions:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return _mapped(lambda x: x.detach(), self.val)


def _mapped(function, x):
    if isinstance(x, (tuple, list)):
        return type(x)(_mapped(function, item) for item in x)
    return function(x) if isinstance(x, tede.Tensor) else x


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Around the first run: keeps the results that the policy says to keep."""

    def __init__(self, policy_fn, storage):
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not _is_ours(func) and self.policy_fn(SelectiveCheckpointContext(is_recompute=False), func, *args, **kwargs) in _SAVE:
            self.storage[func].append(_Kept(out))
        return out


def _is_ours(func):
    """What checkpointing itself calls, in the second run only: no policy is called for it."""
    return str(func) == "aten.detach.default"


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Around the second run: gives what was kept instead of computing it."""

    def __init__(self, policy_fn, storage, allow_cache_entry_mutation):
        super().__init__()
        self.policy_fn, self.storage, self.allow_cache_entry_mutation = policy_fn, storage, allow_cache_entry_mutation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _is_ours(func) or self.policy_fn(SelectiveCheckpointContext(is_recompute=True), func, *args, **kwargs) not in _SAVE:
            return func(*args, **kwargs)
        kept = self.storage.get(func)
        if kept is None:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not kept:
            raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                               "selective activation checkpoint.")
        return kept.pop(0).get(self.allow_cache_entry_mutation)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """A pair of contexts for `checkpoint`'s context_fn: results of the operators that a policy says to save are kept.

        policy_fn_or_list: a function of (context, operator, *args, **kwargs) that gives a `CheckpointPolicy`, or a list
            of operators to save.
        allow_cache_entry_mutation: don't check whether kept results were written to.

    >>> def contexts():
    ...     return tede.utils.checkpoint.create_selective_checkpoint_contexts([tede.ops.aten.mm.default])
    >>> x = tede.ones(2, 2, requires_grad=True)
    >>> y = tede.utils.checkpoint.checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=contexts)
    >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, tede._ops.OpOverload):
                hint = ("Please update the OpOverloadPacket to a specific OpOverload. For example, if you have `torch.ops.aten.mm`, "
                        "change it to `torch.ops.aten.mm.default`.") if isinstance(op, tede._ops.OpOverloadPacket) else ""
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {hint}")

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op in policy_fn_or_list else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage = defaultdict(list)
    return _CachingTorchDispatchMode(policy, storage), _CachedTorchDispatchMode(policy, storage, allow_cache_entry_mutation)
