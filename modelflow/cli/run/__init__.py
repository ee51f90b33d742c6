"""The command ``modelflow run``: runs a graph over files and lines."""
