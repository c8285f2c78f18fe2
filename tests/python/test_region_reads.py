"""What reads elements within a region, one way at a time: of a late tensor, and of one that a recorded call writes."""
import copy
import io
import pickle

import numpy as np
import pytest

tede = pytest.importorskip("tede")

READS = [
    "str(y)",
    "str(y[:2,:2])",
    "repr((y>0).to_sparse())",
    "np.from_dlpack(y).sum()",
    "y[:3,:3].tolist()",
    "tede.save(y, io.BytesIO())",
    "pickle.loads(pickle.dumps(y)).sum().item()",
    "copy.deepcopy(y).sum().item()",
    "np.asarray(y).sum()",
    "y.__array__().sum()",
    "y.untyped_storage()[0]",
    "y.storage()[1]",
    "tede.arange(300)[(y[:,0]*0).long()].sum().item()",
    "y[y>2].numel()",
    "[float(v.sum()) for v in y[:3]]",
    "tede.tensor(y).sum().item()",
    "format(y.sum(), '.2f')",
    "3.0 in y",
    "bool((y==3).any())",
    "y.share_memory_().sum().item()",
    "str(tede.nested.nested_tensor([y, y]))",
    "tede.nested.nested_tensor([y,y]).to_padded_tensor(0.).sum().item()",
    "y.to_sparse().to_dense().sum().item()",
    "y.to_sparse_csr().to_dense().sum().item()",
    "tede.sparse_coo_tensor((y[:2]*0).long(), tede.ones(100), (3,3)).coalesce().to_dense().sum().item()",
    "tede.quantize_per_tensor(y, .1, 0, tede.quint8).dequantize().sum().item()",
    "tede.quantize_per_channel(y, (y[:,0].abs()*0+.1).double(), (y[:,0]*0).long(), 0, tede.quint8).dequantize().sum().item()",
    "str(tede.complex(y,y)[:2,:2])",
    "str(tede.complex(y,y).conj()[:1,:2])",
    "tede.allclose(y, y+0)",
    "y.unique().numel()",
    "len(y.nonzero())",
    "y.repeat_interleave((y[:,0]*0+1).long(), 0).sum().item()",
    "[v.sum().item() for v in y.split(100)]",
    "y.max().item(), y.argmax().item()",
    "tede.multinomial(y.abs()+1, 1).shape[0]",
    "(y*0).long().view(-1).bincount().sum().item()",
    "y.histc(5).sum().item()",
    "tede.linalg.eigvalsh(y[:100,:100]+y[:100,:100].T).sum().item()<1e9",
    "tede.searchsorted(tede.arange(10.), y).sum().item()",
    "tede.nn.functional.embedding((y*0).long(), y).sum().item()",
    "tede.nn.functional.cross_entropy(y, (y[:,0]*0).long()).item()",
    "tede.nn.LSTM(100,8)(y)[0].sum().item()<1e9",
    "tede.func.vmap(lambda v: v.sum())(y).sum().item()",
    "tede.func.grad(lambda v: (v*v).sum())(y).sum().item()",
    "tede.func.jvp(lambda v: v*v,(y,),(y,))[1].sum().item()",
    "len({y:1})",
    "bytes(memoryview(y.numpy()))[:3]",
    "tede._foreach_norm([y,y])[0].item()",
    "tede.add(y,1,out=tede.empty(0)).sum().item()",
    "tede.frombuffer(y.numpy().tobytes(), dtype=tede.float32).sum().item()",
    "y.view(tede.int32).sum().item()",
    "tede.empty(0).set_(y).sum().item()",
    "tede.autocast('cpu')(lambda: (y@y.T).sum().item())()",
    "tede.utils.checkpoint.checkpoint(lambda v: v*2, y, use_reentrant=False).sum().item()",
    "len(tede.where(y>3)[0])",
    "y.view(-1)[:5].tolist()",
    "y.__setitem__(0, 5.) or y.sum().item()",
    "y.__setitem__(y>3, 0.) or y.sum().item()",
    "y.scatter_(1, (y*0).long(), 1.).sum().item()",
    "tede.nn.utils.rnn.pack_padded_sequence(y[:,:,None], (y[0]*0+3).long().cpu(), enforce_sorted=False).data.sum().item()",
    "tede.fft.rfft(y).abs().sum().item()>0",
    "y.sum().item()",
    "tede.complex(y,y).sum().item()",
    "int(y.sum())",
    "[1,2,3][(y.sum()*0).long()]",
    "list(range((y.sum()*0+3).long()))",
    "y.refine_names('a','b').sum('a').sum().item()",
    "f'{y}'",
]


def read(expression, y):
    return repr(eval(expression, {"tede": tede, "np": np, "io": io, "copy": copy, "pickle": pickle, "y": y}))


def late(expression, x):
    return read(expression, x * 2 + 1)


def awaited(expression, x):
    x.mul_(2).add_(1)
    return read(expression, x)


@pytest.mark.parametrize("program", [late, awaited])
@pytest.mark.parametrize("expression", READS)
def test_what_is_read_is_there(expression, program):
    tede.manual_seed(0)
    x = tede.rand(300, 100) * 3
    want = program(expression, x.clone())
    tede.manual_seed(0)
    x = tede.rand(300, 100) * 3
    assert tede.compile(program)(expression, x) == want
