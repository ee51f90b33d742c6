"""Replicas: several processes, each a whole server, and the supervisor that keeps them."""
