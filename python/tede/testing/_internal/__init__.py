"""What test suites of programs for PyTorch import from its own tests' tools: `common_utils` in so far as others use it."""
