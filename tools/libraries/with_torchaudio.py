"""Filters, overdrive, a transducer's loss trained by a small RNN-T, forced alignment, spectrograms and their augmentations, a Conformer.
pip: torchaudio==2.11.1
tolerance: 1e-3"""
import torch
import torchaudio
from torchaudio import functional as F
from torchaudio import transforms as T

torch.manual_seed(0)
wave = torch.randn(2, 2000) * .1
a, b = torch.tensor([1., -.5, .2], requires_grad=True), torch.tensor([.3, .2, .1], requires_grad=True)
out = F.lfilter(wave, a, b)
out.square().sum().backward()
print('lfilter', out.norm().item(), a.grad.norm().item(), b.grad.norm().item())
print('biquads', F.lowpass_biquad(wave, 16000, 800.).norm().item(), F.equalizer_biquad(wave, 16000, 800., 3.).norm().item(),
      F.filtfilt(wave, torch.tensor([1., -.5]), torch.tensor([.5, .2])).norm().item())
print('overdrive', F.overdrive(wave, 20, 20).norm().item(), F.phaser(wave, 16000).norm().item(), F.flanger(wave[None], 16000).norm().item())

mel = T.MelSpectrogram(16000, n_fft=256, hop_length=64, n_mels=20)
print('mel', mel(wave).log1p().mean().item(), T.AmplitudeToDB()(mel(wave)).mean().item(),
      T.MFCC(16000, 13, melkwargs={'n_fft': 256, 'n_mels': 20})(wave).norm().item())
print('resample', T.Resample(16000, 12000)(wave).norm().item(), F.speed(wave, 16000, 1.2)[0].norm().item())
print('masking', T.TimeMasking(10)(T.FrequencyMasking(5)(mel(wave))).mean().item(),
      T.GriffinLim(256, 8, hop_length=64, rand_init=False)(T.Spectrogram(256, hop_length=64)(wave)).norm().item())


class Transducer(torch.nn.Module):
    def __init__(self, classes=6, width=16):
        super().__init__()
        self.encoder, self.predictor = torch.nn.GRU(20, width, batch_first=True), torch.nn.Embedding(classes, width)
        self.joiner = torch.nn.Linear(width, classes)

    def forward(self, features, labels):
        heard, _ = self.encoder(features)
        said = self.predictor(torch.nn.functional.pad(labels, (1, 0)))
        return self.joiner((heard[:, :, None] + said[:, None]).tanh())


model, labels = Transducer(), torch.randint(1, 6, (2, 4))
optimizer, features = torch.optim.Adam(model.parameters(), 1e-2), mel(wave).log1p().transpose(1, 2)
times, counts = torch.tensor([features.shape[1], features.shape[1] - 3], dtype=torch.int32), torch.tensor([4, 3], dtype=torch.int32)
for _ in range(5):
    loss = F.rnnt_loss(model(features, labels), labels.int(), times, counts, blank=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('rnnt_loss', loss.item())
print('clamped', T.RNNTLoss(blank=0, clamp=.1, reduction='none')(model(features, labels), labels.int(), times, counts).tolist())

emission = torch.randn(1, 12, 5).log_softmax(-1)
path, scores = F.forced_align(emission, torch.tensor([[1, 2, 2, 4]]))
print('forced_align', path.tolist(), scores.sum().item())
print('spans', [(span.token, span.start, span.end) for span in F.merge_tokens(path[0], scores[0])])
conformer = torchaudio.models.Conformer(20, 2, 16, 1, 3)
out, lengths = conformer(features, times.long())
out.square().mean().backward()
print('conformer', out.norm().item(), lengths.tolist(), sum(p.grad.square().sum().item() for p in conformer.parameters() if p.grad is not None))
