"""The command ``modelflow serve`` and its processes."""
