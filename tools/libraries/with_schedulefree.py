"""Schedule-free AdamW and SGD, with train and eval modes.
pip: schedulefree"""
import schedulefree
import torch

for make in schedulefree.AdamWScheduleFree, schedulefree.SGDScheduleFree:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer, x, y = make(model.parameters(), lr=1e-2), torch.randn(16, 8), torch.randn(16, 1)
    optimizer.train()
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(make.__name__, loss.item())
    optimizer.eval()
    print(make.__name__, model.weight.norm().item())
