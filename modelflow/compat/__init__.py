"""Adapters: the programming interfaces of other frameworks over modelflow's own."""
