"""8-bit Adam, AdamW and Lion on a small network.
pip: bitsandbytes
tolerance: 1e-3"""
import bitsandbytes as bnb
import torch

for name in 'Adam8bit', 'AdamW8bit', 'Lion8bit':
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = getattr(bnb.optim, name)(model.parameters(), lr=1e-3, min_8bit_size=64)
    x, y = torch.randn(32, 64), torch.randn(32, 1)
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, loss.item())
