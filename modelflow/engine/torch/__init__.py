"""The engine ``torch``: TorchScript files and exported programs, by PyTorch."""
