"""Filters, geometry, colours, augmentations and features on random images, with gradients.
pip: kornia
tolerance: 1e-3"""
import kornia as K
import torch

torch.manual_seed(0)
image = torch.rand(2, 3, 32, 32, requires_grad=True)
steps = {
    'blur': lambda x: K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), 'sobel': K.filters.sobel, 'median': lambda x: K.filters.median_blur(x, (3, 3)),
    'canny': lambda x: K.filters.canny(x)[0], 'hsv': K.color.rgb_to_hsv, 'lab': K.color.rgb_to_lab,
    'rotate': lambda x: K.geometry.rotate(x, torch.tensor([30., -15.])), 'resize': lambda x: K.geometry.resize(x, (20, 24)),
    'perspective': lambda x: K.geometry.warp_perspective(x, torch.eye(3)[None].repeat(2, 1, 1) * torch.tensor([1., .9, 1.]), (32, 32)),
    'harris': K.feature.harris_response, 'dilation': lambda x: K.morphology.dilation(x, torch.ones(3, 3)),
}
for name, f in steps.items():
    out = f(image)
    grad, = torch.autograd.grad(out.sum(), image, allow_unused=True)
    print(name, out.mean().item(), out.std().item(), grad.norm().item())
augment = K.augmentation.AugmentationSequential(K.augmentation.RandomAffine(20.), K.augmentation.ColorJitter(.2, .2, .2, .1),
                                                K.augmentation.RandomHorizontalFlip())
print('augmented', augment(image).mean().item())
