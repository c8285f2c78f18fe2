"""PyTorch's module functorch.experimental.control_flow."""
from tede._higher_order_ops import UnsupportedAliasMutationException, _stack_pytree, _unstack_pytree, cond, map  # noqa: F401
