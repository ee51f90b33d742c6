"""The calls of the image servers by hand: decode, resize, mean, model, best class."""

import sys
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import simplejpeg

__all__ = ["classify", "read_image", "session_of"]

SIZE = 224
MEAN = (123.68, 116.78, 103.94, 0.0)
cv2.setNumThreads(1)


def session_of(path: str, *, is_spinning: bool) -> onnxruntime.InferenceSession:
    """Opens a model with the defaults of ONNX Runtime.

    Args:
        path: The file of the model.
        is_spinning: Its threads spin while they wait, which is the default of the runtime.
    """
    settings = onnxruntime.SessionOptions()
    if not is_spinning:
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def read_image(jpeg: bytes) -> np.ndarray:
    """Returns the pixels that the model takes: (224, 224, 3) float32."""
    image = simplejpeg.decode_jpeg(jpeg, "BGR")
    return cv2.subtract(cv2.resize(image, (SIZE, SIZE)), MEAN, dtype=cv2.CV_32F)


def classify(session: onnxruntime.InferenceSession, images: np.ndarray) -> list[dict[str, object]]:
    """Returns the best class of each image, (n, 224, 224, 3) float32, and its score."""
    (scores,) = session.run(None, {"image": images})
    best = scores.argmax(1)
    return [
        {"index": int(index), "score": float(row[index])}
        for row, index in zip(scores, best, strict=True)
    ]


if __name__ == "__main__":
    session = session_of(sys.argv[1], is_spinning=False)
    print(classify(session, read_image(Path(sys.argv[2]).read_bytes())[None]))
