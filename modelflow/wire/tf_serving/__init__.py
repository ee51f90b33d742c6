"""What TensorFlow Serving's clients say and hear: REST documents and gRPC messages."""
