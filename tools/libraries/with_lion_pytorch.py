"""Lion on a small network.
pip: lion-pytorch"""
import torch
from lion_pytorch import Lion

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer, x, y = Lion(model.parameters(), lr=1e-2, weight_decay=1e-2), torch.randn(16, 8), torch.randn(16, 1)
for _ in range(4):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
