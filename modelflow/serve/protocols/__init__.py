"""What REST and gRPC have in common of the two protocols."""
