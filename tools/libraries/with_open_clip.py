"""A small CLIP of random weights trained by its contrastive loss for three steps.
pip: open_clip_torch torchvision
tolerance: 1e-3"""
import open_clip
import torch

torch.manual_seed(0)
model = open_clip.CLIP(embed_dim=32, vision_cfg=dict(image_size=32, layers=2, width=64, patch_size=8, head_width=32),
                       text_cfg=dict(context_length=16, vocab_size=99, width=32, heads=2, layers=2)).train()
loss_of, optimizer = open_clip.ClipLoss(), torch.optim.AdamW(model.parameters(), 1e-3)
images, texts = torch.randn(4, 3, 32, 32), torch.randint(1, 99, (4, 16))
for _ in range(3):
    image, text, scale = model(images, texts)
    loss = loss_of(image, text, scale)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item(), 'scale', scale.item())
