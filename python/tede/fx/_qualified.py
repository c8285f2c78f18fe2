"""Qualified names of functions and types, for generated code."""
import builtins
import operator
import re


def qualified_name(function):
    """Where a function is found: "_operator.add", "torch.relu", "torch.nn.functional.linear", "torch.ops.aten.add.Tensor"."""
    if hasattr(function, "_overloadname") or hasattr(function, "_qualified_op_name"):
        return f"torch.ops.{function}"
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return function.__name__
    return ".".join(_place(function)[:2])


def _place(function):
    """(module's name, attribute, module) of a function; the module is named as in PyTorch."""
    import tede
    name = getattr(function, "__name__", "")
    if getattr(operator, name, None) is function:
        return "_operator", name, operator
    for path in ("", ".nn.functional", ".special", ".linalg", ".fft"):
        module = tede
        for part in path.split(".")[1:]:
            module = getattr(module, part)
        if module.__dict__.get(name) is function or (path == "" and name and getattr(tede, name, None) is function):
            return "torch" + path, name, module
    module = getattr(function, "__module__", None) or "builtins"
    return re.sub(r"^tede\b", "torch", module), getattr(function, "__qualname__", name).replace("<", "_").replace(">", "_"), None


def shown_name(function):
    """The name in print(graph): as qualified_name, and with the module of what is built in."""
    name = qualified_name(function)
    if getattr(builtins, name, None) is function:
        return f"builtins.{name}"
    return name.replace("_operator.", "operator.")


def _type_repr(kind):
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__origin__") else str(kind)
