"""Stores and their errors, which are the extension's: see python/csrc/store.c."""
from tede._C import (
    DistBackendError, DistError, DistNetworkError, DistStoreError, FileStore, HashStore, PrefixStore, QueueEmptyError, Store, TCPStore)

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore", "PrefixStore", "QueueEmptyError",
           "Store", "TCPStore"]
