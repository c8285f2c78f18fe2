"""SimCLR, BYOL and Barlow Twins: heads and losses on random features.
pip: lightly torchvision
tolerance: 1e-3"""
import torch
from lightly.loss import BarlowTwinsLoss, NegativeCosineSimilarity, NTXentLoss, VICRegLoss
from lightly.models.modules import SimCLRProjectionHead

torch.manual_seed(0)
head = SimCLRProjectionHead(16, 16, 8)
a, b = head(torch.randn(12, 16)), head(torch.randn(12, 16))
for make in NTXentLoss, BarlowTwinsLoss, NegativeCosineSimilarity, VICRegLoss:
    loss = make()(a, b)
    grads = torch.autograd.grad(loss, head.parameters(), retain_graph=True)
    print(make.__name__, loss.item(), sum(g.norm().item() for g in grads))
