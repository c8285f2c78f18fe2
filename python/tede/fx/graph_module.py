"""GraphModule: a module whose forward is generated from a graph."""
import copy
import linecache
import sys
import traceback

from tede.fx.graph import Graph
from tede.nn import Module

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_count = 0


def _copy_attr(from_module, to_module, target):
    """Let `to_module` have what `from_module` has at a path, with modules on the way."""
    *path, field = target.split(".")
    for item in path:
        inner, other = getattr(from_module, item), getattr(to_module, item, None)
        if inner is other:
            return
        if other is None:
            other = Module()
            setattr(to_module, item, other)
        from_module, to_module = inner, other
    from tede import Tensor
    value = getattr(from_module, field)
    if isinstance(value, Tensor) and field not in from_module._parameters:
        to_module.register_buffer(field, value)
    else:
        setattr(to_module, field, value)


def _assign_attr(value, to_module, target):
    *path, field = target.split(".")
    for item in path:
        if getattr(to_module, item, None) is None:
            setattr(to_module, item, Module())
        to_module = getattr(to_module, item)
    setattr(to_module, field, value)


def _torch(dtype):
    return str(dtype).replace("tede.", "torch.")


def _compile(code, traced_from=None):
    """The function that source text defines; tracebacks and inspect find its lines."""
    global _count
    name = f"<eval_with_key>.{_count}" + (f" from {traced_from}" if traced_from else "")
    _count += 1
    names = dict(code.globals)
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    exec(compile(code.src, name, "exec"), names)
    return names["forward"]


class GraphModule(Module):
    """Setting `graph`, or `recompile()` after changes of it, makes the code anew."""

    def __new__(cls, *args, **kwargs):
        # forward is the class's, as of any module, so each instance has a class.
        base = next((c for c in cls.__mro__ if "_graph_module_instance" not in c.__dict__), cls)
        # PyTorch's has this place, and programs ask for it before they give an instance a forward of its own.
        place = {"__module__": base.__module__, "__qualname__": "GraphModule.__new__.<locals>.GraphModuleImpl"}
        return object.__new__(type(base.__name__, (base,), {"_graph_module_instance": True, **place}))

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        else:
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(f"Node {node} referenced target {node.target} but that target was not provided in `root`!")
            for target in sorted(dict.fromkeys(n.target for n in graph.nodes if n.op in ("get_attr", "call_module")), key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        self.meta = dict(getattr(root, "meta", None) or {}) if not isinstance(root, dict) else {}
        self.graph = graph
        tracer = graph._tracer_cls      # pickles and packages are traced by it again, if it can be found there
        self._tracer_cls = tracer if tracer and "<locals>" not in tracer.__qualname__ else None

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The source of forward."""
        return self._code

    def recompile(self):
        """Make forward from the graph."""
        info = getattr(self._graph._codegen, "pytree_info", None)
        if info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = code.src, code._lineno_map, code._prologue_start
        type(self).forward = _compile(code, self._graph._traced_from)
        return code

    def __call__(self, *args, **kwargs):
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if not last.filename.startswith("<eval_with_key>"):
                raise
            lines = linecache.getlines(last.filename)
            print(f"{traceback.format_exc()}\nCall using an FX-traced Module, line {last.lineno} of the traced Module's generated forward function:\n"
                  f"{''.join(lines[max(last.lineno - 2, 0):last.lineno])}~~~~~~~~~~~~~~~~~~~~~~~~~~~ <--- HERE\n{''.join(lines[last.lineno:last.lineno + 2])}",
                  file=sys.stderr)
            raise error.with_traceback(None) from None

    def print_readable(self, print_output=True, **options):
        text = f"class {type(self).__name__}(torch.nn.Module):" + self._code.replace("\n", "\n    ")
        if print_output:
            print(text)
        return text

    def to_folder(self, folder, module_name="FxModule"):
        """Write a package that has this module as a class `module_name`: its code, its state, and pickles of the modules in it that
        have no simple source."""
        import pathlib

        import tede
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tede.save(self.state_dict(), folder / "state_dict.pt")
        lines = ["import os", "import tede as torch", "from tede.nn import *", "", f"class {module_name}(torch.nn.Module):", "    def __init__(self):",
                 "        super().__init__()", "        here = os.path.dirname(__file__)"]
        for name, module in self.named_children():
            tede.save(module, folder / f"{name}.pt")
            lines.append(f"        self.{name} = torch.load(os.path.join(here, '{name}.pt'), weights_only=False)")
        for name, value in self._buffers.items():
            if value is not None:
                lines.append(f"        self.register_buffer('{name}', torch.empty({list(value.shape)}, dtype={_torch(value.dtype)}), "
                             f"persistent={name not in self._non_persistent_buffers_set})")
        for name, value in self._parameters.items():
            if value is not None:
                lines.append(f"        self.{name} = torch.nn.Parameter(torch.empty({list(value.shape)}, dtype={_torch(value.dtype)}), "
                             f"requires_grad={value.requires_grad})")
        lines.append("        self.load_state_dict(torch.load(os.path.join(here, 'state_dict.pt')))")
        body = self._code.strip().replace("\n", "\n    ")
        (folder / "module.py").write_text("\n".join(lines) + f"\n\n    {body}\n")
        (folder / "__init__.py").write_text("from .module import *\n")

    def add_submodule(self, target, m):
        """Put a module at a path; False if a part of the path isn't a module."""
        *path, field = target.split(".")
        at = self
        for item in path:
            if not hasattr(at, item):
                setattr(at, item, Module())
            at = getattr(at, item)
            if not isinstance(at, Module):
                return False
        at.add_module(field, m)
        return True

    def delete_submodule(self, target):
        *path, field = target.split(".")
        at = self
        for item in path:
            at = getattr(at, item, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, field, None), Module):
            return False
        delattr(at, field)
        return True

    def delete_all_unused_submodules(self):
        """Remove the submodules that no node calls."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    try:
                        module = self.get_submodule(node.target)
                    except AttributeError:
                        continue            # it is still to be added
                    used.update(f"{node.target}.{name}" for name, _ in module.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))       # known before what may refer to it is copied
        memo[id(self)] = made
        plain = Module()
        plain.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items() if key not in ("_graph", "_code")})
        GraphModule.__init__(made, plain, copy.deepcopy(self._graph), type(self).__name__)
        return made

    def _replicate_for_data_parallel(self):
        made = self.__copy__()
        made._is_replica = True
        return made

    def __copy__(self):
        return GraphModule(self, self._graph, type(self).__name__)

    def __str__(self):
        return "\n".join([super().__str__(), self._code, "# To see more debug info, please use `graph_module.print_readable()`"])
