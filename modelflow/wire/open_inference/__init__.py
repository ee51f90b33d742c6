"""The Open Inference Protocol (KServe v2): REST documents, binary tensors, gRPC messages.

Requests in any of the three forms become an `InferRequest`. Answers have the form of the request.
"""
