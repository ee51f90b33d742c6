"""`ModelBoxEngine`: a graph that a program describes while the program runs.

Calls of the program become a `Part` of connected units. Each run of a part is a `PartRun`.
"""
