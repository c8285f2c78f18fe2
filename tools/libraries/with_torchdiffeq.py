"""A neural ODE by dopri5 with the adjoint method, trained for three steps.
pip: torchdiffeq
tolerance: 1e-3"""
import torch
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y ** 3)


field, start, when = Field(), torch.tensor([[2., 0.]]), torch.linspace(0, 1, 8)
goal = odeint(lambda t, y: y ** 3 @ torch.tensor([[-0.1, 2.], [-2., -0.1]]), start, when, method='dopri5')
print('true', goal[-1].tolist())
optimizer = torch.optim.Adam(field.parameters(), 1e-2)
for _ in range(3):
    loss = (odeint_adjoint(field, start, when) - goal).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
