"""The older name of hub's loading by address."""
from tede.hub import load_state_dict_from_url as load_url  # noqa: F401
