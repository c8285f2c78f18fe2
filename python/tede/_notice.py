"""Notices printed once per process."""
_said = set()


def once(key, text, category=UserWarning):
    """A warning, the first time that its key comes."""
    if key not in _said:
        import warnings
        _said.add(key)
        warnings.warn(text, category, stacklevel=3)
