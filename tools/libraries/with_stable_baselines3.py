"""PPO, A2C and DQN on CartPole for a few hundred steps.
pip: stable_baselines3 gymnasium
tolerance: 1e-3"""
import stable_baselines3 as sb
import torch

for algorithm, options in (sb.PPO, dict(n_steps=64, batch_size=32)), (sb.A2C, {}), (sb.DQN, dict(learning_starts=50)):
    model = algorithm('MlpPolicy', 'CartPole-v1', seed=0, device='cpu', **options)
    model.learn(128)
    print(algorithm.__name__, sum(p.double().abs().sum().item() for p in model.policy.parameters()))
    print(algorithm.__name__, model.predict(torch.zeros(4).numpy(), deterministic=True)[0].item())
