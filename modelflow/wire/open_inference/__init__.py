"""The Open Inference Protocol (KServe's v2): REST documents, binary tensors, gRPC messages."""
