"""Applications to deploy."""

from modelflow.deploy.application import Application, Needs

__all__ = ["application"]


def application(*, gpus=0, **changes):
    """Returns an application with changed fields."""
    known = {
        "model": "image_classify",
        "modelflow": "1.2.3",
        "python": "3.11",
        "extras": ("onnx", "serve"),
        "needs": Needs(gpus, 32),
        "inputs": ("image",),
        "image": "image-classify:4f5e",
    }
    return Application(**{**known, **changes})
