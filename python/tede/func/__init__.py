"""tede.func: function transforms (grad, vjp, jvp, jacrev, jacfwd, hessian, vmap, functionalize).  See docs/transforms.md.

    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, targets)
"""
from tede.func._derivatives import (
    _slice_argnums, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp)  # noqa: F401
from tede.func import _function  # noqa: F401  lets autograd.Function know of levels
from tede.func._functionalize import functionalize
from tede.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from tede.func._vmap import chunk_vmap, vmap  # noqa: F401
from tede.func._debug import debug_unwrap

__all__ = ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "linearize", "functionalize",
           "functional_call", "stack_module_state", "replace_all_batch_norm_modules_", "debug_unwrap"]
