"""How checkpoints are loaded and saved where a call doesn't say."""
from tede.utils.serialization import config as config
