"""A temporal fusion transformer on a made-up series, trained by lightning for two epochs.
pip: pytorch-forecasting
tolerance: 2e-3"""
import lightning as L
import numpy as np
import pandas as pd
from pytorch_forecasting import QuantileLoss, TemporalFusionTransformer, TimeSeriesDataSet

L.seed_everything(0, verbose=False)
steps = 60
frame = pd.concat([pd.DataFrame({'time': np.arange(steps), 'value': np.sin(np.arange(steps) / 5 + k) + k, 'group': str(k)}) for k in range(3)], ignore_index=True)
data = TimeSeriesDataSet(frame, time_idx='time', target='value', group_ids=['group'], max_encoder_length=12, max_prediction_length=4,
                         time_varying_unknown_reals=['value'], time_varying_known_reals=['time'], static_categoricals=['group'])
model = TemporalFusionTransformer.from_dataset(data, hidden_size=8, attention_head_size=2, dropout=0.1, hidden_continuous_size=4,
                                               loss=QuantileLoss(), log_interval=-1)
trainer = L.Trainer(max_epochs=2, accelerator='cpu', logger=False, enable_progress_bar=False, enable_model_summary=False,
                    enable_checkpointing=False, gradient_clip_val=0.1)
trainer.fit(model, data.to_dataloader(train=True, batch_size=32, num_workers=0))
print('loss', trainer.callback_metrics['train_loss_epoch'].item())
