"""How a model that was read is run: in a session, as a function, on tensors that PyTorch shares."""
