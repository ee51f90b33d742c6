"""`ModelBoxEngine`: a graph that is described while the program runs.

In: calls of a program. Out: a `Part` of connected units, and a `PartRun` for each session on it.
"""
