"""A search over learning rates of a small network.
pip: optuna"""
import optuna
import torch

optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    torch.manual_seed(0)
    model, x, y = torch.nn.Linear(4, 1), torch.randn(32, 4), torch.randn(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), trial.suggest_float('lr', 1e-3, 1e-1, log=True))
    for _ in range(10):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, 5)
print('best', study.best_value, study.best_params)
