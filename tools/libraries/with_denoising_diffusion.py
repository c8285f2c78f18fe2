"""A Gaussian diffusion with a small U-Net: loss, gradients, samples.
pip: denoising_diffusion_pytorch torchvision
tolerance: 2e-3"""
import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.manual_seed(0)
model = Unet(dim=16, dim_mults=(1, 2), flash_attn=False)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=10, sampling_timesteps=3)
loss = diffusion(torch.rand(2, 3, 16, 16))
loss.backward()
print('loss', loss.item(), sum(p.grad.double().square().sum().item() for p in model.parameters() if p.grad is not None))
print('sample', diffusion.sample(batch_size=1).mean().item())
