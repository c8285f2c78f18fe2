"""A YOLO of random weights: its loss, a gradient step, a prediction.
pip: ultralytics torchvision
tolerance: 1e-3"""
import torch
from ultralytics.cfg import get_cfg
from ultralytics.nn.tasks import DetectionModel

torch.manual_seed(0)
model = DetectionModel('yolov8n.yaml', nc=3, verbose=False)
model.args = get_cfg()
batch = {'img': torch.rand(2, 3, 64, 64), 'batch_idx': torch.tensor([0., 1.]), 'cls': torch.tensor([[1.], [2.]]),
         'bboxes': torch.tensor([[.5, .5, .4, .4], [.3, .6, .2, .3]])}
loss, parts = model(batch)
loss.sum().backward()
print('loss', loss.sum().item(), {name: part.item() for name, part in parts.items()} if isinstance(parts, dict) else parts.tolist())
with torch.no_grad():
    print('predicted', model.eval()(batch['img'])[0].mean().item())
