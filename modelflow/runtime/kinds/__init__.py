"""What is particular to each kind of flow unit: how it is called, what its queues do."""
