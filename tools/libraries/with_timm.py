"""Train ResNet-18, a ViT, ConvNeXt and MobileNetV3 for two steps each.
pip: timm torchvision
tolerance: 1e-3"""
import timm
import timm.optim
import torch

for name in 'resnet18', 'vit_tiny_patch16_224', 'convnext_atto', 'mobilenetv3_small_050':
    torch.manual_seed(0)
    size = 64 if 'vit' not in name else 32
    model = timm.create_model(name, num_classes=10, **({'img_size': size} if 'vit' in name else {})).train()
    optimizer = timm.optim.create_optimizer_v2(model, 'adamw', lr=1e-4)
    images, labels = torch.randn(4, 3, size, size), torch.tensor([0, 1, 2, 3])
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, loss.item())
