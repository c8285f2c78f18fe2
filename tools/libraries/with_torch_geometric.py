"""GCN, GAT and SAGE on a random graph, a heterogeneous one by to_hetero, pooling and batches.
pip: torch_geometric
tolerance: 1e-3"""
import torch
import torch_geometric.nn as gnn
from torch_geometric.data import Batch, Data, HeteroData

torch.manual_seed(0)
x, edges = torch.randn(20, 8), torch.randint(0, 20, (2, 60))
for conv in gnn.GCNConv, gnn.GATConv, gnn.SAGEConv, gnn.GraphConv:
    layer = conv(8, 4)
    out = layer(x, edges)
    out.square().mean().backward()
    print(conv.__name__, out.norm().item(), sum(p.grad.norm().item() for p in layer.parameters()))
batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x[:9], edge_index=edges % 9)])
print('pooled', gnn.global_mean_pool(batch.x, batch.batch).norm().item(), gnn.global_max_pool(batch.x, batch.batch).norm().item())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv((-1, -1), 8), gnn.SAGEConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


data = HeteroData()
data['a'].x, data['b'].x = torch.randn(6, 4), torch.randn(5, 7)
data['a', 'to', 'b'].edge_index = torch.stack([torch.randint(0, 6, (12,)), torch.randint(0, 5, (12,))])
data['b', 'back', 'a'].edge_index = data['a', 'to', 'b'].edge_index.flip(0)
net = gnn.to_hetero(Net(), data.metadata())
out = net(data.x_dict, data.edge_index_dict)
print('hetero', {name: value.norm().item() for name, value in out.items()})
