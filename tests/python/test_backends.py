"""Flags of torch.backends."""
import pytest

import tede


def test_flags_can_be_left_to_their_context_managers(monkeypatch):
    monkeypatch.setattr(tede.backends, "_frozen", False)        # what is set below ends with the test
    tede.backends.cudnn.benchmark = False
    tede.backends.disable_global_flags()
    assert tede.backends.flags_frozen()
    for module, name in ((tede.backends.cudnn, "enabled"), (tede.backends.mkldnn, "enabled")):
        with pytest.raises(RuntimeError, match="not allowed to set torch.backends.* flags after disable_global_flags"):
            setattr(module, name, False)
    with tede.backends.cudnn.flags(enabled=False):
        assert tede.backends.cudnn.enabled is False
    assert tede.backends.cudnn.enabled is True
    with tede.backends.__allow_nonbracketed_mutation():
        tede.backends.cudnn.enabled = True
    assert tede.backends.flags_frozen()
