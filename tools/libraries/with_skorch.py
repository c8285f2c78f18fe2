"""A classifier in a scikit-learn pipeline and a grid search.
pip: skorch scikit-learn
tolerance: 1e-3"""
import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

torch.manual_seed(0)
numbers = np.random.default_rng(0)
x, y = numbers.normal(size=(90, 6)).astype('float32'), numbers.integers(0, 3, 90)


class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Linear(width, 3), torch.nn.Softmax(-1))

    def forward(self, x):
        return self.net(x)


net = NeuralNetClassifier(Net, max_epochs=3, lr=0.1, verbose=0)
pipe = make_pipeline(StandardScaler(), net).fit(x, y)
print('history', net.history[:, 'train_loss'] if hasattr(net, 'history_') else pipe[-1].history[:, 'train_loss'])
print('probabilities', pipe.predict_proba(x)[:2].ravel().tolist())
search = GridSearchCV(net, {'module__width': [4, 8]}, cv=2, scoring='accuracy').fit(x, y)
print('best', search.best_score_)
