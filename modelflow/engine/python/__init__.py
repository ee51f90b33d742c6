"""Models that a Python class of the user loads and runs."""
