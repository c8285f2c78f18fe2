"""Hogwild training after the shape of PyTorch's example: processes train one shared model without locks."""
import importlib
import os
import sys

torch = importlib.import_module(sys.argv[1] if __name__ == "__main__" else os.environ["HOGWILD"])
os.environ["HOGWILD"] = torch.__name__
mp = importlib.import_module(torch.__name__ + ".multiprocessing")
nn, F = torch.nn, torch.nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = x.view(-1, 320)
        x = F.dropout(F.relu(self.fc1(x)), training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def data(n, seed):
    """Pictures of bars whose place is their class."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    x = torch.rand(n, 1, 28, 28, generator=g) * 0.3
    for i in range(n):
        x[i, 0, :, 2 * int(y[i]) + 3:2 * int(y[i]) + 6] += 1
    return torch.utils.data.TensorDataset(x, y)


def train(rank, model, dataset):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    model.train()
    for _ in range(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()


def test(model):
    model.eval()
    with torch.no_grad():
        x, y = data(200, 1).tensors
        return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[2], force=True)
    torch.manual_seed(0)
    model, dataset = Net(), data(256, 0)
    model.share_memory()
    before = test(model)
    processes = [mp.Process(target=train, args=(rank, model, dataset)) for rank in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert all(p.exitcode == 0 for p in processes)
    print(before, test(model))
