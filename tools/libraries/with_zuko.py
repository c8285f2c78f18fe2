"""A neural spline flow fitted for four steps.
pip: zuko
tolerance: 1e-3"""
import torch
import zuko

torch.manual_seed(0)
flow = zuko.flows.NSF(features=3, context=2, transforms=2, hidden_features=(16, 16))
optimizer, x, c = torch.optim.Adam(flow.parameters(), 1e-2), torch.randn(32, 3), torch.randn(32, 2)
for _ in range(4):
    loss = -flow(c).log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
print('sample', flow(c[0]).sample((2,)).tolist())
