"""Helpers of the pipes: files and functions (common), decoding (decoder), positions (snapshot)."""
