"""Adapters: the programming interfaces of other frameworks, implemented with modelflow."""
