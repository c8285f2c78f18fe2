"""Sinkhorn and kernel distances between point clouds, with gradients.
pip: geomloss
tolerance: 1e-3"""
import torch
from geomloss import SamplesLoss

torch.manual_seed(0)
x, y = torch.rand(30, 2, requires_grad=True), torch.rand(40, 2)
for name in 'sinkhorn', 'energy', 'gaussian', 'laplacian':
    loss = SamplesLoss(name, blur=0.05, backend='tensorized')(x, y)
    grad, = torch.autograd.grad(loss, x)
    print(name, loss.item(), grad.norm().item())
