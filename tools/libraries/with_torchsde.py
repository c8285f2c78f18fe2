"""A stochastic differential equation integrated with a fixed Brownian path.
pip: torchsde
tolerance: 1e-3"""
import torch
import torchsde

torch.manual_seed(0)


class Equation(torch.nn.Module):
    noise_type, sde_type = 'diagonal', 'ito'

    def __init__(self):
        super().__init__()
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


equation, start = Equation(), torch.full((4, 3), 0.1)
path = torchsde.BrownianInterval(0., 1., size=(4, 3), entropy=7, levy_area_approximation='space-time')
out = torchsde.sdeint(equation, start, torch.linspace(0, 1, 5), bm=path, dt=0.05)
out.square().mean().backward()
print('end', out[-1].mean().item(), 'gradient', equation.drift.weight.grad.norm().item())
