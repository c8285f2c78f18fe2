"""PyTorch's package functorch, for programs under tede.as_torch that import it."""
from tede.func._functorch import (  # noqa: F401
    FunctionalModule, FunctionalModuleWithBuffers, combine_state_for_ensemble, functionalize, grad, grad_and_value, hessian, jacfwd,
    jacrev, jvp, make_functional, make_functional_with_buffers, vjp, vmap)
from tede.fx.experimental.proxy_tensor import make_fx  # noqa: F401
