"""Differentially private SGD: per-sample gradients, an accountant.
pip: opacus
tolerance: 1e-3"""
import torch
from opacus import PrivacyEngine

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 1, 8, 8), torch.randint(0, 3, (32,))), 8)
engine = PrivacyEngine(accountant='rdp')
model, optimizer, data = engine.make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), 0.05), data_loader=data,
                                             noise_multiplier=1., max_grad_norm=1., poisson_sampling=False)
for x, y in data:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
print('epsilon', engine.get_epsilon(1e-5))
