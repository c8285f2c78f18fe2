"""Tensors that only pretend: tede has the device "meta" for that."""
from tede._subclasses import fake_tensor

FakeTensor, FakeTensorMode = fake_tensor.FakeTensor, fake_tensor.FakeTensorMode
