"""fx.experimental: PyTorch's symbolic shapes live here; of them there are only predicates, which answer for concrete values."""
