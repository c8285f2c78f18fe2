"""Spherical harmonics, a tensor product and equivariance under rotation.
pip: e3nn
tolerance: 2e-3"""
import torch
from e3nn import o3

torch.manual_seed(0)
irreps = o3.Irreps('2x0e + 1x1o + 1x2e')
product = o3.FullyConnectedTensorProduct(irreps, o3.Irreps.spherical_harmonics(2), irreps)
x, position = irreps.randn(5, -1), torch.randn(5, 3)
out = product(x, o3.spherical_harmonics([0, 1, 2], position, True))
print('out', out.norm().item())
rotation = o3.rand_matrix()
turn = irreps.D_from_matrix(rotation)
turned = product(x @ turn.T, o3.spherical_harmonics([0, 1, 2], position @ rotation.T, True))
print('equivariant', bool(((out @ turn.T - turned).abs() < 1e-4).all()))
