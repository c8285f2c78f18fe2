"""A recognizer of commands trained by Brain on features that it computes, and an LSTM with CTC.
pip: speechbrain torchaudio==2.11.1
tolerance: 1e-3"""
import speechbrain
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models.Xvector import Classifier, Xvector
from speechbrain.nnet.losses import ctc_loss, nll_loss
from speechbrain.nnet.RNN import LSTM
from speechbrain.processing.features import InputNormalization

torch.manual_seed(0)
features, normalize = Fbank(n_mels=20), InputNormalization(norm_type='sentence')
print('features', features(torch.randn(2, 4000) * .1).mean().item())


class Commands(speechbrain.Brain):
    def compute_forward(self, batch, stage):
        waves, lengths, _ = batch
        return self.modules.classifier(self.modules.network(self.modules.normalize(features(waves), lengths), lengths))

    def compute_objectives(self, predictions, batch, stage):
        return nll_loss(predictions.log_softmax(-1), batch[2][:, None])

    def on_stage_end(self, stage, stage_loss, epoch=None):
        print(stage.name, stage_loss)


network = Xvector(in_channels=20, activation=torch.nn.LeakyReLU, tdnn_blocks=2, tdnn_channels=[16, 16], tdnn_kernel_sizes=[3, 1],
                  tdnn_dilations=[1, 1], lin_neurons=16)
classifier = Classifier(input_shape=(None, None, 16), lin_blocks=1, lin_neurons=16, out_neurons=3)
brain = Commands({'network': network, 'classifier': classifier, 'normalize': normalize}, lambda parameters: torch.optim.SGD(parameters, 1e-2),
                 run_opts={'device': 'cpu', 'noprogressbar': True})
batches = [(torch.randn(4, 4000) * .1, torch.tensor([1., 1., .8, .5]), torch.tensor([0, 1, 2, 0])) for _ in range(3)]
loader = torch.utils.data.DataLoader(batches, batch_size=None)
brain.fit(range(2), loader, loader)
brain.evaluate(loader, progressbar=False)

lstm, head = LSTM(hidden_size=8, input_shape=(2, 30, 20), bidirectional=True), torch.nn.Linear(16, 5)
out = head(lstm(torch.randn(2, 30, 20))[0]).log_softmax(-1)
loss = ctc_loss(out, torch.tensor([[1, 2, 3], [4, 1, 0]]), torch.ones(2), torch.tensor([1., .67]), blank_index=0)
loss.backward()
print('ctc', loss.item(), sum(p.grad.square().sum().item() for p in lstm.parameters()))
