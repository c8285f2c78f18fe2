"""A trainer and an evaluator with metrics, handlers and a checkpoint.
pip: pytorch-ignite"""
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
loss = torch.nn.CrossEntropyLoss()
data = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(4)]
trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), loss)
evaluator = create_supervised_evaluator(model, {'accuracy': Accuracy(), 'loss': Loss(loss)})


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(data)
    print(engine.state.epoch, engine.state.output, evaluator.state.metrics)


trainer.run(data, max_epochs=3)
