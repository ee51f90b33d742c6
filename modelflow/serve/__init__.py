"""Flows on the network: models, for the clients of serving protocols that exist already."""
