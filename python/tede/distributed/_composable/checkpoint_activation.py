"""checkpoint(): a module whose intermediate values are computed again for backward, by hooks around its forward."""
import contextlib

from tede.distributed._composable.contract import contract
from tede.utils.checkpoint import _DEFAULT_DETERMINISM_MODE, _without_reentrance, noop_context_fn

__all__ = ["checkpoint"]


class _Checkpointed:
    enable_hook, _ac_generator = True, None         # whether forward is the first one; what it has begun, and its end ends


@contextlib.contextmanager
def _again(module, context):
    """Forward is run for backward: without the hooks."""
    state = checkpoint.state(module)
    before, state.enable_hook = state.enable_hook, False
    try:
        with context:
            yield
    finally:
        state.enable_hook = before


@contract(_Checkpointed)
def checkpoint(module, *, use_reentrant=False, preserve_rng_state=True, context_fn=noop_context_fn, determinism_check=_DEFAULT_DETERMINISM_MODE, debug=False,
               early_stop=None, **unknown):
    """Calls of the module keep what goes in; the rest is computed again when backward needs it."""
    if use_reentrant:
        raise NotImplementedError("use_reentrant=True is not supported in composable checkpoint. Please use torch.utils.checkpoint.checkpoint instead.")
    if unknown:
        raise ValueError("Unexpected keyword arguments: " + ",".join(unknown))

    def contexts():
        first, second = context_fn()
        return first, _again(module, second)

    def begin(module, args, kwargs):
        state = checkpoint.state(module)
        if state.enable_hook:
            state._ac_generator = _without_reentrance(module, preserve_rng_state, contexts, determinism_check, debug, early_stop, args, kwargs)
            state._ac_generator.__enter__()

    def end(module, inputs, output):
        state = checkpoint.state(module)
        if state.enable_hook and state._ac_generator is not None:
            begun, state._ac_generator = state._ac_generator, None
            begun.__exit__(None, None, None)
    module.register_forward_pre_hook(begin, prepend=True, with_kwargs=True)
    module.register_forward_hook(end, prepend=True, always_call=True)
    return module
