"""ResNet, MobileNet, segmentation and transforms.
pip: torchvision==0.28.0
tolerance: 1e-3"""
import torch
import torchvision as tv
from torchvision.transforms import v2

for name in 'resnet18', 'mobilenet_v3_small', 'shufflenet_v2_x0_5', 'lraspp_mobilenet_v3_large':
    torch.manual_seed(0)
    many = tv.models.segmentation if 'raspp' in name else tv.models
    model = getattr(many, name)(num_classes=4, **({'weights_backbone': None} if 'raspp' in name else {}))
    out = model(torch.randn(2, 3, 64, 64))
    out = out['out'] if isinstance(out, dict) else out
    out.square().mean().backward()
    print(name, out.detach().norm().item(), sum(p.grad.double().square().sum().item() for p in model.parameters() if p.grad is not None))
torch.manual_seed(0)
change = v2.Compose([v2.RandomResizedCrop(24, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(.2, .2, .2), v2.Normalize([.5] * 3, [.2] * 3)])
print('transformed', change(torch.rand(3, 32, 32)).mean().item())
print('grid', tv.utils.make_grid(torch.rand(4, 3, 8, 8)).mean().item())
