"""The thread's modes under the name that PyTorch has for their module."""
from tede._modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
