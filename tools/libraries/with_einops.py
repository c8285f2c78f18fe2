"""rearrange, reduce, repeat, einsum, pack and the layers, with gradients.
pip: einops"""
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
y = rearrange(x, 'b c (h p) (w q) -> b (h w) (p q c)', p=4, q=4)
z = reduce(y, 'b n d -> b d', 'max') + repeat(torch.arange(48.), 'd -> b d', b=2)
print('forward', z.sum().item(), z.shape)
(einsum(z, z, 'b d, c d -> b c').sum()).backward()
print('gradient', x.grad.norm().item())
packed, shapes = pack([y, z], 'b *')
print('packed', packed.shape, [t.shape for t in unpack(packed, shapes, 'b *')])
layers = torch.nn.Sequential(Rearrange('b c h w -> b (c h w)'), torch.nn.Linear(192, 4), Reduce('b d -> b', 'mean'))
print('layers', layers(x).tolist())
