"""The buffer of a storage, which PyTorch's storages don't have."""
import tede


def test_a_buffer_keeps_its_memory_when_the_storage_grows():
    storage = tede.arange(500000.).untyped_storage()
    numbers = memoryview(storage).cast("B").cast("f")
    storage.resize_(2 * storage.nbytes())
    others = [tede.ones(500000) for _ in range(5)]          # which would be given the block if it were free
    assert (numbers[4], numbers[499999]) == (4, 499999) and others
    assert storage.nbytes() == 4000000
    numbers.release()
