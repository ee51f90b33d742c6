"""Commands that put a graph into service: deploy, pack, cache."""
