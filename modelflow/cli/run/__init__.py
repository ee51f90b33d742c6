"""``modelflow run``: a graph over files and lines."""
