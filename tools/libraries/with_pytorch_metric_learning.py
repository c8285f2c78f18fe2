"""Triplet, contrastive and proxy losses with miners.
pip: pytorch-metric-learning
tolerance: 1e-3"""
import torch
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
x, labels = torch.randn(24, 8, requires_grad=True), torch.randint(0, 4, (24,))
miner = miners.MultiSimilarityMiner()
for make in (losses.TripletMarginLoss, losses.ContrastiveLoss, losses.NTXentLoss, losses.MultiSimilarityLoss, losses.CircleLoss):
    loss = make()(x, labels, miner(x, labels))
    grad, = torch.autograd.grad(loss, x)
    print(make.__name__, loss.item(), grad.norm().item())
proxy = losses.ProxyAnchorLoss(4, 8)
print('proxy', proxy(x, labels).item())
