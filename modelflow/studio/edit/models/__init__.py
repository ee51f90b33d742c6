"""Brings model files and folders of units into an edited graph."""
