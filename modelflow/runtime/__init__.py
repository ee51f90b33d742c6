"""The only layer that runs anything: threads, queues, batches, sessions."""
