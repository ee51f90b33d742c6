"""The REST interfaces: TensorFlow Serving's, Open Inference, ``generate``, the repository."""
