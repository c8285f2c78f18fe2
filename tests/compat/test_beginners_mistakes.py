"""What people do wrong in their first weeks, and the words by which they find out: never fewer than PyTorch's."""
import copy
import importlib
import io
import subprocess
import sys

import numpy
import pytest

# What is done wrong, as Python; the error's kind; the words that both libraries say.
MISTAKES = [
    ('mm of sizes', 'torch.ones(2, 3) @ torch.ones(2, 3)',
     'RuntimeError', 'mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)'),
    ('mm of vectors as matrices', 'torch.mm(torch.ones(3), torch.ones(3))',
     'RuntimeError', 'self must be a matrix'),
    ('bmm of batches', 'torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5))',
     'RuntimeError', 'Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [3, 4].'),
    ('adding sizes', 'torch.ones(2, 3) + torch.ones(2, 4)',
     'RuntimeError', 'The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1'),
    ('cat of ranks', 'torch.cat([torch.ones(2, 3), torch.ones(3)])',
     'RuntimeError', 'Tensors must have same number of dimensions: got 2 and 1'),
    ('cat of sizes', 'torch.cat([torch.ones(2, 3), torch.ones(2, 4)])',
     'RuntimeError', 'Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for'),
    ('cat of a tensor', 'torch.cat(torch.ones(2, 3))',
     'TypeError', "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    ('stack of sizes', 'torch.stack([torch.ones(2), torch.ones(3)])',
     'RuntimeError', 'stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1'),
    ('view of sizes', 'torch.ones(6).view(4, 2)',
     'RuntimeError', "shape '[4, 2]' is invalid for input of size 6"),
    ('view of a transpose', 'torch.ones(2, 3).t().view(6)',
     'RuntimeError', "view size is not compatible with input tensor's size and stride (at least one dimension"),
    ('reshape of sizes', 'torch.ones(6).reshape(5, -1)',
     'RuntimeError', "shape '[5, -1]' is invalid for input of size 6"),
    ('squeeze of a dim', 'torch.ones(2).unsqueeze(3)',
     'IndexError', 'Dimension out of range (expected to be in range of [-2, 1], but got 3)'),
    ('expand of sizes', 'torch.ones(3).expand(2, 4)',
     'RuntimeError', 'The expanded size of the tensor (4) must match the existing size (3) at non-singleton'),
    ('permute of dims', 'torch.ones(2, 3).permute(0, 1, 2)',
     'RuntimeError', 'permute(sparse_coo): number of dimensions in the tensor input does not match the length'),
    ('transpose of a dim', 'torch.ones(2, 3).transpose(0, 2)',
     'IndexError', 'Dimension out of range (expected to be in range of [-2, 1], but got 2)'),
    ('sum over a dim', 'torch.ones(2, 3).sum(dim=2)',
     'IndexError', 'Dimension out of range (expected to be in range of [-2, 1], but got 2)'),
    ('index beyond', 'torch.ones(3)[3]',
     'IndexError', 'index 3 is out of bounds for dimension 0 with size 3'),
    ('too many indices', 'torch.ones(3)[0, 0]',
     'IndexError', 'too many indices for tensor of dimension 1'),
    ('float as index', 'torch.ones(3)[torch.tensor([0.5])]',
     'IndexError', 'tensors used as indices must be long, int, byte or bool tensors'),
    ('mask of a size', 'torch.ones(3)[torch.tensor([True, False])]',
     'IndexError', 'The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3]'),
    ('gather with floats', 'torch.ones(2, 2).gather(1, torch.zeros(2, 1))',
     'RuntimeError', 'gather(): Expected dtype int32/int64 for index'),
    ('gather beyond', 'torch.ones(2, 2).gather(1, torch.tensor([[5]]))',
     'RuntimeError', 'index 5 is out of bounds for dimension 1 with size 2'),
    ('scatter of dtype', 'torch.zeros(2, 2).scatter_(1, torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.float64))',
     'RuntimeError', 'scatter(): Expected self.dtype to be equal to src.dtype'),
    ('a tensor of ragged lists', 'torch.tensor([[1, 2], [3]])',
     'ValueError', 'expected sequence of length 2 at dim 1 (got 1)'),
    ('a tensor of strings', 'torch.tensor(["a", "b"])',
     'ValueError', "too many dimensions 'str'"),
    ('a tensor of None', 'torch.tensor([None, 1])',
     'RuntimeError', 'Could not infer dtype of NoneType'),
    ('a tensor of a dict', 'torch.tensor({"a": 1})',
     'RuntimeError', 'Could not infer dtype of dict'),
    ('from_numpy of a list', 'torch.from_numpy([1, 2])',
     'TypeError', 'expected np.ndarray (got list)'),
    ('from_numpy of objects', 'torch.from_numpy(numpy.array([object()]))',
     'TypeError', "can't convert np.ndarray of type numpy.object_. The only supported types are: float64,"),
    ('bool of several', 'bool(torch.ones(2))',
     'RuntimeError', 'Boolean value of Tensor with more than one value is ambiguous'),
    ('if of several', '1 if torch.ones(2) > 0 else 0',
     'RuntimeError', 'Boolean value of Tensor with more than one value is ambiguous'),
    ('item of several', 'torch.ones(2).item()',
     'RuntimeError', 'a Tensor with 2 elements cannot be converted to Scalar'),
    ('float of several', 'float(torch.ones(2))',
     'ValueError', 'only one element tensors can be converted to Python scalars'),
    ('int of nothing', 'int(torch.ones(0))',
     'ValueError', 'only one element tensors can be converted to Python scalars'),
    ('numpy of what requires grad', 'torch.ones(2, requires_grad=True).numpy()',
     'RuntimeError', "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."),
    ('grad for integers', 'torch.ones(2, dtype=torch.int64, requires_grad=True)',
     'RuntimeError', 'Only Tensors of floating point and complex dtype can require gradients'),
    ('requires_grad_ of integers', 'torch.tensor([1, 2]).requires_grad_()',
     'RuntimeError', 'only Tensors of floating point dtype can require gradients'),
    ('backward of several', 'torch.ones(2, requires_grad=True).mul(2).backward()',
     'RuntimeError', 'grad can be implicitly created only for scalar outputs'),
    ('backward of a constant', 'torch.ones(1).sum().backward()',
     'RuntimeError', 'element 0 of tensors does not require grad and does not have a grad_fn'),
    ('backward twice', '(lambda y: (y.backward(), y.backward()))((torch.ones(2, requires_grad=True) ** 2).sum())',
     'RuntimeError', 'Trying to backward through the graph a second time (or directly access saved tensors'),
    ('in place on a leaf', 'torch.ones(2, requires_grad=True).add_(1)',
     'RuntimeError', 'a leaf Variable that requires grad is being used in an in-place operation.'),
    ("in place on a leaf's part", 'torch.ones(2, requires_grad=True).__setitem__(0, 1)',
     'RuntimeError', 'a view of a leaf Variable that requires grad is being used in an in-place operation.'),
    ('in place on what is saved', 'saved()',
     'RuntimeError', 'one of the variables needed for gradient computation has been modified by an inplace'),
    ('backward of a wrong gradient', 'torch.ones(2, requires_grad=True).mul(1).backward(torch.ones(3))',
     'RuntimeError', 'Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a'),
    ("grad of what isn't used", 'torch.autograd.grad(torch.ones(1, requires_grad=True).sum(), torch.ones(1, requires_grad=True))',
     'RuntimeError', 'The differentiated Tensor at index 0 appears to not have been used in the graph. Set'),
    ('grad without a graph', 'torch.autograd.grad(torch.ones(1).sum(), torch.ones(1))',
     'RuntimeError', 'element 0 of tensors does not require grad and does not have a grad_fn'),
    ('grad set to a shape', 'setattr(torch.ones(2, requires_grad=True), "grad", torch.ones(3))',
     'RuntimeError', "attempting to assign a gradient of size '[3]' to a tensor of size '[2]'. Please ensure"),
    ('grad set to a dtype', 'setattr(torch.ones(2, requires_grad=True), "grad", torch.ones(2, dtype=torch.int64))',
     'RuntimeError', "' to a tensor with grad_dtype 'Float'. The gradient must match the tensor's grad_dtype"),
    ('deepcopy of a result', 'copy.deepcopy(torch.ones(2, requires_grad=True) * 2)',
     'RuntimeError', 'Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol'),
    ('optimizer of nothing', 'torch.optim.SGD([], lr=0.1)',
     'ValueError', 'optimizer got an empty parameter list'),
    ('optimizer of a tensor', 'torch.optim.SGD(torch.ones(2, requires_grad=True), lr=0.1)',
     'TypeError', 'params argument given to the optimizer should be an iterable of Tensors or dicts, but got'),
    ('optimizer of a model', 'torch.optim.SGD(nn.Linear(2, 2), lr=0.1)',
     'TypeError', "'Linear' object is not iterable"),
    ('optimizer of results', 'torch.optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1)',
     'ValueError', "can't optimize a non-leaf Tensor"),
    ('optimizer of names', 'torch.optim.SGD(["weight"], lr=0.1)',
     'TypeError', 'optimizer can only optimize Tensors, but one of the params is str'),
    ('a negative rate', 'torch.optim.Adam([torch.ones(1, requires_grad=True)], lr=-1)',
     'ValueError', 'Invalid learning rate: -1'),
    ('betas beyond one', 'torch.optim.Adam([torch.ones(1, requires_grad=True)], betas=(1.5, 0.9))',
     'ValueError', 'Invalid beta parameter at index 0: 1.5'),
    ('the same parameter twice', '(lambda p: torch.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1))(torch.ones(1, requires_grad=True))',
     'ValueError', 'some parameters appear in more than one parameter group'),
    ('LBFGS without closure', 'torch.optim.LBFGS([torch.ones(1, requires_grad=True)]).step()',
     'TypeError', "LBFGS.step() missing 1 required positional argument: 'closure'"),
    ('a schedule of a model', 'torch.optim.lr_scheduler.StepLR(nn.Linear(2, 2), 1)',
     'TypeError', 'Linear is not an Optimizer'),
    ('a plateau without figure', 'torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)).step()',
     'TypeError', "ReduceLROnPlateau.step() missing 1 required positional argument: 'metrics'"),
    ('optimizer state of another model', 'adam(nn.Linear(2, 2)).load_state_dict(adam(nn.Linear(2, 2, bias=False)).state_dict())',
     'ValueError', "loaded state dict contains a parameter group that doesn't match the size of optimizer's"),
    ('linear of sizes', 'nn.Linear(3, 2)(torch.ones(4, 5))',
     'RuntimeError', 'mat1 and mat2 shapes cannot be multiplied (4x5 and 3x2)'),
    ('linear of integers', 'nn.Linear(3, 2)(torch.ones(4, 3, dtype=torch.int64))',
     'RuntimeError', 'mat1 and mat2 must have the same dtype, but got Long and Float'),
    ('linear of doubles', 'nn.Linear(3, 2)(torch.ones(4, 3, dtype=torch.float64))',
     'RuntimeError', 'mat1 and mat2 must have the same dtype, but got Double and Float'),
    ('linear of an array', 'nn.Linear(3, 2)(numpy.ones((4, 3), dtype="float32"))',
     'TypeError', "linear(): argument 'input' (position 1) must be Tensor, not numpy.ndarray"),
    ('conv of channels', 'nn.Conv2d(3, 8, 3)(torch.ones(1, 1, 8, 8))',
     'RuntimeError', 'Given groups=1, weight of size [8, 3, 3, 3], expected input[1, 1, 8, 8] to have 3'),
    ('conv without a batch', 'nn.Conv2d(3, 8, 3)(torch.ones(8, 8))',
     'RuntimeError', 'Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [8, 8]'),
    ('conv of a small image', 'nn.Conv2d(3, 8, 5)(torch.ones(1, 3, 2, 2))',
     'RuntimeError', 'Calculated padded input size per channel: (2 x 2). Kernel size: (5 x 5). Kernel size'),
    ('conv of bytes', 'nn.Conv2d(3, 8, 3)(torch.ones(1, 3, 8, 8, dtype=torch.uint8))',
     'RuntimeError', 'Input type (unsigned char) and bias type (float) should be the same'),
    ('conv channels last', 'nn.Conv2d(3, 8, 3)(torch.ones(1, 28, 28, 3))',
     'RuntimeError', 'Given groups=1, weight of size [8, 3, 3, 3], expected input[1, 28, 28, 3] to have 3'),
    ("groups that don't divide", 'nn.Conv2d(3, 8, 3, groups=2)',
     'ValueError', 'in_channels must be divisible by groups'),
    ('same with a stride', 'nn.Conv2d(3, 8, 3, stride=2, padding="same")',
     'ValueError', "padding='same' is not supported for strided convolutions"),
    ('pool of a small image', 'nn.MaxPool2d(4)(torch.ones(1, 1, 2, 2))',
     'RuntimeError', 'Given input size: (1x2x2). Calculated output size: (1x0x0). Output size is too small'),
    ('batch norm of channels', 'nn.BatchNorm2d(3)(torch.ones(2, 4, 5, 5))',
     'RuntimeError', 'running_mean should contain 4 elements not 3'),
    ('batch norm of a rank', 'nn.BatchNorm2d(3)(torch.ones(2, 3))',
     'ValueError', 'expected 4D input (got 2D input)'),
    ('batch norm of one sample', 'nn.BatchNorm1d(3)(torch.ones(1, 3))',
     'ValueError', 'Expected more than 1 value per channel when training, got input size torch.Size([1, 3])'),
    ('layer norm of a shape', 'nn.LayerNorm(4)(torch.ones(2, 3))',
     'RuntimeError', 'Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]'),
    ('embedding of floats', 'nn.Embedding(10, 3)(torch.ones(2))',
     'RuntimeError', "Expected tensor for argument #1 'indices' to have one of the following scalar types:"),
    ('embedding beyond', 'nn.Embedding(10, 3)(torch.tensor([10]))',
     'IndexError', 'index out of range in self'),
    ('embedding below', 'nn.Embedding(10, 3)(torch.tensor([-1]))',
     'IndexError', 'index out of range in self'),
    ('lstm of features', 'nn.LSTM(3, 4)(torch.ones(5, 1, 2))',
     'RuntimeError', 'input.size(-1) must be equal to input_size. Expected 3, got 2'),
    ('lstm of a state', 'nn.LSTM(3, 4)(torch.ones(5, 1, 3), (torch.ones(1, 2, 4), torch.ones(1, 2, 4)))',
     'RuntimeError', 'Expected hidden[0] size (1, 1, 4), got [1, 2, 4]'),
    ("heads that don't divide", 'nn.MultiheadAttention(5, 2)',
     'AssertionError', 'embed_dim must be divisible by num_heads'),
    ('attention of widths', 'nn.MultiheadAttention(4, 2)(torch.ones(3, 1, 6), torch.ones(3, 1, 6), torch.ones(3, 1, 6))',
     'AssertionError', 'was expecting embedding dimension of 4, but got 6'),
    ('dropout beyond one', 'nn.Dropout(1.5)',
     'ValueError', 'dropout probability has to be between 0 and 1, but got 1.5'),
    ('cross entropy of float targets', 'nn.CrossEntropyLoss()(torch.ones(2, 3), torch.ones(2))',
     'RuntimeError', 'expected target dtype to be Long or Byte, but got Float'),
    ('cross entropy of one-hot integers', 'nn.CrossEntropyLoss()(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64))',
     'RuntimeError', 'Expected floating point type for target with class probabilities, got Long'),
    ('cross entropy beyond', 'nn.CrossEntropyLoss()(torch.ones(2, 3), torch.tensor([0, 3]))',
     'IndexError', 'Target 3 is out of bounds.'),
    ('cross entropy of batches', 'nn.CrossEntropyLoss()(torch.ones(2, 3), torch.tensor([0, 1, 2]))',
     'ValueError', 'Expected input batch_size (2) to match target batch_size (3).'),
    ('cross entropy of int32', 'nn.CrossEntropyLoss()(torch.ones(2, 3), torch.tensor([0, 1], dtype=torch.int32))',
     'RuntimeError', 'expected target dtype to be Long or Byte, but got Int'),
    ('bce of shapes', 'nn.BCELoss()(torch.ones(2, 1), torch.ones(2))',
     'ValueError', 'Using a target size (torch.Size([2])) that is different to the input size (torch.Size([2,'),
    ('bce of logits', 'nn.BCELoss()(torch.tensor([2.0]), torch.tensor([1.0]))',
     'RuntimeError', 'all elements of input should be between 0 and 1'),
    ('bce with integers', 'nn.BCEWithLogitsLoss()(torch.ones(2), torch.tensor([0, 1]))',
     'RuntimeError', "result type Float can't be cast to the desired output type Long"),
    ('a model without forward', 'nn.Module()(torch.ones(1))',
     'NotImplementedError', 'Module [Module] is missing the required "forward" function'),
    ('a model without init', 'WithoutInit()',
     'AttributeError', 'cannot assign module before Module.__init__() call'),
    ('assigning a tensor to a parameter', 'setattr(nn.Linear(2, 2), "weight", torch.ones(2, 2))',
     'TypeError', "cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None"),
    ('sequential of functions', 'nn.Sequential(torch.relu)',
     'TypeError', 'is not a Module subclass'),
    ('a name with a dot', 'nn.ModuleDict({"a.b": nn.Linear(1, 1)})',
     'KeyError', '\'module name can\\\'t contain ".", got: a.b\''),
    ("a module that isn't", 'nn.ModuleList([1])',
     'TypeError', 'int is not a Module subclass'),
    ("an attribute that isn't", 'nn.Linear(2, 2).weigth',
     'AttributeError', "'Linear' object has no attribute 'weigth'"),
    ("an operator that isn't", 'torch.sofmax',
     'AttributeError', "module 'torch' has no attribute 'sofmax'"),
    ("a method that isn't", 'torch.ones(2).sofmax()',
     'AttributeError', "'Tensor' object has no attribute 'sofmax'"),
    ("an argument that isn't", 'torch.ones(2).sum(axes=0)',
     'TypeError', '* (tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None)'),
    ("a layer's argument that isn't", 'nn.Linear(2, 2, biass=False)',
     'TypeError', "Linear.__init__() got an unexpected keyword argument 'biass'"),
    ('state of other sizes', 'nn.Linear(2, 2).load_state_dict(nn.Linear(3, 2).state_dict())',
     'RuntimeError', 'size mismatch for weight: copying a param with shape torch.Size([2, 3]) from checkpoint,'),
    ('state without keys', 'nn.Linear(2, 2).load_state_dict({"weight": torch.ones(2, 2)})',
     'RuntimeError', 'Error(s) in loading state_dict for Linear:'),
    ('state with other keys', 'nn.Linear(2, 2).load_state_dict({"module.weight": torch.ones(2, 2), "module.bias": torch.ones(2)})',
     'RuntimeError', 'Unexpected key(s) in state_dict: "module.weight", "module.bias".'),
    ('a model as state', 'nn.Linear(2, 2).load_state_dict(nn.Linear(2, 2))',
     'TypeError', "Expected state_dict to be dict-like, got <class 'torch.nn.modules.linear.Linear'>."),
    ('loading a whole model', 'load_model()',
     'UnpicklingError', 'Weights only load failed. This file can still be loaded, to do so you have two options,'),
    ("loading what isn't", 'torch.load(io.BytesIO(b"not a checkpoint"))',
     'UnpicklingError', 'Weights only load failed. In PyTorch 2.6, we changed the default value of the'),
    ('loading no file', 'torch.load("there/is/no.pt")',
     'FileNotFoundError', "[Errno 2] No such file or directory: 'there/is/no.pt'"),
    ('asking for cuda', 'torch.ones(2, device="cuda")',
     'AssertionError', 'Torch not compiled with CUDA enabled'),
    ('moving to cuda', 'torch.ones(2).cuda()',
     'AssertionError', 'Torch not compiled with CUDA enabled'),
    ('a model to cuda', 'nn.Linear(2, 2).to("cuda")',
     'AssertionError', 'Torch not compiled with CUDA enabled'),
    ("a device that isn't", 'torch.device("gpu")',
     'RuntimeError', 'Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia,'),
    ('dtype as string', 'torch.zeros(2, dtype="float32")',
     'TypeError', "zeros(): argument 'dtype' must be torch.dtype, not str"),
    ('size as float', 'torch.zeros(2.5)',
     'TypeError', "zeros(): argument 'size' (position 1) must be tuple of ints, not float"),
    ('negative size', 'torch.zeros(-1)',
     'RuntimeError', 'imension'),
    ('arange of a wrong step', 'torch.arange(0, 3, -1)',
     'RuntimeError', 'upper bound and lower bound inconsistent with step sign'),
    ('randint of an empty range', 'torch.randint(5, 5, (2,))',
     'RuntimeError', "random_ expects 'from' to be less than 'to', but got from=5 >= to=5"),
    ('mean of integers', 'torch.tensor([1, 2]).mean()',
     'RuntimeError', 'mean(): could not infer output dtype. Input dtype must be either a floating point or'),
    ('division in place', 'torch.tensor([1, 2]).div_(2)',
     'RuntimeError', "result type Float can't be cast to the desired output type Long"),
    ('integer exponent', 'torch.tensor([2]) ** -1',
     'RuntimeError', 'Integers to negative integer powers are not allowed.'),
    ('einsum of sizes', 'torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(4, 5))',
     'RuntimeError', 'einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously'),
    ('inverse of a singular matrix', 'torch.linalg.inv(torch.zeros(2, 2))',
     '_LinAlgError', 'linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because'),
    ('inverse of a rectangle', 'torch.linalg.inv(torch.ones(2, 3))',
     'RuntimeError', 'linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices'),
    ("cholesky of what isn't", 'torch.linalg.cholesky(-torch.eye(2))',
     '_LinAlgError', 'linalg.cholesky: The factorization could not be completed because the input is not'),
    ('loader of shapes', 'list(data.DataLoader([torch.ones(2), torch.ones(3)], batch_size=2))',
     'RuntimeError', 'stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1'),
    ('loader of objects', 'list(data.DataLoader([object()], batch_size=1))',
     'TypeError', 'default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found'),
    ('loader of batch size zero', 'data.DataLoader([1], batch_size=0)',
     'ValueError', 'batch_size should be a positive integer value, but got batch_size=0'),
    ('loader that shuffles a stream', 'data.DataLoader(Stream(), shuffle=True)',
     'ValueError', 'DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True'),
    ('loader with sampler and shuffle', 'data.DataLoader([1, 2], sampler=[0, 1], shuffle=True)',
     'ValueError', 'sampler option is mutually exclusive with shuffle'),
    ('dataset without getitem', 'data.Dataset()[0]',
     'NotImplementedError', 'Subclasses of Dataset should implement __getitem__.'),
    ('tensors of unequal lengths', 'data.TensorDataset(torch.ones(2), torch.ones(3))',
     'AssertionError', 'Size mismatch between tensors'),
    ('split of wrong lengths', 'data.random_split([1, 2, 3], [1, 1])',
     'ValueError', 'Sum of input lengths does not equal the length of the input dataset!'),
    ('normal of a negative scale', 'torch.distributions.Normal(0.0, -1.0)',
     'ValueError', 'Expected parameter scale (Tensor of shape ()) of distribution Normal(loc: 0.0, scale:'),
    ('log_prob outside', 'torch.distributions.Uniform(0.0, 1.0).log_prob(torch.tensor(2.0))',
     'ValueError', 'Expected value argument (Tensor of shape ()) to be within the support'),
    ('multinomial of negatives', 'torch.multinomial(torch.tensor([-1.0, 2.0]), 1)',
     'RuntimeError', 'probability tensor contains either `inf`, `nan` or element < 0'),
    ('vmap of unequal batches', 'torch.func.vmap(torch.add)(torch.ones(2), torch.ones(3))',
     'ValueError', 'vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [2,'),
    ('vmap with item', 'torch.func.vmap(lambda x: x.item())(torch.ones(2))',
     'RuntimeError', "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over"),
    ('grad of several', 'torch.func.grad(lambda x: x * 2)(torch.ones(2))',
     'RuntimeError', 'grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with 1'),
    ("no_grad'ed loss", '(lambda w: no_grad_loss(w).backward())(torch.ones(1, requires_grad=True))',
     'RuntimeError', 'element 0 of tensors does not require grad and does not have a grad_fn'),
    ('detached loss', '(torch.ones(1, requires_grad=True) * 2).detach().sum().backward()',
     'RuntimeError', 'element 0 of tensors does not require grad and does not have a grad_fn'),
]
# What is said beyond that here.
HINTS = {
    'adding sizes': 'sizes [2, 3] and [2, 4]',
    'gather with floats': 'but got Float',
    'in place on what is saved': 'MulBackward0 had saved it, and add_ wrote over it',
    'embedding beyond': 'index 10, but there are 10 rows',
    'multinomial of negatives': '-1 at row 0, category 0',
    "an operator that isn't": "Did you mean: 'softmax'",
    "a layer's argument that isn't": "Did you mean 'bias'",
    'linear of sizes': 'weight  [2, 3]',
    'asking for cuda': "'cuda' if torch.cuda.is_available() else 'cpu'",
    'a model to cuda': "'cuda' if torch.cuda.is_available() else 'cpu'",
}


def space(lib):
    """The names that the mistakes use."""
    data, nn = importlib.import_module(lib.__name__ + '.utils.data'), lib.nn
    importlib.import_module(lib.__name__ + '.distributions')

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter([1])

    class WithoutInit(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    def saved():
        y = lib.ones(2, requires_grad=True).exp()
        z = (y * y).sum()
        y.add_(1)
        z.backward()

    def no_grad_loss(w):
        with lib.no_grad():
            return (w * 2).sum()

    def load_model():
        file = io.BytesIO()
        lib.save(nn.Linear(1, 1), file)
        file.seek(0)
        lib.load(file)

    def adam(model):
        return lib.optim.Adam(model.parameters())
    return {'torch': lib, 'nn': nn, 'data': data, 'copy': copy, 'io': io, 'numpy': numpy, 'Stream': Stream, 'WithoutInit': WithoutInit,
            'saved': saved, 'no_grad_loss': no_grad_loss, 'load_model': load_model, 'adam': adam}


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('title, code, kind, words', MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_named(lib, title, code, kind, words):
    if 'cuda' in title and lib.cuda.is_available():
        pytest.skip('there is CUDA')
    names = space(lib)
    with pytest.raises(Exception) as caught:
        eval(code, names)
    text = str(caught.value).replace('tede', 'torch')
    assert type(caught.value).__name__ == kind and words in text
    if lib.__name__ == 'tede':
        assert HINTS.get(title, '') in text


UNPICKLABLE = '''
from tede.utils.data import DataLoader
if __name__ == '__main__':
    list(DataLoader([1, 2], num_workers=1, multiprocessing_context='spawn', collate_fn=lambda items: items))
'''


def test_a_loader_says_what_does_not_pickle(tmp_path):
    program = tmp_path / 'program.py'
    program.write_text(UNPICKLABLE)
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert "workers start by 'spawn'" in run.stderr and "the collate_fn can't be pickled" in run.stderr and 'num_workers=0' in run.stderr


def test_an_option_of_a_wrong_kind_is_named_where_sizes_come_first(lib):
    for make in (lib.zeros, lib.ones):
        with pytest.raises(TypeError, match=r"argument 'dtype' must be torch\.dtype, not str"):
            make(2, 3, dtype='float32')


def test_a_convolution_names_the_bias_whose_dtype_differs(lib):
    for dtype, name in (('uint8', 'unsigned char'), ('float64', 'double')):
        with pytest.raises(RuntimeError, match=rf'Input type \({name}\) and bias type \(float\) should be the same'):
            lib.nn.Conv2d(1, 1, 3)(lib.ones(1, 1, 8, 8, dtype=getattr(lib, dtype)))
