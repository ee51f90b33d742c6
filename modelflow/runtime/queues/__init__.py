"""The bounded queue before each stage: pairing of ports, batches, room, idle workers."""
