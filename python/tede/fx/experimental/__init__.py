"""What PyTorch keeps here for tracing with values that are unknown; only the questions have answers."""
