"""PPO's loss on a small actor and critic, a replay buffer and TensorDict modules.
pip: torchrl tensordict
tolerance: 1e-3"""
import os

os.environ['RL_LOGGING_LEVEL'] = 'ERROR'     # it logs to standard output, with the time of day
import torch  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from tensordict.nn import NormalParamExtractor, TensorDictModule  # noqa: E402
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer  # noqa: E402
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator  # noqa: E402
from torchrl.objectives import ClipPPOLoss  # noqa: E402
from torchrl.objectives.value import GAE  # noqa: E402

torch.manual_seed(0)
policy = torch.nn.Sequential(MLP(4, 4, num_cells=[16]), NormalParamExtractor())
actor = ProbabilisticActor(TensorDictModule(policy, ['observation'], ['loc', 'scale']), in_keys=['loc', 'scale'], distribution_class=TanhNormal,
                           return_log_prob=True)
critic = ValueOperator(MLP(4, 1, num_cells=[16]), in_keys=['observation'])
data = TensorDict({'observation': torch.randn(8, 5, 4), 'next': TensorDict({
    'observation': torch.randn(8, 5, 4), 'reward': torch.randn(8, 5, 1), 'done': torch.zeros(8, 5, 1, dtype=torch.bool),
    'terminated': torch.zeros(8, 5, 1, dtype=torch.bool)}, [8, 5])}, [8, 5])
with torch.no_grad():
    data = actor(data)
GAE(gamma=0.99, lmbda=0.95, value_network=critic)(data)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(40), batch_size=16)
buffer.extend(data.reshape(-1))
loss_of = ClipPPOLoss(actor, critic)
optimizer = torch.optim.Adam(loss_of.parameters(), 1e-3)
for _ in range(3):
    losses = loss_of(buffer.sample())
    loss = losses['loss_objective'] + losses['loss_critic'] + losses['loss_entropy']
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
