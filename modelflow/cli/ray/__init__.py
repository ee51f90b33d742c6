"""The commands of ``modelflow ray``: graphs and servers on a Ray cluster."""
