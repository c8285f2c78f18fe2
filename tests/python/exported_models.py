"""Small forms of the models that tests of exporters write: GPT-2, BERT, ViT, ResNet-50, an LSTM and a UNet."""
import math
import tede
from tede import nn
import tede.nn.functional as F


class GPT2(nn.Module):
    def __init__(self, vocabulary=50, n=32, heads=4, layers=2, room=16):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, n), nn.Embedding(room, n)
        self.blocks = nn.ModuleList(Block(n, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, vocabulary, bias=False)
        self.register_buffer("mask", tede.ones(room, room, dtype=tede.bool).tril())
    def forward(self, ids):
        t = ids.shape[1]
        x = self.token(ids) + self.position(tede.arange(t))
        for block in self.blocks:
            x = block(x, self.mask[:t, :t])
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.norm1, self.norm2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(approximate="tanh"), nn.Linear(4 * n, n), nn.Dropout(0.1))
    def forward(self, x, mask):
        b, t, n = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(n, dim=2))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(n // self.heads)).masked_fill(~mask, float("-inf"))
        x = x + self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, n))
        return x + self.mlp(self.norm2(x))


class BERT(nn.Module):
    def __init__(self, vocabulary=50, n=32, heads=4, layers=2, room=16):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(vocabulary, n, padding_idx=0), nn.Embedding(room, n), nn.Embedding(2, n)
        self.norm = nn.LayerNorm(n, eps=1e-12)
        layer = nn.TransformerEncoderLayer(n, heads, 4 * n, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pooler = nn.Linear(n, n)
    def forward(self, ids, mask, kinds):
        x = self.norm(self.word(ids) + self.position(tede.arange(ids.shape[1]))[None] + self.kind(kinds))
        x = self.encoder(x, src_key_padding_mask=mask == 0)
        return x, tede.tanh(self.pooler(x[:, 0]))


class ViT(nn.Module):
    def __init__(self, size=16, patch=4, n=32, heads=4, layers=2, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, n, patch, patch)
        self.first = nn.Parameter(tede.randn(1, 1, n) * 0.02)
        self.position = nn.Parameter(tede.randn(1, (size // patch) ** 2 + 1, n) * 0.02)
        self.blocks = nn.ModuleList(ViTBlock(n, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, classes)
    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = tede.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class ViTBlock(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(n), nn.LayerNorm(n)
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.mlp = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
    def forward(self, x):
        b, t, n = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, n // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, n))
        return x + self.mlp(self.norm2(x))


class Bottleneck(nn.Module):
    def __init__(self, inside, planes, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = nn.Conv2d(planes, planes * 4, 1, bias=False), nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(inside, planes * 4, 1, stride, bias=False), nn.BatchNorm2d(planes * 4)) \
            if stride != 1 or inside != planes * 4 else None
    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class ResNet50(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        layers, inside = [], width
        for i, n in enumerate((3, 4, 6, 3)):
            for j in range(n):
                layers.append(Bottleneck(inside, width << i, 2 if i and not j else 1))
                inside = 4 * (width << i)
        self.layers, self.mean, self.head = nn.Sequential(*layers), nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(inside, classes)
    def forward(self, x):
        return self.head(tede.flatten(self.mean(self.layers(self.pool(self.relu(self.bn(self.conv(x)))))), 1))


class Recurrent(nn.Module):
    def __init__(self, vocabulary=50, n=16):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, n), nn.Linear(2 * n, vocabulary)
        self.lstm = nn.LSTM(n, n, num_layers=2, batch_first=True, bidirectional=True)
    def forward(self, ids):
        x, (h, c) = self.lstm(self.embedding(ids))
        return self.head(x), h, c


def double(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(2, outside), nn.SiLU(),
                         nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.LeakyReLU(0.1, inplace=True))


class UNet(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.down1, self.down2, self.middle = double(3, n), double(n, 2 * n), double(2 * n, 4 * n)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * n, 2 * n, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join2, self.join1, self.head = double(4 * n, 2 * n), double(3 * n, n), nn.Conv2d(n, 2, 1)
    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.avg_pool2d(b, 2))
        y = self.join2(tede.cat([self.up2(c), b], 1))
        y = self.up1(y)
        if y.shape[2:] != a.shape[2:]:
            y = F.interpolate(y, a.shape[2:])
        return tede.sigmoid(self.head(self.join1(tede.cat([y, a], 1))))


def ids(batch, time):
    return tede.randint(1, 50, (batch, time))


def masked(batch, time):
    return ids(batch, time), (tede.rand(batch, time) > 0.2).long() | (tede.arange(time) == 0), tede.randint(0, 2, (batch, time))


def images(batch, *size):
    return tede.rand(batch, 3, *size),


BOTH = {0: "batch", 1: "time"}
# name -> the model, example inputs, inputs of other sizes, which dimensions vary
MODELS = {
    "gpt2": (GPT2, lambda: (ids(2, 7),), lambda: (ids(3, 11),), {"ids": BOTH}),
    "bert": (BERT, lambda: masked(2, 7), lambda: masked(3, 9), {"ids": BOTH, "mask": BOTH, "kinds": BOTH}),
    "vit": (ViT, lambda: images(2, 16, 16), lambda: images(5, 16, 16), {"images": {0: "batch"}}),
    "resnet50": (ResNet50, lambda: images(2, 64, 64), lambda: images(1, 96, 64), {"x": {0: "batch", 2: "height", 3: "width"}}),
    "lstm": (Recurrent, lambda: (ids(2, 7),), lambda: (ids(1, 12),), {"ids": BOTH}),
    "unet": (UNet, lambda: images(2, 16, 16), lambda: images(3, 24, 32), {"x": {0: "batch", 2: "height", 3: "width"}}),
}
