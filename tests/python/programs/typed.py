"""A program as its user writes it, with types: data, a model with hooks, training, checkpoints, transforms."""
from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tede
import tede.nn.functional as F
from tede import Tensor, nn
from tede.optim import SGD, AdamW, Optimizer
from tede.optim.lr_scheduler import CosineAnnealingLR, LRScheduler
from tede.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


@dataclass(frozen=True)
class Settings:
    width: int = 16
    classes: int = 3
    epochs: int = 2
    batch: int = 8
    rate: float = 1e-2
    clip: float = 1.0
    device: str = "cpu"


class Spirals(Dataset[tuple[Tensor, Tensor]]):
    """Points of spirals, and which spiral each is on."""

    def __init__(self, count: int, classes: int, noise: float = 0.1, seed: int = 0) -> None:
        generator = tede.Generator().manual_seed(seed)
        turns = tede.rand(count, generator=generator)
        self.labels = tede.randint(0, classes, (count,), generator=generator)
        angles = 4 * turns + 2 * tede.pi * self.labels / classes
        points = tede.stack([angles.cos(), angles.sin()], dim=1) * turns.unsqueeze(1)
        self.points = points + noise * tede.randn(count, 2, generator=generator)

    def __len__(self) -> int:
        return self.points.shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index], self.labels[index]


class Counting(IterableDataset[int]):
    def __init__(self, end: int) -> None:
        self.end = end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.end))


def collate(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    points, labels = zip(*items)
    return tede.stack(list(points)), tede.stack(list(labels))


class Block(nn.Module):
    """A linear layer, a norm and an activation around a shortcut."""

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.scale = nn.Parameter(tede.ones(width))
        self.register_buffer("seen", tede.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(F.gelu(self.norm(self.linear(x))))
        return x + self.scale * hidden


class Classifier(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.inner = nn.Linear(2, settings.width)
        self.blocks = nn.ModuleList([Block(settings.width) for _ in range(2)])
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(settings.width, settings.classes))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.inner(x))
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(x)
        return result


class Watch:
    """Remembers how large each module's outputs and gradients are, by hooks."""

    def __init__(self, model: nn.Module) -> None:
        self.outputs: dict[str, float] = {}
        self.gradients: dict[str, float] = {}
        self.handles = [module.register_forward_hook(self._forward(name)) for name, module in model.named_modules()]
        for name, parameter in model.named_parameters():
            self.handles.append(parameter.register_hook(self._backward(name)))

    def _forward(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                self.outputs[name] = output.detach().abs().max().item()
        return hook

    def _backward(self, name: str) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            self.gradients[name] = float(gradient.norm())
        return hook

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


@tede.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> float:
    model.eval()
    right, count = 0, 0
    for points, labels in loader:
        right += int((model(points).argmax(dim=1) == labels).sum())
        count += labels.numel()
    model.train()
    return right / max(count, 1)


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], optimizer: Optimizer, schedule: LRScheduler,
          settings: Settings) -> list[float]:
    losses: list[float] = []
    for _ in range(settings.epochs):
        for points, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            with tede.autocast("cpu", enabled=False):
                loss = F.cross_entropy(model(points), labels, label_smoothing=0.05)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            if not bool(norm.isfinite()):
                raise RuntimeError(f"the gradient's norm is {norm.item()}")
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses


def save(path: Path, model: nn.Module, optimizer: Optimizer, epoch: int) -> None:
    tede.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def load(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    state = tede.load(path, map_location="cpu", weights_only=True)
    missing, unexpected = model.load_state_dict(state["model"], strict=True)
    assert not missing and not unexpected
    optimizer.load_state_dict(state["optimizer"])
    epoch: int = state["epoch"]
    return epoch


def example_gradients(model: nn.Module, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """The gradient of each example's loss, by parameter."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(weights: dict[str, Tensor], point: Tensor, label: Tensor) -> Tensor:
        logits = tede.func.functional_call(model, weights, (point.unsqueeze(0),))
        return F.cross_entropy(logits, label.unsqueeze(0))

    gradients: dict[str, Tensor] = tede.func.vmap(tede.func.grad(loss), in_dims=(None, 0, 0))(parameters, points, labels)
    return gradients


def curvature(x: Tensor) -> Tensor:
    x = x.clone().requires_grad_(True)
    first, = tede.autograd.grad(x.sin().sum(), x, create_graph=True)
    second, = tede.autograd.grad(first.sum(), x)
    return second


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    tede.manual_seed(0)
    settings = Settings(epochs=options.epochs)
    device = tede.device(settings.device)

    whole = Spirals(64, settings.classes)
    training, held_out = random_split(whole, [48, 16], generator=tede.Generator().manual_seed(1))
    loader = DataLoader(training, batch_size=settings.batch, shuffle=True, collate_fn=collate, drop_last=True)
    test = DataLoader(held_out, batch_size=settings.batch)
    pairs: TensorDataset = TensorDataset(whole.points, whole.labels)
    first: tuple[Tensor, ...] = pairs[0]
    assert len(first) == 2 and sum(1 for _ in DataLoader(Counting(4), batch_size=2)) == 2

    model = Classifier(settings).to(device)
    watch = Watch(model)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=settings.rate)
    schedule = CosineAnnealingLR(optimizer, T_max=settings.epochs)
    losses = train(model, loader, optimizer, schedule, settings)
    watch.remove()

    path = options.folder / "checkpoint.pt"
    save(path, model, optimizer, settings.epochs)
    again = Classifier(settings)
    assert load(path, again, AdamW([{"params": decayed}, {"params": others}])) == settings.epochs
    with tede.inference_mode():
        assert tede.equal(again.eval()(whole.points[:2]), model.eval()(whole.points[:2]))
    gradients = example_gradients(model, whole.points[:4], whole.labels[:4])
    assert all(gradient.shape[0] == 4 for gradient in gradients.values())
    matrix = nn.Parameter(tede.empty(2, 2))
    nn.init.xavier_uniform_(matrix)
    plain = SGD([matrix], lr=0.1, momentum=0.9)
    plain.zero_grad()
    assert curvature(tede.zeros(2)).abs().sum().item() == 0.0
    assert watch.outputs and watch.gradients and len(losses) == settings.epochs * (48 // settings.batch)
    return accuracy(model, test)


if __name__ == "__main__":
    print(f"accuracy {main():.2f}")
