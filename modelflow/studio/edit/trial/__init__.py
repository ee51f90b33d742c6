"""Runs of an edited graph on samples, and the buffers of all outputs."""
