"""Several processes behind one port, each a whole server: who keeps them, and what they say."""
