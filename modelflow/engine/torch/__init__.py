"""The engine ``torch``: TorchScript files and exported programs, by PyTorch."""

from modelflow.engine.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
