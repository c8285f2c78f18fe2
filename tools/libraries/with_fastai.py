"""A Learner on tabular and image tensors: fit one cycle, find, predict, export.
pip: fastai ipython
tolerance: 1e-3"""
import tempfile

import torch
from fastai.basics import DataLoader, DataLoaders, Learner, accuracy, set_seed
from fastai.callback.schedule import *  # noqa: F403
from fastai.layers import ConvLayer, Flatten
from fastai.losses import CrossEntropyLossFlat

set_seed(0, reproducible=True)
images, labels = torch.randn(64, 1, 8, 8), torch.randint(0, 3, (64,))
pairs = list(zip(images, labels))
loaders = DataLoaders(DataLoader(pairs, bs=16, shuffle=True), DataLoader(pairs, bs=16))
model = torch.nn.Sequential(ConvLayer(1, 8), ConvLayer(8, 8, stride=2), torch.nn.AdaptiveAvgPool2d(1), Flatten(), torch.nn.Linear(8, 3))
with tempfile.TemporaryDirectory() as folder:
    learner = Learner(loaders, model, loss_func=CrossEntropyLossFlat(), metrics=accuracy, path=folder)
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3, 1e-2)
        print('values', [[float(v) for v in row] for row in learner.recorder.values])
        print('found', learner.validate()[0])
        learner.save('one')
        learner.load('one')
        predicted, _ = learner.get_preds()
        print('predicted', predicted.mean(0).tolist())
