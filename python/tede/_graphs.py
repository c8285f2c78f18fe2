"""tede.compile with a backend that is a function: calls are recorded as torch.fx graphs, which what the backend makes of them computes.

Note [Graphs of late calls]
Python runs at each call of the compiled function, as it does in regions, so nothing is guarded and nothing goes stale. A mode takes the
program's calls over: each is made on fake tensors, which raises the errors and describes the results, and is noted in a graph; what the program
receives are the fake tensors. When a value is needed, or something is called that can't be noted, or the function returns, the graph ends: it is
looked up among those that the backend has had (calls, constants, dtypes, sizes and strides), compiled if it is new, and called on the real
tensors. Each fake tensor that the program still has then becomes the real one, in its place (tede.utils.swap_tensors).

Noted is what Python called (torch.nn.functional.linear, Tensor.add), above autograd: gradients are those of the calls that the backend's function
makes. What can't be noted is made at once, on real tensors, between two graphs: with an autograd.Function, hooks on saved tensors, transforms,
tensors of other layouts and classes, objects that a graph can't hold."""
import contextlib
import operator
import sys
import threading

import tede
from tede import _C
from tede._override import PLAIN_GETTERS
from tede._program_line import ended_by, name_of, user_line
from tede._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from tede.autograd import function as functions
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.passes.shape_prop import _extract_tensor_metadata
from tede.overrides import TorchFunctionMode
from tede.utils import _pytree as tree
from tede.utils import swap_tensors

# What a query of a tensor gives, and what a graph can hold as it is.
_ANSWERS = (bool, int, float, str, tede.dtype, tede.device, tede.layout, tede.memory_format)
_CONSTANTS = (*_ANSWERS, complex, type(None), type(...), slice)


class Graphs:
    """The graphs that one compiled function has had, and what the backend made of them."""

    def __init__(self, backend, fullgraph=False, **options):
        self.backend, self.fullgraph, self.options, self.made = backend, fullgraph, options, {}

    def call(self, function, args, kwargs, report=None):
        """function(*args, **kwargs), by graphs. report(graph, what ended it, the line of the program) is called for each."""
        if getattr(_thread, "recorder", None) is not None:
            return function(*args, **kwargs)        # it belongs to the graphs of the function that calls it
        recorder = _thread.recorder = _Recorder(self, report)
        try:
            with recorder:
                result = function(*args, **kwargs)
        finally:
            _thread.recorder = None
            recorder.end(None)
        if any(isinstance(x, FakeTensor) for x in tree.tree_leaves(result)):
            raise NotImplementedError("torch.compile: a transform (vmap, grad, jvp) within the function read a tensor that is computed "
                                      "late, which a backend's graphs can't note; compile the function inside of the transform")
        return result

    def compiled(self, key, graph, inputs):
        """What the backend makes of a graph, once for all that are the same."""
        if key not in self.made:
            module = GraphModule({}, graph)
            made = self.backend(module, list(inputs), **self.options)
            if not callable(made):
                raise TypeError(f"torch.compile: the backend must return a function, not {type(made).__name__}")
            self.made[key] = made
        return self.made[key]


_thread = threading.local()


def _around():
    """What autograd.Function.apply does first."""
    recorder = getattr(_thread, "recorder", None)
    return recorder.paused() if recorder is not None and not recorder.is_paused else None


functions.around = _around


class _State:
    """What decides what a call does, besides its arguments and whether gradients are on."""

    def __init__(self):
        self.inference, self.default = tede.is_inference_mode_enabled(), tede.get_default_dtype()
        self.autocast = tuple((kind, _C._autocast_dtype(kind)) for kind in ("cpu", "cuda"))
        self.modes = tuple(map(id, _C._torch_dispatch_stack()))

    def __eq__(self, other):
        return vars(self) == vars(other)

    def key(self):
        return self.inference, self.default, self.autocast, self.modes

    @contextlib.contextmanager
    def entered(self, grad):
        """Within it the state is this one, and gradients are on or off."""
        default = tede.get_default_dtype()
        with contextlib.ExitStack() as stack:
            for kind, dtype in self.autocast:
                if _C._autocast_dtype(kind) != dtype:
                    stack.enter_context(tede.autocast(kind, dtype=dtype, enabled=dtype is not None))
            if tede.is_inference_mode_enabled() != self.inference:
                stack.enter_context(tede.inference_mode(self.inference))
            stack.enter_context(tede.set_grad_enabled(grad))
            tede.set_default_dtype(self.default)
            try:
                yield
            finally:
                tede.set_default_dtype(default)


def _hooks_are_on():
    """Whether there are hooks on saved tensors: without any they can be disabled."""
    if _C._saved_hooks_disabled() is not None:
        return False
    try:
        _C._disable_saved_hooks("")
    except RuntimeError:
        return True
    _C._disable_saved_hooks(None)
    return False


def _mapped(a, function):
    """Arguments with the function's values for what isn't a tuple, a list or a dict."""
    if isinstance(a, tuple):
        members = [_mapped(x, function) for x in a]
        return type(a)(*members) if hasattr(a, "_fields") else tuple(members)
    if type(a) is list:
        return [_mapped(x, function) for x in a]
    if type(a) is dict:
        return {name: _mapped(x, function) for name, x in a.items()}
    return function(a)


class _Recorder(TorchFunctionMode):
    def __init__(self, graphs, report):
        super().__init__()
        self.graphs, self.report, self.is_paused = graphs, report, False
        self._begin()

    def _begin(self):
        self.fakes, self.graph, self.last = FakeTensorMode(), Graph(), None
        self.inputs, self.late = [], []     # real tensors from outside; fake ones
        self.nodes = {}                     # id of one of both -> node
        self.described = {}                 # id of a real tensor -> it, and a fake one of its description
        self.state = self.start = self.grad = self.drawn = None

    # ---- calls

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = []
        _mapped((args, kwargs), leaves.append)
        plain = getattr(func, "__self__", None) in PLAIN_GETTERS
        if self.is_paused or (plain and not any(map(self._is_late, leaves))):
            return func(*args, **kwargs)
        if plain or func is tede.Tensor.backward or not all(map(self._takes, leaves)) or _C._transform_level() or _hooks_are_on():
            return self._at_once(func, args, kwargs)
        state = _State()
        if self.state is not None and (state != self.state or not tede.equal(self.drawn, tede.get_rng_state())):
            self.end(func)
        outside = {id(fake): (x, fake) for x, fake in ((x, self._fake(x)) for x in leaves) if fake is not x}
        described = [(x.shape, x.stride(), x.requires_grad) for _, x in outside.values()]
        result = tede       # no function's result
        with contextlib.suppress(Exception), self.fakes:
            result = func(*_mapped(args, self._fake), **_mapped(kwargs, self._fake))
        if result is tede:      # a value is needed; or it is the program's error, which is raised again
            return self._at_once(func, args, kwargs)
        found = [result] if isinstance(result, FakeTensor) else tree.tree_leaves(result)
        made = [x for x in found if isinstance(x, FakeTensor)]
        if not made and found and all(isinstance(x, _ANSWERS) for x in found):
            return result if any(map(self._is_late, leaves)) else func(*args, **kwargs)
        if func is not tede.Tensor.__setitem__ and not (made and all(isinstance(x, (FakeTensor, *_ANSWERS, type(None))) for x in found)):
            return self._at_once(func, args, kwargs)
        self._note(func, args, kwargs, state, result, outside)
        own = lambda x: outside[id(x)][0] if id(x) in outside else x
        result = own(result) if isinstance(result, FakeTensor) else tree.tree_map_only(FakeTensor, own, result)
        if described != [(x.shape, x.stride(), x.requires_grad) for _, x in outside.values()]:
            self.end(func)      # the program reads its own tensor's sizes, not the fake one's
        return result

    def _takes(self, x):
        if isinstance(x, tede.Tensor):
            return self._is_late(x) or (type(x) in (tede.Tensor, tede.nn.Parameter) and x.layout == tede.strided and not x.is_meta)
        return isinstance(x, _CONSTANTS)

    def _is_late(self, x):
        return isinstance(x, FakeTensor) and id(x) in self.nodes

    def _fake(self, x):
        if not isinstance(x, tede.Tensor) or self._is_late(x):
            return x
        if id(x) not in self.described:
            fake = self.fakes.from_tensor(x)
            if x.requires_grad and not x.is_leaf:       # may be written in place
                with tede.enable_grad():
                    copy = fake.clone()
                fake = copy if copy.stride() == fake.stride() else fake
            self.described[id(x)] = x, fake
        return self.described[id(x)][1]

    def _node(self, x):
        if isinstance(x, slice):
            return slice(*map(self._node, (x.start, x.stop, x.step)))
        if not isinstance(x, tede.Tensor):
            return x
        if id(x) not in self.nodes:
            with self.graph.inserting_after(self.last or self.graph._root):
                node = self.last = self.graph.placeholder(f"arg{len(self.inputs)}_1")
            node.meta["example_value"] = self._fake(x)
            node.meta["tensor_meta"] = _extract_tensor_metadata(x)
            self.inputs.append(x)
            self.nodes[id(x)] = node
        return self.nodes[id(x)]

    def _note(self, func, args, kwargs, state, result, outside):
        if self.state is None:
            self.state, self.start, self.grad, self.drawn = state, tede.is_grad_enabled(), tede.is_grad_enabled(), tede.get_rng_state()
        self._set_grad(tede.is_grad_enabled())
        args, kwargs = _mapped(args, self._node), _mapped(kwargs, self._node)
        name = name_of(func)
        method = name.removeprefix("torch.Tensor.")
        if func in (tede.Tensor.__setitem__, tede.Tensor.__getitem__):
            node = self.graph.call_function(getattr(operator, method.strip("_")), args)
        elif method == name:
            node = self.graph.call_function(func, args, kwargs)
        elif method.endswith(".__get__"):
            node = self.graph.call_function(getattr, (args[0], method.removesuffix(".__get__")))
        else:
            node = self.graph.call_method(method, args, kwargs)
        node.meta["line"] = user_line()
        self._follow(result, node, outside)

    def _set_grad(self, on):
        if self.grad != on:
            self.graph.call_function(_C._set_grad_enabled, (on,))
            self.grad = on

    def _follow(self, result, node, outside):
        if isinstance(result, FakeTensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(result)
            x = outside.get(id(result), (result,))[0]
            if x is result and id(x) not in self.nodes:
                self.late.append(x)
            self.nodes[id(x)] = node        # of one that was written in place: what comes later follows the write
        elif isinstance(result, (tuple, list)):
            for i, member in enumerate(result):
                if isinstance(member, (FakeTensor, tuple, list)):
                    self._follow(member, self.graph.call_function(operator.getitem, (node, i)), outside)

    def _at_once(self, func, args, kwargs):
        self.end(func)
        return func(*args, **kwargs)

    @contextlib.contextmanager
    def paused(self):
        """Within it calls are made at once."""
        self.is_paused = True
        try:
            self.end(functions.Function.apply)
            yield
        finally:
            self.is_paused = False

    # ---- the end of a graph

    def end(self, func):
        """Compute what has been noted, since `func` is called, or, if that is None, the function has returned."""
        graph, inputs, late, nodes, state, start, drawn = self.graph, self.inputs, self.late, self.nodes, self.state, self.start, self.drawn
        if state is None:
            return
        self._set_grad(start)
        converter = self.fakes.fake_tensor_converter
        converter.constant_storage_mapping.clear(), converter._fakes.clear()     # weak references would be in the way of a swap
        self._begin()
        held = []
        while late:
            x = late.pop()
            if sys.getrefcount(x) > 2:      # `x` and the argument; what the program doesn't have is no result
                held.append(x)
        held.reverse()
        graph.output(tuple(nodes[id(x)] for x in held))
        where = None if func is None else user_line()
        if self.report:
            self.report(graph, func and name_of(func), where)
        if func is not None and self.graphs.fullgraph:
            raise RuntimeError("fullgraph=True: " + ended_by(name_of(func), where))
        compiled = self.graphs.compiled(_key(graph, inputs, start, state), graph, inputs)
        now = tede.get_rng_state()
        seeded = not tede.equal(now, drawn)         # by the program, after what draws here
        if seeded:
            tede.set_rng_state(drawn)
        with state.entered(start):
            results = compiled(*inputs)
        if seeded:
            tede.set_rng_state(now)
        if isinstance(results, tede.Tensor) or len(results) != len(held):
            raise RuntimeError(f"torch.compile: the backend's function must return {len(held)} results in a tuple or list, as the graph does")
        known = {id(x) for x in inputs}
        for x, result in zip(held, results):
            _replace(x, result.view_as(result) if id(result) in known else result)
            known.add(id(x))


def _replace(fake, real):
    """Let the fake tensor that the program has become the real one."""
    own = {name: value for name, value in vars(fake).items() if name not in ("fake_device", "fake_mode", "constant")}
    swap_tensors(fake, real)
    vars(fake).update(own)


# ---- which graphs are the same

def _frozen(a, numbers):
    if isinstance(a, (tuple, list)):
        return type(a).__name__, *(_frozen(x, numbers) for x in a)
    if isinstance(a, dict):
        return "dict", *((name, _frozen(x, numbers)) for name, x in a.items())
    if isinstance(a, slice):
        return "slice", *(_frozen(x, numbers) for x in (a.start, a.stop, a.step))
    return ("node", numbers[a]) if a.__hash__ and a in numbers else (type(a).__name__, repr(a))


def _key(graph, inputs, start, state):
    numbers = {node: i for i, node in enumerate(graph.nodes)}
    calls = tuple((node.op, None if node.op == "placeholder" else node.target, _frozen(node.args, numbers), _frozen(node.kwargs, numbers))
                  for node in graph.nodes)
    return calls, tuple((type(x), x.dtype, x.device, x.shape, x.stride(), x.requires_grad) for x in inputs), start, state.key()
