"""Exact and variational Gaussian processes fitted for five steps.
pip: gpytorch linear_operator
tolerance: 1e-3"""
import gpytorch as gp
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 40)
y = torch.sin(6 * x) + 0.1 * torch.randn(40)


class Exact(gp.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean, self.kernel = gp.means.ConstantMean(), gp.kernels.ScaleKernel(gp.kernels.MaternKernel(2.5))

    def forward(self, x):
        return gp.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gp.likelihoods.GaussianLikelihood()
model = Exact(likelihood)
marginal, optimizer = gp.mlls.ExactMarginalLogLikelihood(likelihood, model), torch.optim.Adam(model.parameters(), 0.1)
for _ in range(5):
    loss = -marginal(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
model.eval(), likelihood.eval()
with torch.no_grad(), gp.settings.fast_pred_var():
    prediction = likelihood(model(torch.linspace(0, 1, 7)))
print('mean', prediction.mean.tolist(), 'variance', prediction.variance.tolist())
