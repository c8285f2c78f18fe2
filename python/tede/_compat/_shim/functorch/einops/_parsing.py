"""How patterns of rearrange are read."""
from tede.func._einops import _ellipsis, AnonymousAxis, parse_pattern, ParsedExpression, validate_rearrange_expressions  # noqa: F401
