"""tede.compile: regions, in which Python runs every time and operators are computed late (src/region/)."""
import functools

from tede import _C
from tede.nn.modules.module import Module


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, disable=False):
    """A function, or a module, whose operators are recorded and computed together.

    Python runs at each call, as without compile: control flow, hooks and state mean what they say. An operator checks its arguments and
    describes its result where it is called; elements are computed when a value is needed (``item()``, printing, NumPy, a write to
    memory that the program has otherwise) or when the function returns. Then what nobody needs is left out, and elementwise operators, reductions
    along rows, softmax and norms that follow each other are done slab by slab, in the cache, with the results that they have without compile, to the bit. That is
    tier 1. In tier 2 a C compiler makes one loop of what comes again: in the background, where there is a compiler. Its first run is compared with tier 1;
    the last bits of results may differ.

    Args:
        model: a function or a module; without one, a decorator is returned.
        fullgraph: if True, it is a RuntimeError that a value is needed before the function returns; the message names what needed it, and the line.
        backend: None, "inductor" and other names that nobody registered are the library's own; "eager" runs the model as it is. A function is passed a
            torch.fx.GraphModule of what was called and the tensors that it takes, and what it returns is called instead, then and when the
            same calls come again on tensors of the same description. Where a value is needed early a graph ends, and another begins.
        mode: PyTorch's names. All of them measure both tiers, and calls as they would be without compile, and take the quickest way. "reduce-overhead" and
            "max-autotune" launch what a device with graphs is asked for as graphs, once it has come twice with the same addresses, sizes and numbers.
        options: a dict. tier: 1 or 2, where the ways would be measured; compiler: the program's name, where TEDE_COMPILER or cc would be called;
            "triton.cudagraphs": the graphs of these modes. A backend that is a function is passed mode and options, if given.
        dynamic: accepted; sizes are never compiled in, but for a backend's graphs.
        disable: the model itself is returned.

    Example:
        >>> f = tede.compile(lambda x: (x - x.mean(-1, keepdim=True)).relu())
        >>> f(tede.tensor([[1., 3.]]))
        tensor([[0., 1.]])
    """
    if model is None:
        return lambda model: compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                     options=options, disable=disable)
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if not callable(model):
        raise RuntimeError(f"torch.compile: a function or a module is needed, not {type(model).__name__}")
    backend = default_backend if backend is None else backend
    backend = backends.get(backend, backend) if isinstance(backend, str) else backend
    if disable or backend == "eager":
        return model
    if callable(backend):
        options = {name: value for name, value in (("mode", mode), ("options", options)) if value is not None}
        wrap = functools.partial(in_graphs, backend=backend, fullgraph=fullgraph, options=options)
    else:
        wrap = functools.partial(in_region, fullgraph=fullgraph, **tier_of(mode, options))
    return OptimizedModule(model, wrap) if isinstance(model, Module) else wrap(model)


default_backend = None      # tede.compiler.set_default_backend
backends = {}               # the names of functions that register_backend was passed


def register_backend(compiler_fn=None, name=None, tags=()):
    """Give a backend a name, its own if there is no other, for compile(backend=name). Also a decorator."""
    if compiler_fn is None:
        return lambda compiler_fn: register_backend(compiler_fn, name, tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: a function is needed, not {type(compiler_fn).__name__}")
    backends[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def list_backends(exclude_tags=()):
    """The names of the backends that were registered."""
    return sorted(backends)


MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def tier_of(mode, options):
    """What `mode` and `options` say of regions: the tier (0: the quicker one), the compiler's name, and whether devices' work becomes graphs."""
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    tier, compiler = (options or {}).get("tier", 0), (options or {}).get("compiler")
    if tier not in (0, 1, 2):
        raise RuntimeError(f"options: tier is 1 or 2, not {tier!r}")
    graphs = mode in ("reduce-overhead", "max-autotune") or bool((options or {}).get("triton.cudagraphs", False))
    return {"tier": tier, "compiler": None if compiler is None else str(compiler), "graphs": graphs}


def in_region(function, fullgraph=False, tier=0, compiler=None, graphs=False):
    """The function within a region, or as it is where measuring finds that quicker: Note [Measured calls] in python/csrc/region.c."""
    call = _C.Compiled(function, tier, compiler, fullgraph, graphs)

    def whole(*args, **kwargs):
        from tede._region_report import Watch
        with Watch(refuse=True):
            return call(*args, **kwargs)
    compiled = functools.update_wrapper(whole if fullgraph else call, function)
    compiled._torchdynamo_orig_callable = function
    compiled._tede_tier = tier, compiler
    return compiled


def in_graphs(function, backend, fullgraph, options):
    """The function, recorded as graphs for a backend."""
    graphs = []

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        if not graphs:
            from tede._graphs import Graphs
            graphs.append(Graphs(backend, fullgraph, **options))
        return graphs[0].call(function, args, kwargs)
    compiled._torchdynamo_orig_callable = function
    return compiled


class OptimizedModule(Module):
    """A module that is called as `wrap` says. Its parameters, attributes and state are those of `_orig_mod`."""

    def __init__(self, module, wrap=in_region):
        super().__init__()
        self._orig_mod = module
        vars(self)["forward"] = wrap(module)
        vars(self)["_tede_wrap"] = wrap
        self.training = module.training

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training") or name in vars(type(self)):
            super().__setattr__(name, value)
            if name == "training" and "_orig_mod" in self._modules:
                self._orig_mod.training = value
        elif "_orig_mod" in vars(self).get("_modules", ()):
            setattr(self._orig_mod, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __dir__(self):
        return dir(self._orig_mod) + ["_orig_mod"]

    def __reduce__(self):
        return OptimizedModule, (self._orig_mod, vars(self)["_tede_wrap"])


def stats():
    """What regions have counted since the process began: a dict of regions, recorded_calls, dropped_calls, fused_calls, early_flushes; and of
    joined calls in tier 2 plans, compiled_plans, discarded_plans, cache_hits, compiled_groups. direct_calls: of compiled functions, where measuring
    found them quicker without a region. graphs, graph_launches, graph_calls: of devices, graphs that were recorded, their launches, and the calls in them."""
    return _C._region_counts()
