"""A package's files as a tree."""
from tede.package.glob_group import GlobGroup

__all__ = ["Directory"]


class Directory:
    """A folder, or a file, in a package; printed as a tree, with folders first."""

    def __init__(self, name, is_dir):
        self.name, self.is_dir, self.children = name, is_dir, {}

    def has_file(self, filename):
        """Whether there is such a file, named by its path from here."""
        at = self
        for name in filename.split("/"):
            at = at.children.get(name)
            if at is None:
                return False
        return not at.is_dir

    def _add_file(self, path):
        *folders, last = path.split("/")
        at = self
        for name in folders:
            at = at.children.setdefault(name, Directory(name, True))
        at.children[last] = Directory(last, False)

    def _lines(self, before):
        children = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in children:
            last = child is children[-1]
            yield f"{before}{'└' if last else '├'}── {child.name}\n"
            yield from child._lines(before + ("    " if last else "│   "))

    def __str__(self):
        return f"─── {self.name}\n" + "".join(self._lines("    "))


def _tree_of(name, files, include="**", exclude=()):
    """The tree of those files whose paths match."""
    chosen, top = GlobGroup(include, exclude=exclude, separator="/"), Directory(name, True)
    for path in files:
        if chosen.matches(path):
            top._add_file(path)
    return top
