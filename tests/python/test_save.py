"""Saving never leaves a file that is neither the old one nor the new one."""
import io
import resource
import signal

import pytest

import tede


class Broken:
    def __reduce__(self):
        raise ValueError("can't be saved")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_keeps_what_was_there(tmp_path, zipped, there):
    path = tmp_path / "x.pt"
    if there:
        tede.save({"x": tede.arange(3.0)}, path)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200000, before[1]))
    try:
        with pytest.raises((OSError, RuntimeError)):
            tede.save({"x": tede.zeros(1000000)}, path, _use_new_zipfile_serialization=zipped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [p.name for p in tmp_path.iterdir()] == (["x.pt"] if there else [])
    assert not there or tede.load(path)["x"].tolist() == [0, 1, 2]


def test_what_cannot_be_pickled_keeps_what_was_there(tmp_path):
    path = tmp_path / "x.pt"
    tede.save([1], path)
    with pytest.raises(ValueError, match="can't be saved"):
        tede.save([tede.zeros(3), Broken()], path)
    assert tede.load(path) == [1] and [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_a_class_of_storages_among_the_values_is_saved_again():
    file, again = io.BytesIO(), io.BytesIO()
    tede.save([tede.FloatStorage, tede.ones(2)], file)
    file.seek(0)
    tede.save(tede.load(file), again)
    again.seek(0)
    kind, x = tede.load(again)
    assert str(kind) == "StorageType(dtype=tede.float32)" and x.tolist() == [1, 1]
