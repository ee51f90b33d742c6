"""What is seen of a running flow: snapshots of its figures, traces, metrics."""
