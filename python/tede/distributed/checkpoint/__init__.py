"""torch.distributed.checkpoint: checkpoints that ranks write together and any number of ranks reads."""
from tede.distributed.checkpoint.api import CheckpointException
from tede.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from tede.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from tede.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from tede.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from tede.distributed.checkpoint.state_dict_loader import load, load_state_dict
from tede.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from tede.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = ["CheckpointException", "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "BytesStorageMetadata",
           "ChunkStorageMetadata", "Metadata", "TensorStorageMetadata", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "WriteItem", "load",
           "load_state_dict", "async_save", "save", "save_state_dict", "StorageReader", "StorageWriter"]
