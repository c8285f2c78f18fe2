"""replicate(module): what DistributedDataParallel does, by hooks of the module itself, whose names stay.

DistributedDataParallel is made of the parameters alone, at the first forward pass, when all functions that change the module have been applied. It is
held by the state, which the module's __dict__ holds, so it isn't a child."""
import weakref

import tede
from tede import nn
from tede.distributed._composable.contract import _get_registry, _State, contract
from tede.nn.parallel import DistributedDataParallel

__all__ = ["replicate"]


def _is_fully_sharded(module):
    return "_fsdp_state" in module.__dict__


class _ReplicateState(_State):
    def __init__(self):
        self.module = self._ddp = None
        self.has_initialized, self._parameters, self._hooks = False, [], []
        self.require_backward_grad_sync = True

    def prepare(self, module, ignored_modules, options):
        self.module, self._ignored, self._options = module, set(ignored_modules), options

    def _collect(self, module):
        """Parameters of a module and of its children but for those that are ignored or belong to another function."""
        for p in module.parameters(recurse=False):
            if all(p is not other for other in self._parameters):
                self._parameters.append(p)
        for child in module.children():
            if child not in self._ignored and not _is_fully_sharded(child) and "replicate" not in (_get_registry(child) or ()):
                self._collect(child)

    def pre_forward(self, module, args, kwargs):
        if not self.has_initialized:
            self.has_initialized = True
            if self.module not in self._ignored:
                self._collect(self.module)
            self._ddp = DistributedDataParallel(nn.ParameterList(self._parameters), **self._options)
            for hook in self._hooks:
                self._ddp.register_comm_hook(*hook[0], **hook[1])
        self._ddp.require_backward_grad_sync = self.require_backward_grad_sync
        return self._ddp._pre_forward(*args, **kwargs)

    def post_forward(self, module, args, output):
        return self._ddp._post_forward(output)

    def _ddp_weakref(self):
        return self._ddp

    def register_comm_hook(self, *args, **kwargs):
        if self._ddp is None:
            self._hooks.append((args, kwargs))
        else:
            self._ddp.register_comm_hook(*args, **kwargs)

    def __deepcopy__(self, memo):
        raise NotImplementedError("a module that replicate() has been applied to can't be copied")


class DDP:
    """The functions that a module gets."""

    def set_requires_gradient_sync(self, requires_gradient_sync):
        """Whether backward passes average gradients over the ranks."""
        replicate.state(self).require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, *args, **kwargs):
        replicate.state(self).register_comm_hook(*args, **kwargs)


_classes = weakref.WeakKeyDictionary()


@contract(state_cls=_ReplicateState)
def replicate(module, ignored_modules=None, **kwargs):
    """Average the module's gradients over the ranks. `kwargs`: DistributedDataParallel's, and device_id, where the module is."""
    if "device_id" in kwargs:
        device = kwargs.pop("device_id")
        if device is not None:
            if isinstance(device, bool) or not isinstance(device, (int, tede.device)):
                raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
            kwargs["device_ids"] = None if isinstance(device, tede.device) and device.type == "cpu" else [device]
    if _is_fully_sharded(module):
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `fully_shard`")
    state = replicate.state(module)
    state.prepare(module, ignored_modules or (), kwargs)
    module.register_forward_pre_hook(state.pre_forward, prepend=True, with_kwargs=True)
    module.register_forward_hook(state.post_forward)
    cls = type(module)
    if cls not in _classes:
        _classes[cls] = type(f"DDP{cls.__name__}", (DDP, cls), {"__module__": cls.__module__})
    module.__class__ = _classes[cls]
    return module
