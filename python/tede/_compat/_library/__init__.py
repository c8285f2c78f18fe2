"""torch._library's modules, under the names that packages import. What they hold is tede.library's."""
from tede._library import autograd, custom_ops, fake_impl, infer_schema, utils  # noqa: F401
