"""Where PyTorch keeps the class of its jagged tensors, which checkpoints name."""
