"""gRPC on our own HTTP/2 connection: the frames are zttp's, the messages and calls ours."""
