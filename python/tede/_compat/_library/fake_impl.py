"""Kernels without values; see tede.library."""
from tede.library import FakeImplCtx, get_ctx  # noqa: F401
