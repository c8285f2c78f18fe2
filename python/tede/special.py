"""tede.special: special functions."""
from tede import _C
from tede._namespace import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tede._C._special import *  # noqa: F403
__all__ = gather(globals(), _C._special, "special_", [(name, name) for name in (
    "digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "logit", "logsumexp", "polygamma", "round", "sinc", "xlogy",
    "i0", "log_softmax", "softmax", "entr", "i0e", "i1", "i1e", "ndtri", "log_ndtr")] + [
    ("expit", "sigmoid"), ("gammaln", "lgamma"), ("multigammaln", "mvlgamma"), ("psi", "digamma"), ("gammainc", "igamma"),
    ("gammaincc", "igammac")])
