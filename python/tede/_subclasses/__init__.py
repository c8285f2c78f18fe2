"""Tensors that only pretend, and a mode that holds operators against their schemas."""
from tede._subclasses import fake_tensor
from tede._subclasses.fake_utils import CrossRefFakeMode  # noqa: F401

FakeTensor, FakeTensorMode = fake_tensor.FakeTensor, fake_tensor.FakeTensorMode
DynamicOutputShapeException, UnsupportedFakeTensorException = (fake_tensor.DynamicOutputShapeException,
                                                               fake_tensor.UnsupportedFakeTensorException)
