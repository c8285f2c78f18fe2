"""torch._functorch, a package there: libraries put functions of their own into its modules, so those are ours, not copies."""
from tede import func
from tede.func import _function as autograd_function, _functorch as make_functional, _interpreters as utils, _vmap as vmap, config  # noqa: F401

apis = eager_transforms = functional_call = func
deprecated = make_functional
__path__ = []               # a package there: names.txt has its modules
