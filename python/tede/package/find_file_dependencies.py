"""Which modules a source imports."""
import ast

__all__ = ["find_files_source_depends_on"]


def _resolved(name, package, level):
    """The module that `level` dots and a name stand for within a package."""
    if not level:
        return name
    parts = package.rsplit(".", level - 1)
    if len(parts) < level or not parts[0]:
        raise ValueError("attempted relative import beyond top-level package")
    return f"{parts[0]}.{name}" if name else parts[0]


def _imported(node, package):
    """What a call of __import__ with constant arguments imports; none where they aren't constant."""
    given = dict(zip(("name", "globals", "locals", "fromlist", "level"), node.args))
    given |= {word.arg: word.value for word in node.keywords}
    try:
        name, names, level = (ast.literal_eval(given[key]) if key in given else other
                              for key, other in (("name", None), ("fromlist", ()), ("level", 0)))
        level, names = int(level), tuple(names or ())
    except (ValueError, TypeError, SyntaxError):
        return
    if isinstance(name, str):
        module = _resolved(name, package, level)
        for inner in names or (None,):
            yield module, inner if inner not in ("", "*") else None


def find_files_source_depends_on(src, package):
    """Pairs of a module and of the name that is imported from it (None: the module itself, or all of its names), in a source that is a
    module of `package`."""
    found = {}
    for node in ast.walk(ast.parse(src)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys((alias.name, None) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            module = _resolved(node.module, package, node.level)
            found.update(dict.fromkeys((module, alias.name if alias.name != "*" else None) for alias in node.names))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
            found.update(dict.fromkeys(_imported(node, package)))
    return list(found)
