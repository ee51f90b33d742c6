"""Finds better settings for a graph: it is measured, simulated, and tried under real load."""
