"""TabNet fitted on made-up rows.
pip: pytorch-tabnet
tolerance: 5e-3"""
import numpy as np
from pytorch_tabnet.tab_model import TabNetClassifier

numbers = np.random.default_rng(0)
x = numbers.normal(size=(256, 6)).astype('float32')
y = (x[:, 0] > 0).astype(int)
model = TabNetClassifier(n_d=4, n_a=4, n_steps=2, seed=0, verbose=0, device_name='cpu')
model.fit(x, y, max_epochs=2, batch_size=64, virtual_batch_size=32)
print('loss', model.history['loss'])
print('importances', model.feature_importances_.tolist())
