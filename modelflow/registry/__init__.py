"""How flow units are found and read: decorated, installed, in folders."""
