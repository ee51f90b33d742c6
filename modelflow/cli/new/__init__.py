"""``modelflow new``: templates, and the command that writes them."""
