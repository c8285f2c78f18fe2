"""Between checkpoints of many ranks and files of save()."""
import tede
from tede.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from tede.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    tede.save(_load_state_dict_from_keys(checkpoint_id=dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    save(tede.load(torch_save_path, weights_only=False), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
