"""make_fx: a function's graph, from the operators that it calls.

The function runs, and a mode below autograd and transforms notes every operator that arrives there: so a gradient is in the
graph as the operators of the backward pass, and a batch as those of its rules. torch.fx.symbolic_trace notes what the
program's Python calls instead. What Python decides between the calls isn't noted."""
import contextlib
import importlib.util
import inspect
import itertools
from operator import getitem

import tede
from tede._C import Tensor
from tede._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from tede._sym import is_symbolic
from tede._tags import Tag
from tede.fx.experimental._symbol_nodes import Symbols
from tede.fx.experimental._cond import Cond, MapRows
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.interpreter import Interpreter
from tede.fx.passes.shape_prop import _extract_tensor_metadata
from tede.overrides import TorchFunctionMode
from tede.utils import _pytree as tree
from tede.utils._python_dispatch import no_dispatch, TorchDispatchMode

__all__ = ["make_fx", "get_proxy_mode", "get_isolated_graphmodule", "DecompositionInterpreter"]


def get_proxy_mode():
    """The mode that is noting operators, or None."""
    from tede import _C
    return next((mode for mode in reversed(_C._torch_dispatch_stack()) if isinstance(mode, _Recorder)), None)


def _place(x):
    """Where a tensor's elements are, and how they are read; None for a tensor without memory. Of a fake tensor: where they would be."""
    if x.layout is not tede.strided:
        return None
    if type(x) is FakeTensor:
        with x.fake_mode.sizes.raw() if x.fake_mode.sizes is not None else contextlib.nullcontext():
            return x.untyped_storage()._cdata, x.storage_offset(), x.shape, x.stride(), x.dtype, x.is_conj(), x.is_neg()
    try:
        return x.data_ptr() and (x.data_ptr(), x.shape, x.stride(), x.dtype, x.is_conj(), x.is_neg())
    except RuntimeError:
        return None


_HANDLED = (Tensor, tede.nn.Parameter, FakeTensor)


class _Recorder(TorchDispatchMode):
    """Notes operators in a graph. Tensors are held until the end, so that an id, or an address, stands for one of
    them: what a node of autograd saved comes back as another tensor on the same elements."""

    takes_control_flow = True           # tede._higher_order_ops
    cond_with_gradient, map_with_gradient = staticmethod(Cond.apply), staticmethod(MapRows.apply)

    def __init__(self, decompositions, values_are_errors=True, fake_mode=None):
        super().__init__()
        self.fake_mode = fake_mode      # that of the tensors, if it is one for all
        self.graph, self.decompositions, self.values_are_errors = Graph(), decompositions, values_are_errors
        self.known = set()              # nodes of single numbers that don't depend on the arguments
        self.nodes, self.places, self.constants = {}, {}, {}
        self.symbols = Symbols(self)    # nodes of symbolic sizes
        self.paused = False             # while another recorder runs within
        self.within = 0                 # calls that are being noted: what Python does meanwhile isn't the program's
        self._fakes = FakeTensorMode()

    def follow(self, tensor, node):
        self.nodes[id(tensor)] = (node, tensor)
        self._describe(tensor, node)
        self.symbols.follow(tensor, node)
        if place := _place(tensor):
            self.places[place] = node

    def _describe(self, x, node):
        """Note at a node what its tensor looks like now: meta["val"], a fake tensor, and meta["tensor_meta"]."""
        if type(x) not in _HANDLED or x.layout != tede.strided:
            return
        mode = x.fake_mode if type(x) is FakeTensor else self._fakes
        with no_dispatch(), tede.no_grad():
            elem = tede.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        node.meta["val"] = FakeTensor(mode, elem, x.device)
        node.meta["tensor_meta"] = _extract_tensor_metadata(x)

    def node_of(self, x):
        if not isinstance(x, Tensor):
            return self.symbols.node_of(x)
        if id(x) in self.nodes:
            return self.nodes[id(x)][0]
        same = self.places.get(_place(x))
        if same is None:
            return self.hold(x, x if getattr(x, "constant", None) is None else x.constant)
        self.follow(x, same)
        return same

    def hold(self, x, real):
        """The node of an attribute that holds a tensor from outside, `real`."""
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = real
        node = self.graph.get_attr(name)
        if x.numel() <= 1:
            self.known.add(node)
        self.follow(x, node)
        return node

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.within += 1
        try:
            return self._arrived(func, args, kwargs or {})
        finally:
            self.within -= 1

    def _arrived(self, func, args, kwargs):
        if self.paused or func.namespace == "prim":        # a query of metadata
            return func(*args, **kwargs)
        if any(isinstance(x, Tensor) and type(x) not in _HANDLED and id(x) not in self.nodes for x in tree.arg_tree_leaves(*args, **kwargs)):
            return NotImplemented       # what the class makes of it comes here again
        if func is tede.ops.aten.lift_fresh.default:        # the graph's numbers stay what they are, whatever is written to these
            func = tede.ops.aten.lift_fresh_copy.default
        replacement = self.decompositions.get(func)
        if replacement is not None:
            with self:
                result = replacement(*args, **kwargs)
            if result is not NotImplemented:
                return result
        kwargs = self.fake_mode.placed(func, kwargs) if self.fake_mode is not None else kwargs
        self.symbols.decode(args, kwargs)
        given, named = tree.tree_map(self.node_of, (tuple(args), dict(kwargs)))
        if func is tede.ops.aten._local_scalar_dense.default and given[0] in self.known and not is_symbolic(number := func(*args)):
            return number               # which the graph has as it is
        node = self.graph.call_function(func, given, named, name=self.graph._target_to_str(func._opname))
        self._check_values(func, node)
        return self._followed(func, node, func(*args, **kwargs))

    def _followed(self, func, node, result):
        """The result of a call, whose tensors stand for the node from now on."""
        if all(n in self.known for n in node.all_input_nodes) and Tag.nondeterministic_seeded not in func.tags and node.all_input_nodes and \
                all(x.numel() <= 1 for x in tree.tree_leaves(result) if isinstance(x, Tensor)):
            self.known.add(node)
        elif func._schema.is_mutable:
            self.known.difference_update(node.all_input_nodes)
        if isinstance(result, Tensor):
            self.follow(result, node)
        elif isinstance(result, (tuple, list)):
            self._follow_members(result, node)
        else:
            self.symbols.follow_number(result, node)
        return result

    def note_above(self, overloads, args, kwargs):
        """Note a call above autograd, of the first overload that takes the arguments, and give its result; NotImplemented if none does."""
        kwargs = self.fake_mode.placed(overloads[0], kwargs) if self.fake_mode is not None else kwargs
        self.symbols.decode(args, kwargs)
        given, named = tree.tree_map(self.node_of, (tuple(args), dict(kwargs)))
        for func in overloads:
            if func is tede.ops.aten.lift_fresh.default:
                func = tede.ops.aten.lift_fresh_copy.default
            before, self.paused = self.paused, True
            try:
                result = func(*args, **kwargs)
            except (TypeError, RuntimeError):       # not this overload's arguments; an error of the operator's comes again where none takes them
                continue
            finally:
                self.paused = before
            node = self.graph.call_function(func, _by_schema(func, given), named, name=self.graph._target_to_str(func._opname))
            self._check_values(func, node)
            return self._followed(func, node, result)
        return NotImplemented

    def _follow_members(self, result, node):
        self._describe_all(result, node)
        for i, member in enumerate(result):
            if isinstance(member, (Tensor, list)):
                item = self.graph.call_function(getitem, (node, i))
                if node in self.known:
                    self.known.add(item)
                if isinstance(member, list):
                    self._follow_members(member, item)
                else:
                    self.follow(member, item)

    # ---- control flow: a call whose functions are graphs

    def sees(self, x):
        """Whether calls on the tensor arrive here as they are, without a level of transforms that handles them first."""
        return id(x) in self.nodes or type(x) in _HANDLED and not tede._C._transform_level()

    def alone(self):
        """Within it this mode, and those around it, note nothing."""
        return _pause()

    def graphs_of(self, functions, operands):
        """Graphs of the functions, all with the same inputs, and these: the operands, then what the functions take from outside."""
        for x in operands:
            if is_symbolic(x):
                self.node_of(x)
        lifted, branches = [], [_Branch(self) for _ in functions]
        for function, branch in zip(functions, branches):
            branch.run(function, operands, lifted)
        return [branch.module(lifted) for branch in branches], [*operands, *(x for x, _ in lifted)]

    def note(self, operator, graphs, result, arguments):
        """A node for a call of an operator with functions: arguments(nodes of the graphs, a function that gives those of tensors)."""
        nodes = []
        for name, graph in graphs.items():
            i = next(i for i in itertools.count() if f"{name}_{i}" not in self.constants)
            self.constants[f"{name}_{i}"] = graph
            nodes.append(self.graph.get_attr(f"{name}_{i}"))
        node = self.graph.call_function(operator, arguments(nodes, self.node_of), name=operator.name())
        with _pause():      # what a branch passes on isn't the operand any more
            if isinstance(result, Tensor):
                result = result.clone()
            else:
                result = tuple(x.clone() if isinstance(x, Tensor) else x for x in result)
        if isinstance(result, Tensor):
            self.follow(result, node)
            return result
        self._describe_all(result, node)
        for i, member in enumerate(result):
            if isinstance(member, Tensor):
                self.follow(member, self.graph.call_function(getitem, (node, i)))
        return result

    def _describe_all(self, result, node):
        notes = []
        for member in result:
            if isinstance(member, Tensor):
                self._describe(member, node)
            notes.append((node.meta.pop("val", None), node.meta.pop("tensor_meta", None)))
        node.meta["val"], node.meta["tensor_meta"] = (type(result)(kind) for kind in zip(*notes)) if notes else ((), ())

    def _check_values(self, func, node):
        """A value that depends on the arguments would be in the graph as it is now."""
        if self.values_are_errors and Tag.data_dependent_output in func.tags and not all(n in self.known for n in node.all_input_nodes) and \
                not any(isinstance(n.meta.get("val"), FakeTensor) and n.meta["val"].fake_mode is not self._fakes for n in node.all_input_nodes):
            raise RuntimeError(f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's likely "
                               "that this is caused by data-dependent control flow or similar.")


def _by_schema(func, given):
    """Positional arguments as the schema has them: x.view(2, 3) is view(x, [2, 3]), and sum(x, 0) is sum(x, [0])."""
    arguments, made = [a for a in func._schema.arguments if not a.kwarg_only], []
    for i, value in enumerate(given):
        if i == len(arguments):         # the rest of a list's numbers
            made[-1] = list(given[i - 1:])
            break
        if "List[int]" in str(arguments[i].type) and value is not None:
            value = list(value) if isinstance(value, (list, tuple)) else [value]
        made.append(value)
    return tuple(made)


class _AboveAutograd(TorchFunctionMode):
    """Notes what Python calls before autograd, and before composites are their parts: operators, and whether gradients are enabled. What isn't an
    operator of its own there (an index, a property, a gradient) is what the recorder notes of it."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder, self.enabled = recorder, tede.is_grad_enabled()

    def note_switch(self):
        if tede.is_grad_enabled() != self.enabled:
            self.enabled = not self.enabled
            self.recorder.graph.call_function(tede._C._set_grad_enabled, (self.enabled,))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.recorder.within:
            return func(*args, **kwargs)
        if not self.recorder.paused:
            self.note_switch()
            overloads = self._overloads(func)
            if overloads and not tede._C._transform_level() and \
                    all(type(x) in _HANDLED for x in tree.arg_tree_leaves(*args, **kwargs) if isinstance(x, Tensor)):
                result = self.recorder.note_above(overloads, args, kwargs)
                if result is not NotImplemented:
                    return result
        inner = getattr(func, "__wrapped__", None)
        if inner is None:
            return func(*args, **kwargs)
        with self:                  # a function in Python: the operators that it calls
            return inner(*args, **kwargs)

    @staticmethod
    def _overloads(func):
        if isinstance(func, tede._ops.OpOverload):
            return [func]
        if not isinstance(func, (type(tede.add), type(tede.Tensor.add), tede._ops.OpOverloadPacket)):
            return []
        packet = func if isinstance(func, tede._ops.OpOverloadPacket) else getattr(tede.ops.aten, func.__name__, None)
        return [] if packet is None else [getattr(packet, name) for name in packet.overloads()]


class _Branch(_Recorder):
    """Notes a function that another recorder's call takes. Tensors from outside are inputs of the graph."""

    def __init__(self, outer):
        super().__init__(outer.decompositions, outer.values_are_errors, outer.fake_mode)
        self.outer, self.inputs, self.lifted = outer, {}, None

    def hold(self, x, real):
        same = next((i for i, (known, _) in enumerate(self.lifted) if known is x), None)
        if same is None:
            same = len(self.lifted)
            self.lifted.append((x, real))
        return self._input(same)

    def _input(self, i):
        if i not in self.inputs:
            with self.graph.inserting_after(self.last):
                self.inputs[i] = self.graph.placeholder(f"arg{self.count + i}_1")
            self.last = self.inputs[i]
            x, real = self.lifted[i]
            if self.fake_mode is not None and x is not real and id(x) not in self.outer.nodes:
                self.outer.hold(x, real)
            self.follow(x, self.inputs[i])
        return self.inputs[i]

    def run(self, function, operands, lifted):
        self.lifted, self.count, self.last = lifted, len(operands), self.graph._root
        with _pause():      # what the function writes to isn't the program's
            own = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in operands]
        for i, x in enumerate(own):
            self.last = self.graph.placeholder(f"arg{i}_1")
            if isinstance(x, Tensor):
                self.follow(x, self.last)
            else:
                self.symbols.follow_number(x, self.last)
        noting = self.fake_mode.noting if self.fake_mode is not None else []
        noting.append(self.hold)
        try:
            with _pause(), self:
                result = function(*own)
        finally:
            noting.remove(self.hold)
        self.graph.output(tree.tree_map(self.node_of, result))

    def module(self, lifted):
        for i in range(len(lifted)):
            self._input(i)
        last = [node for node in self.graph.nodes if node.op == "placeholder"][self.count - 1] if self.count else None
        for i in range(len(lifted)):        # in the order that all branches have
            if last is not None:
                last.append(self.inputs[i])
            else:
                self.graph._root.append(self.inputs[i])
            last = self.inputs[i]
        return GraphModule(self.constants, self.graph, "<lambda>")


@contextlib.contextmanager
def _pause():
    """Within it the recorders that run already note nothing."""
    from tede import _C
    outer = [mode for mode in _C._torch_dispatch_stack() if isinstance(mode, _Recorder) and not mode.paused]
    for mode in outer:
        mode.paused = True
    try:
        yield
    finally:
        for mode in outer:
            mode.paused = False


def _names(function, count):
    """What the flat inputs are called: as the parameters, where each of those is one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if len(parameters) < count or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters[:count]):
        return [f"arg{i}_1" for i in range(count)]
    return [f"{p.name}_1" for p in parameters[:count]]


class _Flat(Exception):
    """The result has containers that a graph has no words for."""


def _nested(result, node_of):
    """The result with nodes for its values, as a graph writes it: in tuples, lists, dicts and named tuples."""
    kind = type(result)
    if kind in (list, tuple, tede.Size) or isinstance(result, tuple) and hasattr(kind, "_fields"):
        parts = [_nested(x, node_of) for x in result]
        return parts if kind is list else kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if kind is dict:
        return {key: _nested(x, node_of) for key, x in result.items()}
    if not tree.tree_structure(result).is_leaf():
        raise _Flat
    return node_of(result)


class _Made(GraphModule):
    """The graph as a module, called with arguments of the structure that the function had."""

    def __call__(self, *args):
        flat, spec = tree.tree_flatten(args)
        if spec != self._in_spec:
            raise TypeError(f"make_fx: the graph was made for arguments of structure {self._in_spec}, not {spec}")
        result = super().__call__(*flat)
        return result if self._out_spec is None else tree.tree_unflatten(result, self._out_spec)


def _fake_mode(flat, tracing_mode, allow_non_fake_inputs):
    """The mode of the arguments, if some are fake, or a new one."""
    known = [x.fake_mode for x in flat if isinstance(x, FakeTensor)]
    env = None
    if not known and (tracing_mode == "symbolic" or importlib.util.find_spec("sympy")):     # without it, what depends on values is refused
        from tede.fx.experimental.symbolic_shapes import ShapeEnv
        env = next((x.node.shape_env for x in flat if is_symbolic(x)), None) or ShapeEnv()
    return known[0] if known else FakeTensorMode(allow_fallback_kernels=True, allow_non_fake_inputs=allow_non_fake_inputs, shape_env=env,
                                                 static_shapes=tracing_mode == "fake")


def _name_of(i):
    return f"input{i}"


def _fake_input(mode, x, name):
    if isinstance(x, Tensor):
        return mode.from_tensor(x, source=name)
    if type(x) is int and mode.shape_env is not None and not mode.static_shapes:
        return mode.shape_env.create_symintnode(mode.shape_env.create_symbol(x, name, positive=None), hint=x)
    return x


@contextlib.contextmanager
def module_stack(root):
    """Nodes that the present recorder makes within have meta["nn_module_stack"]: {key: (path, class)} of the modules below `root` whose calls go on,
    the outermost first, with PyTorch's keys."""
    graph, paths, outer = get_proxy_mode().graph, {module: path for path, module in root.named_modules()}, []

    def entry(module, path):
        return {f"L__self__{path}": (path, f"{type(module).__module__}.{type(module).__qualname__}")}

    def begin(module, args):
        if path := paths.get(module):
            outer.append(graph.new_meta)
            graph.new_meta = {"nn_module_stack": {**graph.new_meta["nn_module_stack"], **entry(module, path)}}

    def end(module, args, result):
        if paths.get(module):
            graph.new_meta = outer.pop()
    from tede.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
    handles = register_module_forward_pre_hook(begin), register_module_forward_hook(end, always_call=True)
    graph.new_meta = {"nn_module_stack": entry(root, "")}
    try:
        yield
    finally:
        graph.new_meta = None
        for handle in handles:
            handle.remove()


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True):
    """A function that runs f and gives the torch.fx.GraphModule of the operators that arrived below autograd.

    Calls of what `decomposition_table` has are noted as the parts that it makes of them. ``tracing_mode="fake"`` runs on fake tensors of the
    arguments, so that nothing is computed, ``"symbolic"`` on such whose sizes are expressions, so that the graph holds for other sizes, too, where
    its `shape_env` has no condition against them. With `pre_dispatch` operators are noted as they are above autograd, so that composites are
    themselves and the graph has gradients of its own. Nodes have meta["val"], a fake tensor, and meta["tensor_meta"]; with `record_module_stack`, where f
    is a module's method, meta["nn_module_stack"]: the modules in whose calls they were made."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError('tracing_mode should be one of "real", "fake", "symbolic"')

    def wrapped(*args):
        flat, in_spec = tree.tree_flatten(args)
        mode = contextlib.nullcontext()
        if tracing_mode != "real":
            mode = _fake_mode(flat, tracing_mode, _allow_non_fake_inputs)
            flat = [_fake_input(mode, x, _name_of(i)) for i, x in enumerate(flat)]
        recorder = _Recorder(decomposition_table or {}, _error_on_data_dependent_ops, mode if tracing_mode != "real" else None)
        for x, name in zip(flat, _names(f, len(flat)) if len(flat) == len(args) else [f"arg{i}_1" for i in range(len(flat))]):
            node = recorder.graph.placeholder(name)
            if isinstance(x, Tensor):
                recorder.follow(x, node)
                if "val" in node.meta and hasattr(x, "_made_with"):
                    node.meta["val"]._made_with = x._made_with
            else:
                recorder.symbols.follow_number(x, node)
        noting = getattr(mode, "noting", [])
        noting.append(recorder.hold)
        try:
            above = _AboveAutograd(recorder) if pre_dispatch else contextlib.nullcontext()
            root = getattr(f, "__self__", None) if record_module_stack else None
            with _pause(), mode, recorder, above, module_stack(root) if isinstance(root, tede.nn.Module) else contextlib.nullcontext():
                result = f(*tree.tree_unflatten(flat, in_spec))
            if pre_dispatch:
                above.note_switch()
        finally:
            noting.remove(recorder.hold)
        try:
            shown, out_spec = _nested(result, recorder.node_of), None
        except _Flat:
            leaves, out_spec = tree.tree_flatten(result)
            shown = (tuple if isinstance(result, tuple) else list)(recorder.node_of(x) for x in leaves)
        recorder.graph.output(shown, getattr(f, "__annotations__", {}).get("return"))
        used = {node.target for node in recorder.graph.nodes if node.op == "get_attr"}
        held = {name: x for name, x in recorder.constants.items() if name in used}
        made = _Made(held, recorder.graph, getattr(f, "__name__", type(f).__name__))
        made._in_spec, made._out_spec = in_spec, out_spec
        if recorder.symbols.env is not None:
            made.shape_env = recorder.symbols.env
        return made
    return wrapped


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """The graph of a call, of which no graph that is being made notes anything."""
    flat, spec = tree.tree_flatten((tuple(args), dict(kwargs)))

    def call(flat):
        args, kwargs = tree.tree_unflatten(flat, spec)
        return func(*args, **kwargs)
    with _pause():
        return make_fx(call, decomposition_table, tracing_mode)(flat)


class DecompositionInterpreter(Interpreter):
    """Runs a graph and makes another of it, in `new_graph`, with the parts of what the table decomposes."""

    def __init__(self, module, new_graph, decomposition_table=None, **options):
        super().__init__(module, **options)
        self.new_graph, self._recorder = new_graph, _Recorder(dict(decomposition_table or {}), False)
        self._recorder.graph = new_graph

    def placeholder(self, target, args, kwargs):
        value = super().placeholder(target, args, kwargs)
        node = self.new_graph.placeholder(target)
        if isinstance(value, Tensor):
            self._recorder.follow(value, node)
        return value

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, Tensor):
            self._recorder.follow(value, self.new_graph.get_attr(target))
        return value

    def output(self, target, args, kwargs):
        value = super().output(target, args, kwargs)
        self.new_graph.output(tree.tree_map(self._recorder.node_of, value))
        return value

    def run(self, *args, **kwargs):
        with self._recorder:
            return super().run(*args, **kwargs)
