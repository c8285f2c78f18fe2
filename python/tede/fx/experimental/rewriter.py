"""RewritingTracer: the sources of what it traces are changed first, so that an `assert` becomes a node, and a variable's annotation a node's type."""
import ast
import copy
import inspect
from types import CellType, FunctionType

import tede
from tede.fx._symbolic_trace import Tracer
from tede.fx.annotate import annotate
from tede.nn import Module, Sequential


class AST_Rewriter(ast.NodeTransformer):
    """assert a, b -> torch._assert(a, b), which a trace records; a: b = c -> a = annotate(c, b)."""

    def rewrite(self, fn):
        """The function with its source changed."""
        source = inspect.getsource(fn)
        tree = ast.parse("if True:\n" + source if source[:1].isspace() else source)     # to dedent it would change its strings
        tree = self.visit(ast.Module(tree.body[0].body, []) if source[:1].isspace() else tree)
        definition = tree.body[0]
        definition.decorator_list = []
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()), _tede_assert=CellType(tede._assert),
                     _tede_annotate=CellType(annotate))
        outer = ast.parse(f"def outer({', '.join(cells)}):\n    return {definition.name}").body[0]
        outer.body.insert(0, definition)
        tree.body[0] = outer
        scope = dict(fn.__globals__)            # where annotations and defaults are looked up while it is defined
        exec(compile(ast.fix_missing_locations(tree), "<rewritten>", "exec"), scope)
        made = scope["outer"](*[None] * len(cells))
        result = FunctionType(made.__code__, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in made.__code__.co_freevars))
        result.__kwdefaults__ = fn.__kwdefaults__
        result.__annotations__, result.__module__, result.__qualname__ = fn.__annotations__, fn.__module__, fn.__qualname__
        return result

    def visit_Assert(self, node):
        call = ast.Call(ast.Name("_tede_assert", ast.Load()), [node.test, node.msg or ast.Constant("")], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node):
        if node.value is None:
            return node
        call = ast.Call(ast.Name("_tede_annotate", ast.Load()), [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


class RewritingTracer(Tracer):
    def trace(self, root, concrete_args=None):
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn):
    """A function, or a module and those within it, with rewritten sources. The modules are shallow copies."""
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)
    made = copy.copy(fn)
    made.__dict__ = dict(fn.__dict__)
    made._modules = {name: m if m is None or m.__module__.startswith(("tede.nn", "torch.nn")) and not isinstance(m, Sequential) else _rewrite(m)
                     for name, m in fn._modules.items()}
    forward = type(fn).forward
    if inspect.isfunction(forward):
        made.__class__ = type(type(fn).__name__, (type(fn),), {"forward": AST_Rewriter().rewrite(forward), "__module__": type(fn).__module__})
    return made
