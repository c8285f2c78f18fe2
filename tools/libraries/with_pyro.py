"""Variational inference and NUTS on a small model.
pip: pyro-ppl
tolerance: 1e-3"""
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

torch.set_default_dtype(torch.float64)      # a chain of floats goes another way after a rounding
pyro.set_rng_seed(0)
x = torch.randn(50)
y = 2 * x + 0.5 + 0.1 * torch.randn(50)


def model(x, y=None):
    slope, intercept = pyro.sample('slope', dist.Normal(0., 5.)), pyro.sample('intercept', dist.Normal(0., 5.))
    with pyro.plate('data', len(x)):
        pyro.sample('y', dist.Normal(slope * x + intercept, 0.1), obs=y)


svi = SVI(model, AutoNormal(model), pyro.optim.Adam({'lr': 0.05}), Trace_ELBO())
print('ELBO', [svi.step(x, y) for _ in range(5)])
chain = MCMC(NUTS(model), num_samples=20, warmup_steps=20, disable_progbar=True)
chain.run(x, y)
print('posterior', {name: value.mean().item() for name, value in chain.get_samples().items()})
