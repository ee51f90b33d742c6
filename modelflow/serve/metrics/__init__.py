"""What is counted of requests: counts and times a model, snapshots, spans."""
