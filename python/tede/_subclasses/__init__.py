"""Fake tensors, which have no values, and a mode that checks operators against their schemas."""
from tede._subclasses import fake_tensor
from tede._subclasses.fake_utils import CrossRefFakeMode  # noqa: F401

FakeTensor, FakeTensorMode = fake_tensor.FakeTensor, fake_tensor.FakeTensorMode
DynamicOutputShapeException, UnsupportedFakeTensorException = (fake_tensor.DynamicOutputShapeException,
                                                               fake_tensor.UnsupportedFakeTensorException)
