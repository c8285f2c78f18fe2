"""Ten optimizers of the collection, three steps each.
pip: pytorch_optimizer
tolerance: 1e-3"""
import torch
from pytorch_optimizer import load_optimizer

for name in 'adabelief', 'adan', 'adopt', 'came', 'lamb', 'lion', 'prodigy', 'ranger', 'sophiah', 'tiger':
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer, x, y = load_optimizer(name)(model.parameters(), lr=1e-2), torch.randn(16, 8), torch.randn(16, 1)
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward(create_graph=name == 'sophiah')
        optimizer.step()
    print(name, loss.item(), sum(p.detach().abs().sum().item() for p in model.parameters()))
