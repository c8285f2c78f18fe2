"""functorch.experimental, whose names have since moved to tede.func."""
from tede.func import (  # noqa: F401
    chunk_vmap, functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_)
