"""A UNet for segmentation with Dice loss, transforms and sliding windows.
pip: monai
tolerance: 1e-3"""
import monai
import torch
from monai.inferers import sliding_window_inference
from monai.transforms import Compose, NormalizeIntensity, RandFlip, RandGaussianNoise

monai.utils.set_determinism(0)
model = monai.networks.nets.UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
loss_of, optimizer = monai.losses.DiceCELoss(to_onehot_y=True, softmax=True), torch.optim.Adam(model.parameters(), 1e-2)
transform = Compose([NormalizeIntensity(), RandFlip(0.5, 0), RandGaussianNoise(0.5)])
images = torch.stack([torch.as_tensor(transform(image)) for image in torch.rand(2, 1, 16, 16, 16)])
labels = (images > 0).float()
for _ in range(3):
    loss = loss_of(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
with torch.no_grad():
    whole = sliding_window_inference(torch.rand(1, 1, 24, 24, 24), (16, 16, 16), 2, model.eval())
print('windows', whole.mean().item(), whole.std().item())
metric = monai.metrics.DiceMetric()
metric(torch.nn.functional.one_hot(model(images).argmax(1), 2).movedim(-1, 1), torch.nn.functional.one_hot(labels[:, 0].long(), 2).movedim(-1, 1))
print('Dice', metric.aggregate().item())
