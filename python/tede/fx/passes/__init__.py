"""Passes over graphs: a pass takes a GraphModule and returns a PassResult."""
