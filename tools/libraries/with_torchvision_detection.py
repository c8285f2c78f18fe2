"""Faster R-CNN, Mask R-CNN, Keypoint R-CNN, RetinaNet and FCOS: a step of training, and detecting; deformable convolution and pooling of boxes.
pip: torchvision==0.28.0
tolerance: 1e-3"""
import torch
import torchvision
from torch import nn
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign, boxes, deform_conv2d, ps_roi_align, ps_roi_pool, roi_align, roi_pool

SIZES = {'min_size': 64, 'max_size': 96}
BOXES = torch.tensor([[4., 6, 30, 40], [20, 10, 60, 50]])


class Backbone(nn.Module):
    out_channels = 32

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.pyramid = FeaturePyramidNetwork([8, 16], 32)

    def forward(self, x):
        first = self.first(x).relu()
        return self.pyramid({'0': first, '1': self.second(first).relu()})


def models():
    anchors, pooling = AnchorGenerator(((16,), (32,)), ((.5, 1., 2.),) * 2), MultiScaleRoIAlign(['0', '1'], 7, 2)
    two_stages = {'rpn_anchor_generator': anchors, 'box_roi_pool': pooling, 'rpn_post_nms_top_n_train': 50,
                  'rpn_post_nms_top_n_test': 50, 'box_score_thresh': 0., **SIZES}
    yield 'faster', lambda: detection.FasterRCNN(Backbone(), 3, **two_stages)
    yield 'mask', lambda: detection.MaskRCNN(Backbone(), 3, mask_roi_pool=MultiScaleRoIAlign(['0', '1'], 14, 2), **two_stages)
    yield 'keypoint', lambda: detection.KeypointRCNN(Backbone(), 2, num_keypoints=5, keypoint_roi_pool=MultiScaleRoIAlign(['0', '1'], 14, 2), **two_stages)
    yield 'retina', lambda: detection.RetinaNet(Backbone(), 3, anchor_generator=anchors, score_thresh=0., topk_candidates=50, **SIZES)
    yield 'fcos', lambda: detection.FCOS(Backbone(), 3, anchor_generator=AnchorGenerator(((8,), (16,)), ((1.,),) * 2), score_thresh=0., topk_candidates=50, **SIZES)


def target(name):
    found = {'boxes': BOXES, 'labels': torch.tensor([1, 1 if name == 'keypoint' else 2])}
    if name == 'mask':
        found['masks'] = torch.zeros(2, 64, 80, dtype=torch.uint8)
        found['masks'][:, 10:30, 10:40] = 1
    if name == 'keypoint':
        found['keypoints'] = torch.cat([torch.rand(2, 5, 2) * 20 + 20, torch.ones(2, 5, 1)], 2)
    return found


for name, make in models():
    torch.manual_seed(0)
    model, images = make(), [torch.rand(3, 64, 80), torch.rand(3, 72, 64)]
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for _ in range(2):
        losses = model(images, [target(name), target(name)])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        print(name, *(f'{key} {value.item()}' for key, value in losses.items()))
    with torch.no_grad():
        found = {key: value[:10] for key, value in model.eval()(images)[0].items()}
    print(name, *(found[key].double().sum().item() for key in found))

torch.manual_seed(0)
x, rois = torch.randn(2, 12, 10, 10, requires_grad=True), [BOXES / 8, BOXES / 16]
for pool in roi_align, roi_pool, ps_roi_align, ps_roi_pool:
    out = pool(x, rois, (3, 2))
    out.square().sum().backward()
    # torchvision's gradient of ps_roi_pool isn't that of its result
    print(pool.__name__, out.sum().item(), *(() if pool is ps_roi_pool else (x.grad.square().sum().item(),)))
    x.grad = None
layer, offset = torchvision.ops.DeformConv2d(12, 4, 3, padding=1), torch.randn(2, 18, 10, 10, requires_grad=True)
out = layer(x, offset, torch.rand(2, 9, 10, 10))
out.square().sum().backward()
print('deform_conv2d', out.sum().item(), x.grad.norm().item(), offset.grad.norm().item(), layer.weight.grad.norm().item())
print('no mask', deform_conv2d(x, offset, layer.weight, padding=1).sum().item())
many = torch.rand(50, 4) * 20
many[:, 2:] += many[:, :2]
print('nms', boxes.nms(many, torch.rand(50), .4).tolist(), boxes.batched_nms(many, torch.rand(50), torch.arange(50) % 3, .4).tolist())
with torch.autocast('cpu', torch.bfloat16):
    print('autocast', roi_align(x.bfloat16(), rois, (3, 2)).dtype, boxes.nms(many.bfloat16(), torch.rand(50), .4).dtype)
