"""The older name of hub's loading by address."""
from tede.hub import load_state_dict_from_url as load_url  # noqa: F401


def __getattr__(name):
    if name == "tqdm":
        from tede import hub
        return hub.tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
