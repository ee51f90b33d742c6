"""The native gRPC server: zttp reads and writes HTTP/2 frames, this package handles the calls."""
