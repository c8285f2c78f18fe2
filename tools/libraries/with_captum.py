"""Attributions of a small network by nine methods.
pip: captum
tolerance: 1e-3"""
import captum.attr as attr
import numpy as np
import torch

torch.manual_seed(0)
np.random.seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)).eval()
x, base = torch.randn(2, 1, 8, 8), torch.zeros(2, 1, 8, 8)
print('integrated', attr.IntegratedGradients(model).attribute(x, base, target=1, n_steps=16).norm().item())
print('saliency', attr.Saliency(model).attribute(x, target=1).norm().item())
print('lift', attr.DeepLift(model).attribute(x, base, target=1).norm().item())
print('guided', attr.GuidedBackprop(model).attribute(x, target=1).norm().item())
print('deconvolution', attr.Deconvolution(model).attribute(x, target=1).norm().item())
print('GradCAM', attr.LayerGradCam(model, model[0]).attribute(x, target=1).norm().item())
print('occlusion', attr.Occlusion(model).attribute(x, (1, 4, 4), target=1, strides=2).norm().item())
print('Shapley', attr.GradientShap(model).attribute(x, base, target=1, n_samples=4).norm().item())
print('ablation', attr.FeatureAblation(model).attribute(x, target=1).norm().item())
