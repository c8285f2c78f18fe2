"""U-Net, FPN and DeepLabV3+ on a random encoder, trained for two steps with Dice loss.
pip: segmentation_models_pytorch torchvision
tolerance: 1e-3"""
import segmentation_models_pytorch as smp
import torch

for make in smp.Unet, smp.FPN, smp.DeepLabV3Plus:
    torch.manual_seed(0)
    model = make('resnet18', encoder_weights=None, in_channels=3, classes=2)
    x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 2, (2, 64, 64))
    loss_of, optimizer = smp.losses.DiceLoss('multiclass'), torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(make.__name__, loss.item())
