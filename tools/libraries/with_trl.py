"""Direct preference optimization's loss on a random GPT-2, by the trainer's own function.
pip: trl transformers
tolerance: 1e-3"""
import torch
import transformers
from trl.trainer.utils import selective_log_softmax

torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64))
tokens = torch.randint(0, 99, (4, 16))
chosen = selective_log_softmax(model(tokens).logits[:, :-1], tokens[:, 1:]).sum(-1)
loss = -torch.nn.functional.logsigmoid(0.1 * (chosen[:2] - chosen[2:])).mean()
loss.backward()
print('loss', loss.item(), sum(p.grad.double().square().sum().item() for p in model.parameters()))
