"""Train a UNet on noise, then denoise with DDPM and DDIM.
pip: diffusers
tolerance: 1e-3"""
import diffusers
import torch

torch.manual_seed(0)
unet = diffusers.UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64),
                             down_block_types=('DownBlock2D', 'AttnDownBlock2D'), up_block_types=('AttnUpBlock2D', 'UpBlock2D'))
schedule = diffusers.DDPMScheduler(num_train_timesteps=100)
optimizer, images = torch.optim.AdamW(unet.parameters(), 1e-4), torch.rand(4, 3, 16, 16)
for _ in range(3):
    noise, when = torch.randn_like(images), torch.randint(0, 100, (4,))
    loss = torch.nn.functional.mse_loss(unet(schedule.add_noise(images, noise, when), when).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
for pipeline in diffusers.DDPMPipeline(unet, schedule), diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler(num_train_timesteps=100)):
    pipeline.set_progress_bar_config(disable=True)
    image = pipeline(batch_size=1, num_inference_steps=4, generator=torch.Generator().manual_seed(1), output_type='np').images
    print(type(pipeline).__name__, float(image.mean()), float(image.std()))
