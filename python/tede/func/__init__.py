"""Functions of functions: gradients, Jacobians, batches.  See docs/transforms.md.

    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, targets)
"""
from tede.func._derivatives import (  # noqa: F401
    grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp)
from tede.func._functionalize import functionalize  # noqa: F401
from tede.func._modules import functional_call, stack_module_state  # noqa: F401
from tede.func._vmap import vmap  # noqa: F401
from tede.func._debug import debug_unwrap  # noqa: F401

__all__ = ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "linearize", "functionalize",
           "functional_call", "stack_module_state", "debug_unwrap"]
