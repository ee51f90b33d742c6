"""Runs loaded models: in a session, as a function, or on tensors that are shared with PyTorch."""
