"""Bayesian optimization: a fitted GP, expected improvement optimized.
pip: botorch
tolerance: 1e-2"""
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
x = torch.rand(12, 2, dtype=torch.float64)
y = -((x - 0.3) ** 2).sum(1, keepdim=True)
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
best, value = optimize_acqf(LogExpectedImprovement(model, y.max()), torch.tensor([[0., 0.], [1., 1.]], dtype=torch.float64), 1, 2, 16)
print('best', [round(v, 3) for v in best[0].tolist()])
