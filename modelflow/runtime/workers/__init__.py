"""The threads of a stage: they take batches, call units, report, and are watched."""
