"""The shape of PyTorch's tutorial on DistributedDataParallel: processes by spawn, a basic use, and a checkpoint that rank 0 writes and all read."""
import importlib
import os
import socket
import sys
import tempfile

name = os.environ.setdefault("PROGRAM_LIBRARY", sys.argv[1] if len(sys.argv) > 1 else "torch")
torch = importlib.import_module(name)
dist, mp = importlib.import_module(name + ".distributed"), importlib.import_module(name + ".multiprocessing")
nn, optim = torch.nn, torch.optim
DDP = importlib.import_module(name + ".nn.parallel").DistributedDataParallel


def setup(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(rank)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu, self.net2 = nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def same_everywhere(model):
    total = sum(p.detach().double().sum() for p in model.parameters())
    every = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(every, total)
    assert all(torch.equal(every[0], x) for x in every), every


def demo_basic(rank, world_size):
    setup(rank, world_size)
    model = DDP(ToyModel())
    same_everywhere(model)
    optimizer, loss_fn = optim.SGD(model.parameters(), lr=0.001), nn.MSELoss()
    for _ in range(3):
        optimizer.zero_grad()
        loss_fn(model(torch.randn(20, 10)), torch.randn(20, 5)).backward()
        optimizer.step()
    same_everywhere(model)
    dist.destroy_process_group()


def demo_checkpoint(rank, world_size, path):
    setup(rank, world_size)
    model = DDP(ToyModel())
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    other = DDP(ToyModel())
    other.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a, b)
    optimizer = optim.SGD(other.parameters(), lr=0.001)
    nn.MSELoss()(other(torch.randn(20, 10)), torch.randn(20, 5)).backward()
    optimizer.step()
    same_everywhere(other)
    dist.barrier()
    if rank == 0:
        os.remove(path)
    dist.destroy_process_group()


def fails(rank, world_size):
    setup(rank, world_size)
    if rank == 1:
        raise ValueError("rank 1 gives up")
    dist.barrier()


def run(demo, world_size, *args):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]))
    mp.spawn(demo, args=(world_size, *args), nprocs=world_size, join=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for demo in sys.argv[2:]:
            try:
                run(globals()[demo], 2, *[folder + "/model.checkpoint"] * (demo == "demo_checkpoint"))
                print(demo)
            except Exception as error:
                print(demo, type(error).__name__, "rank 1 gives up" in str(error))
