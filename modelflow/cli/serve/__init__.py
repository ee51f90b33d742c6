"""``modelflow serve`` and the processes that it starts."""
