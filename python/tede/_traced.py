"""torch.jit.trace: a function or module as the graph of operators that it called on example inputs, with the sizes that may vary left open.

What is recorded is what torch.export records (export/_recording.py); a program that needs a value is refused instead of recorded with the value that
there was. Which sizes may vary is found by trying: each dimension of the inputs with another size, alone, and together with those that have the same."""
import contextlib
import warnings

import tede
from tede._script import ScriptFunction, ScriptModule, TracerWarning, TracingCheckError
from tede._tracing import recording
from tede.export import _file
from tede.export._program import Program, unlifted
from tede.export._recording import FunctionModule, record, record_open
from tede.nn import Module
from tede.utils import _pytree as tree


class TracedModule(Program, ScriptModule):
    """The graph with the module's parameters and buffers, under their names."""
    _is_recorded = True

    @property
    def inlined_graph(self):
        return self.graph

    @property
    def original_name(self):
        return self._name_of_module

    def save(self, f, _extra_files=None):
        """Write the module, for torch.jit.load."""
        _file.write(f, self._recording, "traced module", {"name": self._name_of_module, "training": self.training}, _extra_files)


class TracedFunction(ScriptFunction):
    def save(self, f, _extra_files=None):
        """Write the function, for torch.jit.load."""
        _file.write(f, self._recording, "traced function", {"name": self.name}, _extra_files)


def _module(recorded, name, training):
    made = unlifted(recorded, {}, TracedModule)
    made._recording, made._name_of_module = recorded, name
    for module in made.modules():
        module.training = training
    return made


@contextlib.contextmanager
def _undone(module):
    """Buffers and random numbers are afterwards what they were."""
    before = [(x, x.detach().clone()) for x in module.buffers()]
    with tede.random.fork_rng(devices=()):
        yield
    with tede.no_grad():
        for x, value in before:
            x.copy_(value)


def _refuse_containers(spec):
    if spec.type in (list, dict):
        kind, constant = ("list", "for `list`, use a `tuple` instead") if spec.type is list else ("dict", "for `dict`, use a `NamedTuple` instead")
        raise RuntimeError(f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect, this is only valid if the container "
                           f"structure does not change based on the module's inputs. Consider using a constant container instead (e.g. {constant}). If you "
                           "absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior.")
    for child in spec.children_specs:
        _refuse_containers(child)


def trace(func, args, kwargs, check, tolerance, checks=None, sizes=True, strict=False):
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    module = func if isinstance(func, Module) else FunctionModule(func)
    with recording("tracing"), _undone(module):
        recorded = (record_open if sizes else record)(module, args, kwargs)
    if strict:
        _refuse_containers(recorded.out_spec)
    name = type(func).__name__ if isinstance(func, Module) else getattr(func, "__name__", type(func).__name__)
    made = _module(recorded, name, module.training) if module is func else TracedFunction(unlifted(recorded, {}), recorded, name)
    if check:
        for inputs in checks or [args]:
            _check(module, made, inputs, kwargs, tolerance)
    return made


def _check(module, made, args, kwargs, tolerance):
    """Warn where the recording gives something else than the program."""
    copies = lambda: tree.tree_map_only(tede.Tensor, lambda x: x.detach().clone(), (args, kwargs))
    results = []
    with tede.no_grad():
        for function in (module, made):
            given, named = copies()
            with _undone(module):
                try:
                    results.append(tree.tree_leaves(function(*given, **named)))
                except Exception as error:
                    raise TracingCheckError(f"Tracing failed sanity checks! {error}") from error
    for i, (want, got) in enumerate(zip(*results), 1):
        try:
            if isinstance(want, tede.Tensor):
                tede.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            warnings.warn(f"Output nr {i}. of the traced function does not match the corresponding output of the Python function. Detailed error:\n{error}",
                          TracerWarning, stacklevel=4)


def load(f, map_location=None, extra_files=None):
    recorded, more = _file.read(f, ("traced module", "traced function"), extra_files, map_location)
    if more["kind"] == "traced function":
        return TracedFunction(unlifted(recorded, {}), recorded, more["name"])
    return _module(recorded, more["name"], more["training"])
