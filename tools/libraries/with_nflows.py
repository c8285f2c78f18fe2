"""A masked autoregressive flow fitted to two moons of noise.
pip: nflows
tolerance: 1e-3"""
import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

torch.manual_seed(0)
flow = Flow(CompositeTransform([t for _ in range(2) for t in (ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 8))]),
            StandardNormal([2]))
optimizer, x = torch.optim.Adam(flow.parameters(), 1e-2), torch.randn(64, 2) * torch.tensor([1., 0.3])
for _ in range(4):
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
print('sample', flow.sample(3).tolist())
