"""Vision transformers of five papers, one training step each.
pip: vit-pytorch torchvision
tolerance: 1e-3"""
import torch
from vit_pytorch import ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.simple_vit import SimpleViT
from vit_pytorch.t2t import T2TViT

common = dict(image_size=32, num_classes=5, dim=32, depth=2, heads=4, mlp_dim=64)
makes = {
    'ViT': lambda: ViT(patch_size=8, dropout=0.1, **common), 'Simple': lambda: SimpleViT(patch_size=8, **common),
    'Deep': lambda: DeepViT(patch_size=8, **common), 'CaiT': lambda: CaiT(patch_size=8, cls_depth=1, **common),
    'T2T': lambda: T2TViT(t2t_layers=((7, 4), (3, 2)), **common),
}
for name, make in makes.items():
    torch.manual_seed(0)
    model = make()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 32, 32)), torch.tensor([1, 3]))
    loss.backward()
    print(name, loss.item(), sum(p.grad.double().square().sum().item() for p in model.parameters() if p.grad is not None))
