"""A training loop through Accelerator: prepared model, accumulation of gradients, saved and loaded state.
pip: accelerate"""
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1)), 8, shuffle=True)
model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2), data)
for _ in range(3):
    for x, y in data:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    print('loss', loss.item())
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = [p.clone() for p in model.parameters()]
    for p in model.parameters():
        p.data.zero_()
    accelerator.load_state(folder)
    print('loaded', all(torch.equal(a, b) for a, b in zip(before, model.parameters())))
