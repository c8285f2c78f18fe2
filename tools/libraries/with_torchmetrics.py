"""Metrics of classification, regression, images and text, updated in batches.
pip: torchmetrics"""
import torch
import torchmetrics as tm

torch.manual_seed(0)
logits, labels = torch.randn(4, 50, 5), torch.randint(0, 5, (4, 50))
group = tm.MetricCollection({
    'accuracy': tm.Accuracy('multiclass', num_classes=5), 'F1': tm.F1Score('multiclass', num_classes=5, average='macro'),
    'AUROC': tm.AUROC('multiclass', num_classes=5), 'calibration': tm.CalibrationError('multiclass', num_classes=5),
    'precision': tm.AveragePrecision('multiclass', num_classes=5)})
for scores, right in zip(logits, labels):
    group.update(scores.softmax(-1), right)
print({name: round(value.item(), 6) for name, value in group.compute().items()})
images, others = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
print('SSIM', tm.functional.structural_similarity_index_measure(images, others).item())
print('PSNR', tm.functional.peak_signal_noise_ratio(images, others).item())
print('Spearman', tm.functional.spearman_corrcoef(torch.randn(40), torch.randn(40)).item())
print('BLEU', tm.functional.bleu_score(['the cat is on the mat'], [['there is a cat on the mat', 'a cat is on the mat']]).item())
