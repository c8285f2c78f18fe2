"""Which modules run: ModuleTracker knows it in the forward and in the backward pass."""
import weakref

import tede
from tede.autograd.graph import register_multi_grad_hook
from tede.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from tede.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


def _with_gradients(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, tede.Tensor) and x.requires_grad]


class ModuleTracker:
    """A context whose `parents` is the set of the names of the modules that run now: "Global", and for each module the name of
    the class of the outermost one it was first seen in with its path ("Net.layers.0"). In the backward pass a module runs from the
    time when the gradients of all its outputs are there to the time when those of its inputs are; `is_bw` says that it is the
    backward pass."""

    def __init__(self):
        self.parents = {"Global"}
        self._names = weakref.WeakKeyDictionary()
        self._seen = weakref.WeakSet()
        self._hooks = []
        self._ends = False          # a callback at the end of the running backward pass is queued

    @property
    def is_bw(self):
        return tede._C._current_graph_task_id() != -1

    def _name(self, module):
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child_name, child in module.named_children():
                self._names[child] = f"{name}.{child_name}"
                self._name(child)
        return name

    def _forget(self):
        self.parents, self._ends = {"Global"}, False

    def _enter_backward(self, name):
        if not self._ends:
            self._ends = True
            tede._C._queue_callback(self._forget)
        self.parents.add(name)

    def _before(self, module, args):
        name = self._name(module)
        self.parents.add(name)
        tensors = _with_gradients(args)
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, lambda grads: self.parents.discard(name)))

    def _after(self, module, args, output):
        name = self._name(module)
        self.parents.discard(name)
        tensors = _with_gradients(output)
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, lambda grads: self._enter_backward(name)))

    def __enter__(self):
        self._hooks += [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
