"""The Open Inference Protocol (KServe v2): REST documents, binary tensors, gRPC messages.

In: requests in any of the three forms. Out: one `InferRequest`, and answers in the same form.
"""
