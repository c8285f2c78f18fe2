"""Models from a folder with a hubconf.py. Nothing is fetched from repositories; weights may be, by their address."""
import importlib.util
import os
import re
import sys

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_dir = None
READ_DATA_CHUNK, MODULE_HUBCONF, VAR_DEPENDENCY = 1 << 17, "hubconf.py", "dependencies"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


class _Silent:
    """Stands for tqdm where it isn't installed: counts, and shows nothing."""

    def __init__(self, iterable=None, total=None, **options):
        self.iterable, self.total, self.n = iterable, total, 0

    def __iter__(self):
        return iter(self.iterable)

    def update(self, n=1):
        self.n += n

    def close(self):
        """Nothing is open."""

    set_description = set_postfix = close

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def __getattr__(name):
    if name == "tqdm":
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = _Silent
        globals()[name] = tqdm
        return tqdm
    if name in ("HTTPError", "URLError"):
        import urllib.error as place
    elif name in ("Request", "urlopen"):
        import urllib.request as place
    elif name == "urlparse":
        import urllib.parse as place
    else:
        place = None
    if place is not None:
        return getattr(place, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _get_torch_home():
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    """Where downloads are kept: TORCH_HOME/hub, else ~/.cache/torch/hub."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def set_dir(d):
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _hubconf(repo, source):
    if source == "github":
        raise NotImplementedError("torch.hub: repositories aren't fetched here; clone it, and use source='local'")
    if source != "local":
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = os.path.expanduser(os.fspath(repo))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"[Errno 2] No such file or directory: '{path}'")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf.py", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return folder, module


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, name, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    """What the entry point `model` of a folder's hubconf.py returns: load(folder, name, source="local")."""
    folder, module = _hubconf(repo_or_dir, source.lower())
    sys.path.insert(0, folder)
    try:
        return _entry(module, model)(*args, **kwargs)
    finally:
        sys.path.remove(folder)


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """The entry points of a folder's hubconf.py."""
    module = _hubconf(github, "local" if os.path.isdir(os.fspath(github)) else "github")[1]
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """The docstring of an entry point."""
    return _entry(_hubconf(github, "local" if os.path.isdir(os.fspath(github)) else "github")[1], model).__doc__


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Fetch a file; its SHA-256 must begin with hash_prefix."""
    import hashlib
    import tempfile
    import urllib.request
    dst, digest = os.path.expanduser(dst), hashlib.sha256()
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(dst)))
    try:
        with os.fdopen(fd, "wb") as file, urllib.request.urlopen(url) as source:
            while data := source.read(1 << 20):
                digest.update(data)
                file.write(data)
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        os.replace(temporary, dst)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
                             weights_only=False):
    """Load a checkpoint by its address, from the folder of downloads if it is there."""
    from urllib.parse import urlparse
    from tede.serialization import load as load_file
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
