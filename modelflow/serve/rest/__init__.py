"""The REST interfaces: TensorFlow Serving's, Open Inference, ``generate``, the repository.

In: bodies of HTTP requests. Out: replies. `modelflow.wire` converts bytes to arrays.
"""
