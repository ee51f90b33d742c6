"""A running node: its calls, its outbox, its unit instances, its copies between devices."""
