"""Fit, validate and test a module with a scheduler, a checkpoint and gradient clipping.
pip: lightning"""
import tempfile

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3))

    def training_step(self, batch, index):
        return self.shared(batch, 'train')

    def validation_step(self, batch, index):
        return self.shared(batch, 'val')

    test_step = validation_step

    def shared(self, batch, name):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log(name, loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


L.seed_everything(0, verbose=False)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
with tempfile.TemporaryDirectory() as folder:
    trainer = L.Trainer(max_epochs=3, accelerator='cpu', gradient_clip_val=0.5, default_root_dir=folder, logger=False, enable_progress_bar=False,
                        enable_model_summary=False)
    net = Net()
    trainer.fit(net, DataLoader(data, 16, shuffle=True), DataLoader(data, 16))
    print('validated', trainer.callback_metrics['val'].item(), 'trained', trainer.callback_metrics['train'].item())
    again = Net.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    print('loaded', all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), again.state_dict().values())))
